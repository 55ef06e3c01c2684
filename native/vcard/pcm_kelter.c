/* The ALSA side of the virtual card: `type kelter`, one open per direction.
 *
 * The keeper decides whether a stream runs; the plugin moves samples and reads the clock. Poll is a
 * timer, set to the moment at which the application's avail_min is reached. With an accelerated clock
 * periods are that much shorter in real time; time stamps stay CLOCK_MONOTONIC.
 *
 * An unplugged card gives no error, as PortAudio sees a USB card that was pulled out: the pointer
 * freezes and poll never returns. Rewinding is not supported: what was handed over stays so. */
#define _GNU_SOURCE
#include "clock.h"
#include "pcm_stream.h"

#include <errno.h>
#include <poll.h>
#include <sys/timerfd.h>

enum {
    MIN_PERIOD_BYTES = 64,
    MAX_PERIOD_BYTES = 1 << 16,
    MAX_BUFFER_BYTES = 1 << 18,
};

/* --- while it runs -------------------------------------------------------------------------- */

static int kelter_poll_revents(snd_pcm_ioplug_t *io, struct pollfd *fds, unsigned count,
                               unsigned short *revents)
{
    struct kelter_pcm *pcm = io->private_data;
    unsigned short ready = is_playback(pcm) ? POLLOUT : POLLIN;
    *revents = 0;
    if (count != 1 || !(fds[0].revents & POLLIN))
        return 0;
    if (is_dead(pcm)) {
        disarm(pcm);
    } else if (state_of(pcm) == KELTER_XRUN) {
        snd_pcm_ioplug_set_state(io, SND_PCM_STATE_XRUN); /* else alsa-lib makes EIO of POLLERR */
        *revents = ready | POLLERR;
    } else if (!is_running(pcm) || frames_ready(pcm, read_pointer(pcm)) >= (int64_t)pcm->avail_min) {
        *revents = ready;
    } else {
        arm(pcm, kelter_mono_ns() + RETRY_NS);
    }
    return 0;
}

static snd_pcm_sframes_t kelter_pointer(snd_pcm_ioplug_t *io)
{
    struct kelter_pcm *pcm = io->private_data;
    if (is_dead(pcm))
        return (snd_pcm_sframes_t)pcm->pointer;
    if (state_of(pcm) == KELTER_XRUN)
        return -EPIPE;
    if (!is_running(pcm))
        return (snd_pcm_sframes_t)pcm->pointer;
    publish_taken(pcm);
    int64_t pointer = read_pointer(pcm);
    if (has_overrun(pcm, pointer))
        return -EPIPE;
    pcm->pointer = pointer;
    return (snd_pcm_sframes_t)pointer;
}

/* --- life ----------------------------------------------------------------------------------- */

static int kelter_hw_params(snd_pcm_ioplug_t *io, snd_pcm_hw_params_t *params)
{
    struct kelter_pcm *pcm = io->private_data;
    (void)params;
    pcm->avail_min = io->period_size;
    return ask(pcm, KELTER_OP_CONFIGURE, io->rate, (int64_t)io->period_size, (int64_t)io->buffer_size);
}

static int kelter_sw_params(snd_pcm_ioplug_t *io, snd_pcm_sw_params_t *params)
{
    struct kelter_pcm *pcm = io->private_data;
    int error = snd_pcm_sw_params_get_avail_min(params, &pcm->avail_min);
    if (pcm->avail_min > io->buffer_size)
        pcm->avail_min = io->buffer_size;
    return error;
}

/* A playback stream can be written to before it starts, so poll says so. */
static int kelter_prepare(snd_pcm_ioplug_t *io)
{
    struct kelter_pcm *pcm = io->private_data;
    int error = ask(pcm, KELTER_OP_PREPARE, 0, 0, 0);
    pcm->pointer = 0;
    if (is_playback(pcm)) {
        pcm->origin = atomic_load_explicit(&pcm->stream->written, memory_order_relaxed);
        make_ready(pcm);
    } else {
        disarm(pcm);
    }
    return error;
}

static int kelter_start(snd_pcm_ioplug_t *io)
{
    struct kelter_pcm *pcm = io->private_data;
    publish_taken(pcm);
    int error = ask(pcm, KELTER_OP_START, (int64_t)pcm->origin, 0, 0);
    if (!error && !is_dead(pcm))
        arm(pcm, 1);
    return error;
}

static int kelter_stop(snd_pcm_ioplug_t *io)
{
    struct kelter_pcm *pcm = io->private_data;
    disarm(pcm);
    publish_taken(pcm);
    return ask(pcm, KELTER_OP_STOP, 0, 0, 0);
}

/* Blocks until the last frame is due and the keeper has let go of the stream. */
static int wait_drained(struct kelter_pcm *pcm)
{
    int64_t due = kelter_time_of(pcm->link.card, start_frame(pcm) + (int64_t)pcm->io.appl_ptr);
    while (is_running(pcm) && !is_dead(pcm)) {
        int64_t now = kelter_mono_ns();
        int64_t left = due > now ? due - now : RETRY_NS;
        struct timespec nap = {left / 1000000000, left % 1000000000};
        clock_nanosleep(CLOCK_MONOTONIC, 0, &nap, NULL);
    }
    return 0;
}

static int kelter_drain(snd_pcm_ioplug_t *io)
{
    struct kelter_pcm *pcm = io->private_data;
    if (!is_playback(pcm) || is_dead(pcm) || io->appl_ptr == 0)
        return 0;
    int error = state_of(pcm) == KELTER_PREPARED ? kelter_start(io) : 0;
    if (!error)
        error = ask(pcm, KELTER_OP_DRAIN, 0, 0, 0);
    if (error)
        return error;
    return io->nonblock && is_running(pcm) ? -EAGAIN : wait_drained(pcm);
}

