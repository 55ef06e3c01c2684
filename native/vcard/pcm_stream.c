#include "pcm_stream.h"

#include "clock.h"
#include "microphone.h"

#include <sys/timerfd.h>

bool is_playback(const struct kelter_pcm *pcm)
{
    return pcm->io.stream == SND_PCM_STREAM_PLAYBACK;
}

/* Acquire: pairs with the keeper's release after it has closed the streams of an unplugged card. */
bool is_dead(const struct kelter_pcm *pcm)
{
    return atomic_load_explicit(&pcm->link.card->generation, memory_order_acquire) != pcm->generation;
}

enum kelter_state state_of(const struct kelter_pcm *pcm)
{
    return (enum kelter_state)atomic_load_explicit(&pcm->stream->state, memory_order_acquire);
}

void publish_taken(struct kelter_pcm *pcm)
{
    if (!is_playback(pcm) && !is_dead(pcm))
        atomic_store_explicit(&pcm->stream->written, pcm->io.appl_ptr, memory_order_relaxed);
}

bool is_running(const struct kelter_pcm *pcm)
{
    enum kelter_state state = state_of(pcm);
    return state == KELTER_RUNNING || state == KELTER_DRAINING;
}

int ask(struct kelter_pcm *pcm, enum kelter_op op, int64_t a, int64_t b, int64_t c)
{
    struct kelter_request request = {.op = op, .args = {a, b, c}};
    return link_request(&pcm->link, &request, NULL);
}

int64_t start_frame(const struct kelter_pcm *pcm)
{
    return atomic_load_explicit(&pcm->stream->start, memory_order_relaxed);
}

int64_t read_pointer(const struct kelter_pcm *pcm)
{
    int64_t frame = kelter_frame_at(pcm->link.card, kelter_mono_ns());
    if (!is_playback(pcm))
        frame = microphone_ready(&pcm->link, frame);
    int64_t pointer = frame - start_frame(pcm);
    if (atomic_load_explicit(&pcm->link.card->quantum, memory_order_relaxed))
        pointer -= pointer % (int64_t)pcm->io.period_size;
    return pointer > pcm->pointer ? pointer : pcm->pointer;
}

int64_t frames_ready(const struct kelter_pcm *pcm, int64_t pointer)
{
    int64_t ahead = (int64_t)pcm->io.appl_ptr - pointer;
    return is_playback(pcm) ? (int64_t)pcm->io.buffer_size - ahead : -ahead;
}

bool has_overrun(struct kelter_pcm *pcm, int64_t pointer)
{
    int64_t limit = (int64_t)pcm->io.buffer_size - (is_playback(pcm) ? 1 : 0);
    if (frames_ready(pcm, pointer) > limit)
        ask(pcm, KELTER_OP_CHECK, 0, 0, 0);
    return state_of(pcm) == KELTER_XRUN;
}

static void set_timer(struct kelter_pcm *pcm, int64_t mono_ns)
{
    struct itimerspec when = {.it_value = {mono_ns / 1000000000, mono_ns % 1000000000}};
    timerfd_settime(pcm->io.poll_fd, TFD_TIMER_ABSTIME, &when, NULL);
}

void make_ready(struct kelter_pcm *pcm)
{
    set_timer(pcm, 1);
}

void disarm(struct kelter_pcm *pcm)
{
    set_timer(pcm, 0);
}

void arm(struct kelter_pcm *pcm, int64_t not_before_ns)
{
    int64_t pointer = (int64_t)pcm->io.appl_ptr + (int64_t)pcm->avail_min;
    if (is_playback(pcm))
        pointer -= (int64_t)pcm->io.buffer_size;
    int64_t period = (int64_t)pcm->io.period_size;
    if (pointer > 0 && atomic_load_explicit(&pcm->link.card->quantum, memory_order_relaxed))
        pointer = (pointer + period - 1) / period * period;
    int64_t due = kelter_time_of(pcm->link.card, start_frame(pcm) + pointer);
    set_timer(pcm, due > not_before_ns ? due : not_before_ns);
}
