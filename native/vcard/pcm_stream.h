/* One open direction of the card, as the plugin's files share it. */
#ifndef KELTER_PCM_STREAM_H
#define KELTER_PCM_STREAM_H

#include "link.h"

#include <alsa/asoundlib.h>
#include <alsa/pcm_external.h>
#include <stdbool.h>

enum { RETRY_NS = 200000 }; /* when poll was early: the keeper, not the clock, is being waited for */

struct kelter_pcm {
    snd_pcm_ioplug_t io;
    struct kelter_link link;
    struct kelter_stream *stream;
    uint64_t generation; /* of the card when this stream was opened */
    uint64_t origin;     /* position of the stream's first frame since prepare */
    int64_t pointer;     /* last one reported */
    snd_pcm_uframes_t avail_min;
};

bool is_playback(const struct kelter_pcm *pcm);

/* The card was unplugged since this stream was opened; nothing it does has an effect any more. */
bool is_dead(const struct kelter_pcm *pcm);

enum kelter_state state_of(const struct kelter_pcm *pcm);
bool is_running(const struct kelter_pcm *pcm);
int64_t start_frame(const struct kelter_pcm *pcm);

/* One request to the keeper; 0 or a negative errno. */
int ask(struct kelter_pcm *pcm, enum kelter_op op, int64_t a, int64_t b, int64_t c);

/* Frames since the start, as the hardware reports them; and what they leave for the application. */
int64_t read_pointer(const struct kelter_pcm *pcm);
int64_t frames_ready(const struct kelter_pcm *pcm, int64_t pointer);

/* Has the hardware overtaken the application? The keeper has the last word. */
bool has_overrun(struct kelter_pcm *pcm, int64_t pointer);

/* What a capturing application has taken is known to alsa-lib alone; the log wants it. */
void publish_taken(struct kelter_pcm *pcm);

/* The poll timer: ready when avail_min is reached, but not before a time; ready always; never. */
void arm(struct kelter_pcm *pcm, int64_t not_before_ns);
void make_ready(struct kelter_pcm *pcm);
void disarm(struct kelter_pcm *pcm);

/* ioplug's transfer callback. */
snd_pcm_sframes_t kelter_transfer(snd_pcm_ioplug_t *io, const snd_pcm_channel_area_t *areas,
                                  snd_pcm_uframes_t offset, snd_pcm_uframes_t size);

#endif
