/* The keeper's front desk: who holds the card, and what each request may do. */
#ifndef KELTER_DESK_H
#define KELTER_DESK_H

#include "deck.h"

struct desk_client {
    int fd, pidfd;
    pid_t pid;
    enum kelter_direction direction; /* KELTER_CARD: holds no stream */
    uint64_t generation;             /* of the card when the stream was opened */
};

struct desk {
    struct deck deck;
    bool unplugged;
    int refusal[2]; /* errno for the next opens, 0: none */
    uint64_t arena_head;
    int64_t mic_end; /* the frame after the last clip */
};

void desk_init(struct desk *desk, struct kelter_card *card, int32_t *tape, int64_t scale);

struct kelter_reply desk_handle(struct desk *desk, struct desk_client *client,
                                const struct kelter_request *request, int64_t now);

/* The client hung up or died. A stream that it did not close ends here. */
void desk_lost(struct desk *desk, struct desk_client *client, int64_t now);

#endif
