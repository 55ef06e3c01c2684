/* What the microphone hears: the clips that control speaks, plus the loop from the converter. */
#ifndef KELTER_MICROPHONE_H
#define KELTER_MICROPHONE_H

#include "link.h"

/* The last frame (exclusive) that can be heard at `now_frame`. With a loop it waits for the tape, so
 * that nothing is heard which a stop would still void: a late keeper delays capture, never falsifies. */
int64_t microphone_ready(const struct kelter_link *link, int64_t now_frame);

/* Mixes frames [frame, frame + count) into `out`, saturated. */
void microphone_read(const struct kelter_link *link, int64_t frame, int64_t count, int16_t *out);

#endif
