/* The card's clock: conversions between monotonic time and card frames, exact for centuries. */
#ifndef KELTER_CLOCK_H
#define KELTER_CLOCK_H

#include "vcard.h"

#include <time.h>

__extension__ typedef unsigned __int128 kelter_u128;

static inline int64_t kelter_mono_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The piece that is in force. Acquire: pairs with the keeper's release after it filled the piece. */
static inline const struct kelter_clock_piece *kelter_clock_now(const struct kelter_card *card)
{
    uint64_t count = atomic_load_explicit(&card->clock_count, memory_order_acquire);
    return &card->clock[count - 1];
}

/* The frame leaving the converter at mono_ns, and with it how far into that frame we are. */
static inline int64_t kelter_frame_in(const struct kelter_clock_piece *piece, int64_t mono_ns,
                                      uint64_t *fraction)
{
    uint64_t elapsed = mono_ns > piece->mono_ns ? (uint64_t)(mono_ns - piece->mono_ns) : 0;
    kelter_u128 advance = (kelter_u128)elapsed * piece->step + piece->fraction;
    if (fraction)
        *fraction = (uint64_t)advance;
    return piece->frame + (int64_t)(advance >> 64);
}

static inline int64_t kelter_frame_at(const struct kelter_card *card, int64_t mono_ns)
{
    return kelter_frame_in(kelter_clock_now(card), mono_ns, NULL);
}

/* The first nanosecond at which the clock shows `frame`. */
static inline int64_t kelter_time_of(const struct kelter_card *card, int64_t frame)
{
    const struct kelter_clock_piece *piece = kelter_clock_now(card);
    if (frame <= piece->frame)
        return piece->mono_ns;
    kelter_u128 advance = ((kelter_u128)(uint64_t)(frame - piece->frame) << 64) - piece->fraction;
    return piece->mono_ns + (int64_t)((advance + piece->step - 1) / piece->step);
}

#endif
