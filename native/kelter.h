/* The contract between the native audio code and everything else.
 *
 * This file is read twice: by the C compiler and by cffi. It therefore has no
 * includes, no guards and no macros; whoever includes it includes <stdint.h>
 * first.
 *
 * Threads. "control" is the one thread that writes, clears, pauses and drains.
 * "callback" is the audio device's thread. Nothing else may call in here. Every
 * function says which of the two may call it and whether it can block (none
 * does, except the *_open and *_close pair, which allocate).
 *
 * The callback's rules, for every function marked "callback": it never
 * allocates, locks, prints, sleeps or calls Python, and it fills every frame it
 * was asked for. Its one system call is a write to a non-blocking eventfd, made
 * only when a clear was answered or a batch of captured frames became ready.
 *
 * Units. All positions are free-running unsigned 64-bit counts of frames.
 *   queue frames   frames written to, or read from, the speech lane
 *   device frames  frames given to the output device, silence included
 *   capture frames frames of the microphone's timeline, gaps included
 * Times are nanoseconds of CLOCK_MONOTONIC.
 */

enum {
  KH_LAYOUT_VERSION = 2, /* of the shared region */
  KH_FADE_MAX = 4800,    /* frames */
  KH_CLEAR_SLOTS = 16,   /* clears that may be unanswered at once; power of two */
  KH_ANSWERS = 64,       /* answers kept for the control side; power of two */
  KH_BOUNDARIES = 1024,  /* item starts that may be queued; power of two */
  KH_SEGMENTS = 4096,    /* power of two */
  KH_GAPS = 256,         /* power of two */
  KH_DUCK_MIN = 3277     /* lowest duck gain, Q15: -20 dB */
};

enum kh_result {
  KH_OK = 0,
  KH_STALE = -1,      /* written for a generation that a clear has ended */
  KH_BAD_CONFIG = -2, /* a size that is zero, too large or no power of two */
  KH_NO_MEMORY = -3,
  KH_NOT_OURS = -4,   /* region of another program, version, size or boot */
  KH_NO_SNAPSHOT = -5 /* no complete snapshot in the region */
};

/* What the speech lane does. The callback learns it once a block. */
enum kh_mode { KH_PLAY = 0, KH_PAUSE = 1, KH_DUCK = 2 };

/* What a stretch of device frames was made of. */
enum kh_segment_kind {
  KH_REAL = 1,    /* queue frames, in order */
  KH_STARVED = 2, /* silence between two frames of the same run */
  KH_PAUSED = 3,  /* silence while paused, or while an answer found no room */
  KH_IDLE = 4,    /* silence with nothing queued, before the first frame of a run */
  KH_DRY = 5      /* only in a snapshot: starved or idle, not known yet */
};

enum kh_flags {
  KH_UNDERFLOW = 1,     /* the device ran dry before this block */
  KH_OVERFLOW = 2,      /* the device dropped input before this block */
  KH_NOMINAL_TIME = 4   /* the device's time was not believable */
};

enum kh_gap_kind {
  KH_GAP_READER = 1, /* the control side did not read in time */
  KH_GAP_DEVICE = 2  /* the device dropped input; length from its own times */
};

typedef struct kh_playout kh_playout;
typedef struct kh_capture kh_capture;
typedef struct kh_port kh_port;

typedef struct {
  uint32_t rate;            /* Hz, of the device */
  uint32_t channels;        /* of the device; the mono lane is copied to each */
  uint32_t capacity;        /* speech lane, frames, power of two */
  uint32_t notice_capacity; /* notice lane, frames, power of two */
  uint32_t fade;            /* frames, 0 .. KH_FADE_MAX */
  uint32_t duck_gain;       /* Q15, KH_DUCK_MIN .. 32768 */
  int32_t wake_fd;          /* eventfd, or -1 */
  uint32_t restart_frames;  /* a step in the device's time above this is a restart */
  uint64_t first_frame;     /* where every frame count starts; 0 in the product */
  uint64_t first_clear;     /* number before the first clear; kept across restarts */
  uint64_t boot_id[2];
} kh_playout_config;

/* How device frames lie in time: the lower envelope of what the device said
 * over the last few dozen blocks, because a late wake-up or a coarse pointer
 * can only make a block look later than it is. */
