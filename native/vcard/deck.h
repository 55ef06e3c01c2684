/* The tape deck: the keeper's rules for what sounds, what is void, and what gets logged.
 *
 * A playback stream that was started drives one segment of the tape. While the stream runs the
 * segment's end is open. A stop closes it: frames that the reported pointer had passed still come
 * out (they are in the converter's hidden latency); later ones are void. */
#ifndef KELTER_DECK_H
#define KELTER_DECK_H

#include "vcard.h"

#include <stdbool.h>
#include <sys/types.h>

enum { DECK_SEGMENTS = 64 };

struct deck_segment {
    int64_t first;     /* frame of its first sample */
    int64_t count;     /* frames; of the running stream, those handed over so far */
    uint64_t position; /* of its first sample in `pending` */
};

/* What the keeper knows of the holder of one direction. */
struct deck_side {
    pid_t pid; /* 0: nobody holds this direction */
    uint32_t rate, period, buffer;
    uint64_t origin; /* position of the stream's first frame */
};

struct deck {
    struct kelter_card *card;
    int32_t *tape;
    int64_t latency;
    int64_t scale;
    struct deck_side sides[2];
    struct deck_segment segments[DECK_SEGMENTS]; /* the last one belongs to the running stream */
    int segment_count;
};

/* Starts the clock at frame 0 now. The first offered rate is the rate in force. */
void deck_init(struct deck *deck, struct kelter_card *card, int32_t *tape, int64_t scale);

/* Puts on the tape all that has left the converter at `now`; a playback stream found dry stops. */
void deck_commit(struct deck *deck, int64_t now);

/* True while time has to be followed: a stream runs, or a closed one still comes out. */
bool deck_busy(const struct deck *deck);

/* Each of these commits first. `deck_end` ends the stream of one direction, if it runs. */
int deck_start(struct deck *deck, enum kelter_direction direction, uint64_t origin, int64_t now);
void deck_end(struct deck *deck, enum kelter_direction direction, enum kelter_event_kind why, int64_t now);
void deck_unplug(struct deck *deck, int64_t now);

/* A new piece of clock from `now`, continuous with the one before. 0 or an errno. */
int deck_set_clock(struct deck *deck, uint32_t rate, int64_t scale, int64_t now);

void deck_set_state(struct deck *deck, enum kelter_direction direction, enum kelter_state state);
enum kelter_state deck_state(const struct deck *deck, enum kelter_direction direction);

/* An event of no stream in particular, or one that ends nothing. */
void deck_log(struct deck *deck, enum kelter_event_kind kind, enum kelter_direction direction, int64_t now);

#endif