static int kelter_close(snd_pcm_ioplug_t *io)
{
    struct kelter_pcm *pcm = io->private_data;
    ask(pcm, KELTER_OP_CLOSE, 0, 0, 0);
    link_close(&pcm->link);
    close(io->poll_fd);
    free(pcm);
    return 0;
}

static const snd_pcm_ioplug_callback_t callbacks = {
    .start = kelter_start,
    .stop = kelter_stop,
    .pointer = kelter_pointer,
    .transfer = kelter_transfer,
    .close = kelter_close,
    .hw_params = kelter_hw_params,
    .sw_params = kelter_sw_params,
    .prepare = kelter_prepare,
    .drain = kelter_drain,
    .poll_revents = kelter_poll_revents,
};

/* --- open ----------------------------------------------------------------------------------- */

static int set_constraints(struct kelter_pcm *pcm)
{
    static const unsigned accesses[] = {SND_PCM_ACCESS_MMAP_INTERLEAVED, SND_PCM_ACCESS_RW_INTERLEAVED};
    static const unsigned formats[] = {SND_PCM_FORMAT_S16_LE, SND_PCM_FORMAT_S32_LE};
    const struct kelter_card *card = pcm->link.card;
    snd_pcm_ioplug_t *io = &pcm->io;
    int error = snd_pcm_ioplug_set_param_list(io, SND_PCM_IOPLUG_HW_ACCESS, 2, accesses);
    if (!error)
        error = snd_pcm_ioplug_set_param_list(io, SND_PCM_IOPLUG_HW_FORMAT, 2, formats);
    if (!error)
        error = snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_CHANNELS, 1, 2);
    if (!error)
        error = snd_pcm_ioplug_set_param_list(io, SND_PCM_IOPLUG_HW_RATE, card->rate_count, card->rates);
    if (!error)
        error = snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_PERIOD_BYTES, MIN_PERIOD_BYTES,
                                                MAX_PERIOD_BYTES);
    if (!error)
        error = snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_BUFFER_BYTES, 2 * MIN_PERIOD_BYTES,
                                                MAX_BUFFER_BYTES);
    if (!error)
        error = snd_pcm_ioplug_set_param_minmax(io, SND_PCM_IOPLUG_HW_PERIODS, 2, 1024);
    return error;
}

static int take_stream(struct kelter_pcm *pcm, const char *directory, snd_pcm_stream_t stream)
{
    struct kelter_request request = {
        .op = KELTER_OP_OPEN,
        .direction = stream == SND_PCM_STREAM_PLAYBACK ? KELTER_PLAYBACK : KELTER_CAPTURE,
    };
    struct kelter_reply reply;
    int error = link_open(&pcm->link, directory);
    if (!error)
        error = link_request(&pcm->link, &request, &reply);
    if (error)
        return error;
    pcm->generation = (uint64_t)reply.values[0];
    pcm->origin = (uint64_t)reply.values[1];
    pcm->stream = &pcm->link.card->streams[request.direction];
    return 0;
}

static int read_directory(snd_config_t *config, const char **directory)
{
    snd_config_iterator_t at, next;
    snd_config_for_each(at, next, config)
    {
        snd_config_t *node = snd_config_iterator_entry(at);
        const char *id;
        if (snd_config_get_id(node, &id) < 0 || !strcmp(id, "comment") || !strcmp(id, "type") ||
            !strcmp(id, "hint"))
            continue;
        if (strcmp(id, "directory") != 0 || snd_config_get_string(node, directory) < 0) {
            SNDERR("kelter: unknown or unreadable field '%s'; a card has one: directory", id);
            return -EINVAL;
        }
    }
    if (*directory)
        return 0;
    SNDERR("kelter: no directory given");
    return -EINVAL;
}

/* Once created, the pcm frees everything through the close callback. */
static int create(struct kelter_pcm *pcm, const char *name, snd_pcm_stream_t stream, int mode)
{
    snd_pcm_ioplug_t *io = &pcm->io;
    io->version = SND_PCM_IOPLUG_VERSION;
    io->name = "Kelter virtual card";
    io->callback = &callbacks;
    io->private_data = pcm;
    io->poll_events = POLLIN;
    io->flags = SND_PCM_IOPLUG_FLAG_LISTED | SND_PCM_IOPLUG_FLAG_MONOTONIC | SND_PCM_IOPLUG_FLAG_BOUNDARY_WA;
    io->poll_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    int error = io->poll_fd < 0 ? -errno : snd_pcm_ioplug_create(io, name, stream, mode);
    if (error) {
        if (io->poll_fd >= 0)
            close(io->poll_fd);
        link_close(&pcm->link);
        free(pcm);
        return error;
    }
    error = set_constraints(pcm);
    if (error)
        snd_pcm_ioplug_delete(io);
    return error;
}

/* All else is hidden, so that no name here can meet one of the program that loads the plugin. */
#pragma GCC visibility push(default)
SND_PCM_PLUGIN_DEFINE_FUNC(kelter)
{
    (void)root;
    const char *directory = NULL;
    int error = read_directory(conf, &directory);
    if (error)
        return error;
    struct kelter_pcm *pcm = calloc(1, sizeof *pcm);
    if (!pcm)
        return -ENOMEM;
    error = take_stream(pcm, directory, stream);
    if (error) {
        link_close(&pcm->link);
        free(pcm);
        return error;
    }
    error = create(pcm, name, stream, mode);
    if (!error)
        *pcmp = pcm->io.pcm;
    return error;
}
SND_PCM_PLUGIN_SYMBOL(kelter)
#pragma GCC visibility pop