typedef struct {
  uint64_t frame;      /* a device (or capture) frame ... */
  int64_t ns;          /* ... and when it passes the converter, by the envelope */
  uint64_t since;      /* first frame for which this mapping holds (last restart) */
  int64_t since_ns;    /* when frame `since` was due by the mapping before it */
  uint64_t blocks;     /* blocks behind the envelope; small: believe it less */
} kh_anchor;

/* One per clear request, or per several that coalesced. */
typedef struct {
  uint64_t request;      /* number of the newest clear this answers */
  uint64_t fence;        /* queue frames below it were handed or discarded */
  uint64_t cursor;       /* first queue frame that was not handed */
  uint64_t faded;        /* how many frames just below the cursor were faded out */
  uint64_t discarded;    /* fence - cursor, counted apart */
  uint64_t handed;       /* total handed so far, the fade included */
  uint64_t device_frame; /* device frame at the top of the block that cut */
  int64_t dac_ns;        /* when that frame leaves the converter, as the device said */
  int64_t now_ns;        /* when the block ran */
  uint64_t flags;        /* kh_flags of that block */
  kh_anchor anchor;
} kh_answer;

typedef struct {
  uint64_t device_frame;
  uint64_t queue_frame; /* first frame of a REAL one; the waiting frame otherwise */
  uint64_t length;
  uint64_t ducked;      /* of a REAL one: frames at reduced gain, fades apart */
  uint64_t faded;       /* of a REAL one: frames in a fade to silence */
  uint64_t kind;        /* kh_segment_kind */
} kh_segment;

/* All counters at the end of one block, consistent with each other. */
typedef struct {
  uint64_t block;           /* number of the block, from 1 */
  uint64_t read;            /* first queue frame neither handed nor discarded */
  uint64_t write;           /* as the callback saw it */
  uint64_t handed;
  uint64_t discarded;
  uint64_t faded;
  uint64_t ducked;
  uint64_t fading;          /* faded frames counted as handed, not yet copied out */
  uint64_t answered;        /* newest clear answered */
  uint64_t mode;            /* kh_mode in effect */
  uint64_t silent;          /* 1: the last frame of the block was not speech */
  uint64_t notice_handed;   /* notice frames mixed in, a flush's fade included */
  uint64_t notice_flushed;  /* dropped by flushes; written = handed + flushed + queued */
  uint64_t notice_frame;    /* notice frame just after the newest one mixed in ... */
  uint64_t notice_device;   /* ... and the device frame just after that one */
  uint64_t volume;          /* Q15, in effect at the end of the block */
  uint64_t underflows;      /* blocks flagged KH_UNDERFLOW */
  uint64_t nominal_times;   /* blocks flagged KH_NOMINAL_TIME */
  uint64_t restarts;        /* steps seen in the device's time */
  uint64_t stalled_blocks;  /* silent because an answer found no room */
  uint64_t segments_lost;
  uint64_t device_frame;    /* at the top of the block */
  uint64_t device_frames;   /* given so far: the block included */
  int64_t dac_ns;           /* when the block's first frame leaves the converter */
  int64_t now_ns;
  kh_anchor anchor;
  kh_segment open;          /* the segment that is still growing */
} kh_snapshot;

/* ---- playout: control side -------------------------------------------- */

/* Bytes of the shared region. Pure. */
uint64_t kh_playout_shared_size(void);

/* control, allocates. `shared` (8-aligned, shared_size bytes, normally a file
 * mapped from a tmpfs), `ring` (capacity frames) and `notice_ring` stay the
 * caller's and must outlive the playout and the stream that uses it. The region
 * is made anew. Returns NULL and sets *result on failure. */
kh_playout *kh_playout_open(void *shared, int16_t *ring, int16_t *notice_ring,
                            const kh_playout_config *config, int32_t *result);

/* control. Only after the stream is closed. Frees the playout, not the regions. */
void kh_playout_close(kh_playout *q);

/* control, non-blocking. Frames that a write would take now. */
uint64_t kh_playout_space(const kh_playout *q);

/* control, non-blocking. Queues up to n frames; returns how many were taken (less
 * than n when the lane or its list of item starts is full, 0 while
 * KH_CLEAR_SLOTS clears wait for their answers), or KH_STALE when `generation`,
 * the number of the last clear the caller knew, is not the last clear's.
 * `starts_run` marks the first frame as the start of another item; the first
 * write after a clear is marked whatever it says. */
