#include "microphone.h"
#include "pcm_stream.h"

#include <errno.h>

static void *sample_at(const snd_pcm_channel_area_t *area, snd_pcm_uframes_t frame)
{
    return (char *)area->addr + (area->first + frame * area->step) / 8;
}

/* Channel 0 is the card's only loudspeaker. */
static void hand_over(struct kelter_pcm *pcm, const snd_pcm_channel_area_t *areas, snd_pcm_uframes_t offset,
                      snd_pcm_uframes_t count)
{
    uint64_t position = pcm->origin + pcm->io.appl_ptr;
    for (snd_pcm_uframes_t i = 0; i < count; i++) {
        const void *source = sample_at(&areas[0], offset + i);
        int16_t sample = pcm->io.format == SND_PCM_FORMAT_S32_LE ? (int16_t)(*(const int32_t *)source >> 16)
                                                                 : *(const int16_t *)source;
        pcm->link.card->pending[(position + i) % KELTER_PENDING_FRAMES] = sample;
    }
    if (!is_dead(pcm)) /* or another stream may own the position by now */
        atomic_store_explicit(&pcm->stream->written, position + count, memory_order_release);
}

static snd_pcm_sframes_t play(struct kelter_pcm *pcm, const snd_pcm_channel_area_t *areas,
                              snd_pcm_uframes_t offset, snd_pcm_uframes_t count)
{
    bool running = is_running(pcm);
    if (state_of(pcm) == KELTER_XRUN || (running && has_overrun(pcm, read_pointer(pcm))))
        return -EPIPE;
    hand_over(pcm, areas, offset, count);
    return (snd_pcm_sframes_t)count;
}

static void store_frame(const struct kelter_pcm *pcm, const snd_pcm_channel_area_t *areas,
                        snd_pcm_uframes_t frame, int16_t sample)
{
    for (unsigned channel = 0; channel < pcm->io.channels; channel++) {
        void *target = sample_at(&areas[channel], frame);
        if (pcm->io.format == SND_PCM_FORMAT_S32_LE)
            *(int32_t *)target = sample * 65536;
        else
            *(int16_t *)target = sample;
    }
}

/* May be asked for the same frames again: with a mapped buffer alsa-lib asks whenever the application
 * looks, and counts a frame as taken only when the application commits it. */
static void record(struct kelter_pcm *pcm, const snd_pcm_channel_area_t *areas, snd_pcm_uframes_t offset,
                   snd_pcm_uframes_t count)
{
    int64_t frame = start_frame(pcm) + (int64_t)pcm->io.appl_ptr;
    for (snd_pcm_uframes_t done = 0; done < count;) {
        int16_t chunk[256];
        snd_pcm_uframes_t part = count - done < 256 ? count - done : 256;
        microphone_read(&pcm->link, frame + (int64_t)done, (int64_t)part, chunk);
        for (snd_pcm_uframes_t i = 0; i < part; i++)
            store_frame(pcm, areas, offset + done + i, chunk[i]);
        done += part;
    }
}

snd_pcm_sframes_t kelter_transfer(snd_pcm_ioplug_t *io, const snd_pcm_channel_area_t *areas,
                                  snd_pcm_uframes_t offset, snd_pcm_uframes_t size)
{
    struct kelter_pcm *pcm = io->private_data;
    if (is_dead(pcm))
        return (snd_pcm_sframes_t)size;
    if (is_playback(pcm))
        return play(pcm, areas, offset, size);
    record(pcm, areas, offset, size);
    return (snd_pcm_sframes_t)size;
}
