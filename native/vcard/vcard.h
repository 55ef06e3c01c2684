/* The virtual sound card: what its three parties share.
 *
 *   plugin   libasound_module_pcm_kelter.so, inside whatever program opened the card
 *   keeper   kelter-vcard-keeper, which outlives that program and is the card's "hardware"
 *   control  handset/fakes/virtual_card.py, which sets faults and reads the truth
 *
 * The plugin hands samples over in `pending`. Only the keeper writes the tape, and only when the
 * card's clock says that a sample has left the converter. So a sample that was handed over and then
 * dropped, or whose owner was killed, is never on the tape.
 *
 * Commands go to the keeper as fixed-size SEQPACKET messages over <directory>/socket, one reply per
 * request. They are rare (open, start, stop, a fault). The steady path (transfer, pointer, commit)
 * uses shared memory only.
 *
 * Units: "frame" is a card frame, counted by the card's clock since the keeper started, never reset.
 * "Position" is a free-running index into `pending`. Times are CLOCK_MONOTONIC nanoseconds.
 *
 * Memory order: every atomic has the one writer named beside it. Publishing stores are release, the
 * loads that lead to data are acquire; there are no fences. Control writes only arena samples, and
 * publishes them by a message.
 *
 * Files in <directory>: `card` (struct kelter_card), `tape` (int32_t per frame, a ring), `socket`. */
#ifndef KELTER_VCARD_H
#define KELTER_VCARD_H

#include <stdatomic.h>
#include <stdint.h>

#define KELTER_MAGIC UINT64_C(0x316472614372746b) /* "ktrCard1" */
#define KELTER_VERSION 1u

enum {
    KELTER_MAX_RATES = 8,
    KELTER_PENDING_FRAMES = 1 << 19, /* > largest buffer + the longest delay of the keeper */
    KELTER_ARENA_FRAMES = 1 << 23,
    KELTER_CLOCK_PIECES = 1 << 10,
    KELTER_EVENTS = 1 << 16,
    KELTER_CLIPS = 1 << 8,
    KELTER_MAX_LATENCY = 1 << 16,
};

/* A tape word is 0 where nothing was driven, else KELTER_DRIVEN | (uint16_t)sample. */
#define KELTER_DRIVEN INT32_C(0x10000)

/* Loop gain 1.0: a digital loop, bit exact. */
#define KELTER_UNITY_GAIN INT32_C(0x10000)

/* Clock scale 1.0 (speed x drift), in 1/2^32. */
#define KELTER_UNITY_SCALE (INT64_C(1) << 32)

enum kelter_direction { KELTER_PLAYBACK = 0, KELTER_CAPTURE = 1, KELTER_CARD = 2 };

enum kelter_state {
    KELTER_CLOSED = 0,
    KELTER_OPEN,
    KELTER_SETUP,
    KELTER_PREPARED,
    KELTER_RUNNING,
    KELTER_DRAINING,
    KELTER_XRUN,
};

/* One direction of the card. */
struct kelter_stream {
    _Atomic uint32_t state;   /* keeper */
    uint32_t reserved;
    _Atomic int64_t start;    /* keeper: frame at which the reported pointer was 0 */
    _Atomic uint64_t written; /* plugin: playback, position after the last frame handed over (release);
                                 capture, frames the application has taken */
};

/* A stretch of constant speed: frame(t) = frame + floor(((t - mono_ns) * step + fraction) / 2^64).
 * The table only grows, so that times of past frames stay right after a change of drift. */
struct kelter_clock_piece {
    int64_t mono_ns;
    int64_t frame;
    uint64_t fraction; /* of a frame, in 1/2^64 */
    uint64_t step;     /* frames per nanosecond, in 1/2^64 */
    uint64_t rate;     /* nominal frames per second */
};

enum kelter_event_kind {
    KELTER_EV_OPEN = 1,
    KELTER_EV_CLOSE,
    KELTER_EV_START,
    KELTER_EV_STOP,
    KELTER_EV_DRAINED,
    KELTER_EV_XRUN,
    KELTER_EV_OWNER_DIED,
    KELTER_EV_UNPLUG,
    KELTER_EV_REPLUG,
    KELTER_EV_CLOCK,
};

