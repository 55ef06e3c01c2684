#include "microphone.h"

#include <stdbool.h>

enum { CHUNK = 256 };

int64_t microphone_ready(const struct kelter_link *link, int64_t now_frame)
{
    const struct kelter_card *card = link->card;
    if (atomic_load_explicit(&card->loop_gain, memory_order_relaxed) == 0)
        return now_frame;
    int64_t heard = atomic_load_explicit(&card->committed, memory_order_acquire) +
                    atomic_load_explicit(&card->loop_delay, memory_order_relaxed);
    return heard < now_frame ? heard : now_frame;
}

static void add_loop(const struct kelter_link *link, int64_t frame, int64_t count, int32_t *mix)
{
    const struct kelter_card *card = link->card;
    int64_t gain = atomic_load_explicit(&card->loop_gain, memory_order_relaxed);
    if (gain == 0)
        return;
    int64_t first = frame - atomic_load_explicit(&card->loop_delay, memory_order_relaxed);
    int64_t committed = atomic_load_explicit(&card->committed, memory_order_acquire);
    for (int64_t i = 0; i < count; i++) {
        int64_t source = first + i;
        if (source < 0 || source >= committed)
            continue;
        int16_t sample = (int16_t)(uint16_t)link->tape[source & (card->tape_frames - 1)];
        mix[i] += (int32_t)(sample * gain / KELTER_UNITY_GAIN);
    }
}

static void add_clip(const struct kelter_card *card, const struct kelter_clip *clip, int64_t frame,
                     int64_t count, int32_t *mix)
{
    int64_t from = clip->frame > frame ? clip->frame : frame;
    int64_t to = clip->frame + clip->count < frame + count ? clip->frame + clip->count : frame + count;
    for (int64_t at = from; at < to; at++) {
        uint64_t position = clip->position + (uint64_t)(at - clip->frame);
        mix[at - frame] += card->arena[position % KELTER_ARENA_FRAMES];
    }
}

static void add_clips(const struct kelter_card *card, int64_t frame, int64_t count, int32_t *mix)
{
    uint64_t end = atomic_load_explicit(&card->clip_count, memory_order_acquire);
    for (uint64_t i = end > KELTER_CLIPS ? end - KELTER_CLIPS : 0; i < end; i++)
        add_clip(card, &card->clips[i % KELTER_CLIPS], frame, count, mix);
}

static int16_t saturate(int32_t value)
{
    if (value > INT16_MAX)
        return INT16_MAX;
    return value < INT16_MIN ? INT16_MIN : (int16_t)value;
}

void microphone_read(const struct kelter_link *link, int64_t frame, int64_t count, int16_t *out)
{
    for (int64_t done = 0; done < count; done += CHUNK) {
        int64_t part = count - done < CHUNK ? count - done : CHUNK;
        int32_t mix[CHUNK] = {0};
        add_clips(link->card, frame + done, part, mix);
        add_loop(link, frame + done, part, mix);
        for (int64_t i = 0; i < part; i++)
            out[done + i] = saturate(mix[i]);
    }
}
