/* kelter-vcard-drive: alsa-lib driven directly, for the tests of the virtual card.
 *
 *   play DEVICE RATE PERIOD BUFFER FRAMES END [mmap] [s32]
 *     Plays the samples 1, 2, ... 32000, 1, ... and says "started" when the card runs, "xrun N" at each
 *     underrun (N frames handed over so far; it prepares and goes on with the next sample), and "handed N"
 *     before its END:
 *       drain, drop   drain or drop, close, exit
 *       hold          hand over no more, wait until standard input closes; then drop
 *       watch         hand over no more, say "pointer N" for each position seen until all has sounded
 *   capture DEVICE RATE PERIOD BUFFER FRAMES FILE [mmap] [s32]
 *     Records FRAMES frames of 16 bits to FILE, in the same way.
 *
 * Exit status 0, or 1 with "failed CALL: REASON (ERRNO)". */
#define _GNU_SOURCE
#include <alsa/asoundlib.h>
#include <sched.h>
#include <stdbool.h>

static bool use_mmap, use_s32;
static snd_pcm_t *pcm;
static snd_pcm_uframes_t period, buffer;

static void must(const char *call, long result)
{
    if (result >= 0)
        return;
    printf("failed %s: %s (%ld)\n", call, snd_strerror((int)result), -result);
    exit(1);
}

static void say(const char *what, long number)
{
    printf("%s %ld\n", what, number);
    fflush(stdout);
}

static void set_hw(unsigned rate)
{
    snd_pcm_hw_params_t *hw;
    snd_pcm_hw_params_alloca(&hw);
    must("hw_params_any", snd_pcm_hw_params_any(pcm, hw));
    must("access", snd_pcm_hw_params_set_access(pcm, hw, use_mmap ? SND_PCM_ACCESS_MMAP_INTERLEAVED
                                                                  : SND_PCM_ACCESS_RW_INTERLEAVED));
    must("format", snd_pcm_hw_params_set_format(pcm, hw, use_s32 ? SND_PCM_FORMAT_S32_LE : SND_PCM_FORMAT_S16_LE));
    must("channels", snd_pcm_hw_params_set_channels(pcm, hw, 1));
    must("rate", snd_pcm_hw_params_set_rate(pcm, hw, rate, 0));
    must("period", snd_pcm_hw_params_set_period_size(pcm, hw, period, 0));
    must("buffer", snd_pcm_hw_params_set_buffer_size(pcm, hw, buffer));
    must("hw_params", snd_pcm_hw_params(pcm, hw));
}

/* Playback starts when its buffer is full, capture at the first read. */
static void set_sw(snd_pcm_uframes_t start)
{
    snd_pcm_sw_params_t *sw;
    snd_pcm_sw_params_alloca(&sw);
    must("sw_params_current", snd_pcm_sw_params_current(pcm, sw));
    must("start_threshold", snd_pcm_sw_params_set_start_threshold(pcm, sw, start));
    must("avail_min", snd_pcm_sw_params_set_avail_min(pcm, sw, period));
    must("sw_params", snd_pcm_sw_params(pcm, sw));
}

static void open_card(const char *device, snd_pcm_stream_t stream, char **argv)
{
    must("open", snd_pcm_open(&pcm, device, stream, 0));
    period = (snd_pcm_uframes_t)atol(argv[1]);
    buffer = (snd_pcm_uframes_t)atol(argv[2]);
    set_hw((unsigned)atol(argv[0]));
    set_sw(stream == SND_PCM_STREAM_PLAYBACK ? buffer : 1);
}

static void store(void *samples, snd_pcm_uframes_t index, long value)
{
    if (use_s32)
        ((int32_t *)samples)[index] = (int32_t)value * 65536;
    else
        ((int16_t *)samples)[index] = (int16_t)value;
}

static int16_t fetch(const void *samples, snd_pcm_uframes_t index)
{
    return use_s32 ? (int16_t)(((const int32_t *)samples)[index] / 65536) : ((const int16_t *)samples)[index];
}

static void number_samples(void *samples, long first, snd_pcm_uframes_t count)
{
    for (snd_pcm_uframes_t i = 0; i < count; i++)
        store(samples, i, (first + (long)i) % 32000 + 1);
}

static void *mapped(snd_pcm_uframes_t *offset, snd_pcm_uframes_t *count)
{
    const snd_pcm_channel_area_t *areas;
    must("mmap_begin", snd_pcm_mmap_begin(pcm, &areas, offset, count));
    return (char *)areas[0].addr + (areas[0].first + *offset * areas[0].step) / 8;
}

/* All that is available is taken in pieces up to the buffer's end, without asking alsa-lib again in
 * between: the way PortAudio does it. Returns the frames moved, or an error. */