int64_t kh_playout_write(kh_playout *q, uint64_t generation, const int16_t *frames,
                         uint32_t n, int32_t starts_run);

/* control, non-blocking, O(1). Drops all that is queued, from the next block on,
 * and ends a pause or a duck. Returns the clear's number; its answer arrives by
 * number. When KH_CLEAR_SLOTS clears are unanswered, the newest one's number. */
uint64_t kh_playout_clear(kh_playout *q);

/* control, non-blocking. Returns the number of the pause (or duck), to be named
 * when it is dismissed. A pause takes effect at the next block, with a fade. */
uint64_t kh_playout_pause(kh_playout *q);
uint64_t kh_playout_duck(kh_playout *q);

/* control, non-blocking. Resumes at the next frame. Returns 1, or 0 when it is
 * void: `number` is not the newest pause or duck, or a clear has come since. */
int32_t kh_playout_dismiss(kh_playout *q, uint64_t number);

/* control. Queue frames written so far. */
uint64_t kh_playout_written(const kh_playout *q);

/* control. Number of the newest clear asked for: the generation to write with. */
uint64_t kh_playout_generation(const kh_playout *q);

/* control, non-blocking. Takes the oldest answer; returns 1, or 0 when none. */
int32_t kh_playout_answer(kh_playout *q, kh_answer *out);

/* control, non-blocking. Takes up to max segments; returns how many. */
uint32_t kh_playout_segments(kh_playout *q, kh_segment *out, uint32_t max);

/* control (or any one thread), non-blocking. KH_OK or KH_NO_SNAPSHOT (before the
 * first block). Retries while the callback is writing; bounded. */
int32_t kh_playout_snapshot(const kh_playout *q, kh_snapshot *out);

/* control, non-blocking. Only when the stream is closed and so no callback can
 * run: the control side becomes the consumer and answers what is outstanding,
 * without a fade. */
void kh_playout_settle(kh_playout *q, int64_t now_ns);

/* control, non-blocking. Notice lane: local tones and prompts, no items, mixed
 * over the speech lane. Its frames are numbered from 0. write returns frames taken,
 * written their sum, space what a write would take now; flush drops what is queued,
 * from the next block on, with a fade of what is sounding. */
uint64_t kh_notice_write(kh_playout *q, const int16_t *frames, uint32_t n);
uint64_t kh_notice_written(const kh_playout *q);
uint64_t kh_notice_space(const kh_playout *q);
void kh_notice_flush(kh_playout *q);

/* control, non-blocking. Gain of everything that is played, Q15, 0 .. 32768, from the
 * next block on, with a ramp of `fade` frames. Counts do not change with it. */
void kh_playout_volume(kh_playout *q, uint32_t gain);

/* ---- playout: callback ------------------------------------------------- */

/* callback. Fills n frames of `channels` interleaved samples. dac_ns is when the
 * first of them leaves the converter. With n == 0 only a clear is answered. */
void kh_playout_render(kh_playout *q, int16_t *out, uint32_t n, int64_t dac_ns,
                       int64_t now_ns, uint32_t flags);

/* Gain, Q15, of frame i of a fade-out over `fade` frames. Pure; the curve is a
 * raised cosine that starts below 32768 and ends above 0. */
int32_t kh_fade_gain(uint32_t i, uint32_t fade);

/* ---- playout: what a dead process left ---------------------------------- */

/* any thread. Checks magic, version, size and boot id; fills *out from the newest
 * complete snapshot. KH_OK, KH_NOT_OURS or KH_NO_SNAPSHOT. */
int32_t kh_recover_snapshot(const void *shared, uint64_t size, const uint64_t *boot_id,
                            kh_snapshot *out);

/* any thread, after a successful kh_recover_snapshot. Answers still in the
 * region, oldest first, whether drained or not; returns how many. */
uint32_t kh_recover_answers(const void *shared, kh_answer *out, uint32_t max);

/* any thread, same precondition. Newest clear that was asked for. */
uint64_t kh_recover_generation(const void *shared);

/* ---- capture ------------------------------------------------------------ */

typedef struct {
  uint32_t rate;           /* Hz */
  uint32_t channels;       /* of the device; channel 0 is kept */
  uint32_t capacity;       /* frames, power of two */
  int32_t wake_fd;         /* eventfd, or -1 */
  uint32_t wake_every;     /* frames between wake-ups; 0: never */
  uint32_t restart_frames;
  uint64_t first_frame;
} kh_capture_config;