/* `frame`: start, the frame at which the first sample leaves the converter (playback) or the first
 * one recorded (capture); the end of a playback stream, the first frame that it does not drive; else
 * the clock. `handed`: frames handed over (playback) or taken (capture) since the stream was prepared;
 * at a start, those handed over before it. `voided`: of these, the last ones that will never sound. */
struct kelter_event {
    uint32_t kind;
    uint32_t direction;
    int64_t frame;
    int64_t mono_ns;
    int64_t handed;
    int64_t voided;
    int32_t pid;
    uint32_t rate;
    uint32_t period;
    uint32_t buffer;
};

/* Sound in front of the microphone: `count` arena samples from `position`, heard at `frame`. */
struct kelter_clip {
    int64_t frame;
    uint64_t position;
    int64_t count;
};

struct kelter_card {
    /* Set before the socket exists, constant afterwards. The offsets let control find its way
     * without a second description of this structure. */
    uint64_t magic;
    uint32_t version;
    uint32_t tape_frames; /* a power of two */
    uint64_t committed_offset;
    uint64_t clock_offset;
    uint64_t event_offset;
    uint64_t arena_offset;
    uint32_t rate_count;
    uint32_t rates[KELTER_MAX_RATES];
    uint32_t reserved;

    _Atomic int64_t committed;   /* keeper: the tape is final below this frame (release) */
    _Atomic uint64_t generation; /* keeper: +1 at each unplug; streams of an older one are dead */
    _Atomic int64_t loop_delay;  /* keeper: frames from converter to microphone */
    _Atomic int32_t loop_gain;   /* keeper: in 1/KELTER_UNITY_GAIN */
    _Atomic uint32_t quantum;    /* keeper: nonzero, the pointer moves in whole periods */
    struct kelter_stream streams[2];

    _Atomic uint64_t clock_count; /* keeper: pieces valid (release) */
    struct kelter_clock_piece clock[KELTER_CLOCK_PIECES];

    _Atomic uint64_t event_count; /* keeper: entries valid (release) */
    _Atomic uint64_t event_lost;  /* keeper: events that found the log full */
    struct kelter_event events[KELTER_EVENTS];

    _Atomic uint64_t clip_count; /* keeper: clips published so far, a ring (release) */
    struct kelter_clip clips[KELTER_CLIPS];

    int16_t pending[KELTER_PENDING_FRAMES]; /* plugin, by position */
    int16_t arena[KELTER_ARENA_FRAMES];     /* control, by position */
};

enum kelter_op {
    /* from the plugin; all but OPEN refer to the stream that this connection opened */
    KELTER_OP_OPEN = 1,  /* direction; -> generation, position to write at */
    KELTER_OP_CONFIGURE, /* rate, period, buffer */
    KELTER_OP_PREPARE,
    KELTER_OP_START,     /* position of the stream's first frame */
    KELTER_OP_DRAIN,     /* let what was handed over sound, then stop */
    KELTER_OP_CHECK,     /* the plugin saw the pointer overtake the application: decide now */
    KELTER_OP_STOP,
    KELTER_OP_CLOSE,
    /* from control */
    KELTER_OP_SYNC = 64, /* bring the tape up to now; -> committed, events, events lost, mic end */
    KELTER_OP_SCALE,     /* clock scale in 1/2^32, from now */
    KELTER_OP_LOOP,      /* gain, delay */
    KELTER_OP_LATENCY,   /* hidden frames, from the next start */
    KELTER_OP_QUANTUM,   /* 0 or 1 */
    KELTER_OP_REFUSE,    /* direction, errno (0: allow) */
    KELTER_OP_INJECT,    /* direction: one xrun now; -> 1 if a stream was running */
    KELTER_OP_PLUG,      /* 0 unplugs, 1 plugs in */
    KELTER_OP_RESERVE,   /* samples; -> arena position */
    KELTER_OP_SPEAK,     /* arena position, samples, frame (-1: soon); -> frame */
};

struct kelter_request {
    uint32_t op;
    uint32_t direction;
    int64_t args[4];
};

struct kelter_reply {
    int32_t error; /* 0 or a positive errno */
    uint32_t reserved;
    int64_t values[4];
};

#endif