static long move_mapped(void (*move)(void *samples, long first, snd_pcm_uframes_t count), long first,
                        snd_pcm_uframes_t most)
{
    long available = snd_pcm_avail_update(pcm);
    if (available > (long)most)
        available = (long)most;
    for (long left = available; left > 0;) {
        snd_pcm_uframes_t offset, part = (snd_pcm_uframes_t)left;
        void *samples = mapped(&offset, &part);
        move(samples, first + available - left, part);
        snd_pcm_sframes_t moved = snd_pcm_mmap_commit(pcm, offset, part);
        if (moved < 0)
            return moved;
        left -= moved;
    }
    return available;
}

static long play_some(long done, snd_pcm_uframes_t most)
{
    static int32_t scratch[1 << 16];
    if (use_mmap)
        return move_mapped(number_samples, done, most);
    most = most < period ? most : period;
    number_samples(scratch, done, most);
    return snd_pcm_writei(pcm, scratch, most);
}

static bool runs(void)
{
    return snd_pcm_state(pcm) == SND_PCM_STATE_RUNNING;
}

/* A mapped stream starts by hand, and waits by hand. */
static long after_moving(long moved)
{
    if (!use_mmap || moved < 0)
        return moved;
    if (!runs() && (snd_pcm_stream(pcm) == SND_PCM_STREAM_CAPTURE || snd_pcm_avail_update(pcm) == 0))
        must("start", snd_pcm_start(pcm));
    if (moved == 0 && runs()) {
        int woken = snd_pcm_wait(pcm, 2000);
        return woken < 0 ? woken : 0;
    }
    return moved;
}

static long recover(long error, long done)
{
    if (error != -EPIPE)
        must("transfer", error);
    say("xrun", done);
    must("prepare", snd_pcm_prepare(pcm));
    return 0;
}

static void watch_pointer(long done)
{
    long last = -1, available;
    while ((available = snd_pcm_avail(pcm)) >= 0) {
        long pointer = done + available - (long)buffer;
        if (pointer != last)
            say("pointer", pointer);
        last = pointer;
    }
}

static void finish(const char *end, long done)
{
    if (!strcmp(end, "watch"))
        watch_pointer(done);
    if (!strcmp(end, "hold"))
        while (getchar() != EOF)
            ;
    if (!strcmp(end, "drain"))
        must("drain", snd_pcm_drain(pcm));
    else
        must("drop", snd_pcm_drop(pcm));
    must("close", snd_pcm_close(pcm));
}

static void play(long frames, const char *end)
{
    bool announced = false;
    long done = 0;
    while (done < frames) {
        long moved = after_moving(play_some(done, (snd_pcm_uframes_t)(frames - done)));
        done += moved < 0 ? recover(moved, done) : moved;
        if (!announced && runs()) {
            announced = true;
            say("started", done);
        }
    }
    say("handed", done);
    finish(end, done);
}

static int16_t *recording;

static void keep_samples(void *samples, long first, snd_pcm_uframes_t count)
{
    for (snd_pcm_uframes_t i = 0; i < count; i++)
        recording[first + (long)i] = fetch(samples, i);
}

static long capture_some(long done, snd_pcm_uframes_t most)
{
    static int32_t scratch[1 << 16];
    if (use_mmap)
        return move_mapped(keep_samples, done, most);
    long got = snd_pcm_readi(pcm, scratch, most < period ? most : period);
    if (got > 0)
        keep_samples(scratch, done, (snd_pcm_uframes_t)got);
    return got;
}

static void capture(long frames, const char *path)
{
    recording = calloc((size_t)frames, sizeof *recording);
    for (long done = 0; done < frames;) {
        long moved = after_moving(capture_some(done, (snd_pcm_uframes_t)(frames - done)));
        done += moved < 0 ? recover(moved, done) : moved;
    }
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(recording, sizeof *recording, (size_t)frames, file) != (size_t)frames || fclose(file))
        must("write", -EIO);
    say("recorded", frames);
    finish("drop", frames);
}

int main(int argc, char **argv)
{
    if (argc < 8) {
        fprintf(stderr, "usage: %s play|capture DEVICE RATE PERIOD BUFFER FRAMES END|FILE [mmap] [s32]\n", argv[0]);
        return 2;
    }
    for (int i = 8; i < argc; i++) {
        use_mmap |= !strcmp(argv[i], "mmap");
        use_s32 |= !strcmp(argv[i], "s32");
    }
    /* On a loaded machine an underrun should be the test's doing. Goes on without the right to it. */
    sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
    bool playing = !strcmp(argv[1], "play");
    open_card(argv[2], playing ? SND_PCM_STREAM_PLAYBACK : SND_PCM_STREAM_CAPTURE, argv + 3);
    if (playing)
        play(atol(argv[6]), argv[7]);
    else
        capture(atol(argv[6]), argv[7]);
    return 0;
}