typedef struct {
  uint64_t position; /* capture frame at which it begins */
  uint64_t length;   /* capture frames that are missing */
  uint64_t kind;     /* kh_gap_kind */
} kh_gap;

typedef struct {
  uint64_t block;
  uint64_t position;      /* capture frame after the newest one */
  uint64_t stored;        /* frames put into the ring */
  uint64_t dropped;       /* frames dropped because the ring was full */
  uint64_t overflows;     /* blocks flagged KH_OVERFLOW */
  uint64_t missing;       /* frames the device dropped, by its own times */
  uint64_t muted;         /* frames replaced by zeros */
  uint64_t nominal_times;
  uint64_t restarts;
  uint64_t frame;         /* capture frame at the top of the block */
  int64_t adc_ns;         /* when that frame passed the converter, as the device said */
  int64_t now_ns;
  kh_anchor anchor;
} kh_capture_snapshot;

/* control, allocates. `ring` stays the caller's. NULL and *result on failure. */
kh_capture *kh_capture_open(int16_t *ring, const kh_capture_config *config,
                            int32_t *result);
void kh_capture_close(kh_capture *c);

/* control, non-blocking. From the next block on the ring gets zeros (1) or the
 * microphone (0). */
void kh_capture_mute(kh_capture *c, int32_t muted);

/* control, non-blocking. Copies up to max frames that are contiguous on the
 * timeline, sets *position to the capture frame of the first; returns how many. */
uint32_t kh_capture_read(kh_capture *c, int16_t *out, uint32_t max, uint64_t *position);

/* control, non-blocking. Gaps passed by reads so far, oldest first. */
uint32_t kh_capture_gaps(kh_capture *c, kh_gap *out, uint32_t max);

/* control (or any one thread), non-blocking. KH_OK or KH_NO_SNAPSHOT. */
int32_t kh_capture_snapshot_get(const kh_capture *c, kh_capture_snapshot *out);

/* callback. `in` may be NULL (the device had nothing): a block of zeros. The flag
 * KH_UNDERFLOW is for what an output device got: it started anew before this block,
 * and the silence until then is a gap, however short. */
void kh_capture_process(kh_capture *c, const int16_t *in, uint32_t n, int64_t adc_ns,
                        int64_t now_ns, uint32_t flags);

/* ---- the port: the callback that PortAudio calls ------------------------- */

typedef struct {
  uint64_t callbacks;     /* made so far; a watchdog compares two readings */
  uint64_t finished;      /* 1 after PortAudio said that the stream ended */
  uint64_t thread_id;     /* Linux thread id of the callback, 0 before the first */
  int64_t sched_policy;   /* as seen in the first callback; -1 before it */
  int64_t sched_priority;
  uint64_t last_flags;    /* PortAudio's own status flags, newest non-zero */
  uint64_t flagged;       /* callbacks with any status flag */
} kh_port_status;

/* control, allocates. `nominal_ns`: latency to fall back to when the device's
 * time is not believable. `clock_offset_ns` is added to PortAudio's times to
 * make them CLOCK_MONOTONIC. The playout (or capture) must outlive the stream. */
kh_port *kh_port_playout(kh_playout *q, int64_t nominal_ns, int64_t clock_offset_ns);
/* control, before the stream starts. `reference`, with as many channels as the playout,
 * gets every block that the device gets, after volume and notices, with its DAC time; the
 * silence of a device that started anew is a gap. It must outlive the stream; NULL: none. */
void kh_port_reference(kh_port *port, kh_capture *reference);
kh_port *kh_port_capture(kh_capture *c, int64_t nominal_ns, int64_t clock_offset_ns);
void kh_port_close(kh_port *port);
/* control. Only while the stream is not running. */
void kh_port_timing(kh_port *port, int64_t nominal_ns, int64_t clock_offset_ns);
void kh_port_status_get(const kh_port *port, kh_port_status *out);

/* Pure. A PaStreamCallback and a PaStreamFinishedCallback that take a kh_port as
 * their user data. */
void *kh_port_callback(void);
void *kh_port_finished(void);

/* control. mlock(2) of a range; 0, or an errno value. */
int32_t kh_lock_memory(const void *start, uint64_t size);

/* any thread. CLOCK_MONOTONIC, ns. */
int64_t kh_now_ns(void);
