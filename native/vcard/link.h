/* The plugin's connection to the card: its shared memory, and requests to the keeper. */
#ifndef KELTER_LINK_H
#define KELTER_LINK_H

#include "vcard.h"

struct kelter_link {
    int socket;
    struct kelter_card *card;
    const int32_t *tape;
};

/* 0 or a negative errno; -ENODEV when no keeper serves this directory. */
int link_open(struct kelter_link *link, const char *directory);
void link_close(struct kelter_link *link);

/* One round trip; blocks for tens of microseconds as a rule and two seconds at most. Returns 0 or a
 * negative errno (-ENODEV when the keeper is gone). `reply` may be NULL. */
int link_request(struct kelter_link *link, const struct kelter_request *request, struct kelter_reply *reply);

#endif
