/* The callback side of the playout. Real-time: see the rules in kelter.h.
 *
 * One block:
 *   1. load the control word, then the write index (both acquire), and the word
 *      again: frames behind a clear that came in between wait for the next block
 *   2. a clear not answered yet: copy at most `fade` frames of the current run
 *      into private memory, fix the cursor, publish the answer, and only then
 *      release the read index past the fence. The cost does not depend on what
 *      was queued. No room for the answer: a silent block, and another try
 *   3. what is left of a fade, then frames above the fence, at the gain in effect
 *   4. mix the notice lane, copy to each channel, publish the snapshot
 *
 * Conflicts. A clear beats a pause. A pause that took effect before the clear is
 * the cut: nothing more is handed. The fade never reaches into another run.
 * `handed` and `discarded` are counted where frames are copied and dropped, not
 * computed from the indices; the tests compare.
 */
#include <math.h>

#include "playout.h"

int32_t kh_fade_gain(uint32_t i, uint32_t fade) {
  double x = 3.14159265358979323846 * ((double)i + 1.0) / ((double)fade + 1.0);
  int32_t gain = (int32_t)(32767.0 * 0.5 * (1.0 + cos(x)) + 0.5);
  return gain > 0 ? gain : 1;
}

static uint64_t lesser(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Start of the next run that is queued, or a frame that is never reached. */
static uint64_t next_bound(kh_playout *q) {
  kh_callback_side *c = &q->callback;
  if (c->bound_read == c->bound_seen) return UINT64_MAX;
  return KH_GET(q->shared->bounds[c->bound_read & (KH_N(KH_BOUNDARIES) - 1)]);
}

/* Frames until the next run starts; counts may wrap, so as a distance. */
static uint64_t to_bound(kh_playout *q) {
  uint64_t bound = next_bound(q);
  return bound == UINT64_MAX ? UINT64_MAX : bound - q->callback.read;
}

/* ---- segments ------------------------------------------------------------ */

/* Must come before a run start is consumed: whether a dry stretch starved a run is
 * known by what follows it. */
static void close_segment(kh_playout *q) {
  kh_callback_side *c = &q->callback;
  kh_shared *s = q->shared;
  uint64_t write = KH_LOAD(s->segment_write, KH_RELAXED);
  if (c->open.length == 0) return;
  if (c->open.kind == KH_DRY)
    c->open.kind =
        c->in_run && c->open.queue_frame == c->read && to_bound(q) != 0 ? KH_STARVED : KH_IDLE;
  if (write - KH_LOAD(s->segment_read, KH_LOG_FREE_LOAD) == KH_N(KH_SEGMENTS)) {
    c->counts.segments_lost++;
  } else {
    kh_words_put(s->segments[write & (KH_N(KH_SEGMENTS) - 1)], &c->open, KH_SEGMENT_WORDS);
    KH_STORE(s->segment_write, write + 1, KH_LOG_STORE);
  }
  c->open.length = 0;
}

static void extend(kh_playout *q, uint64_t kind, uint64_t queue, uint64_t n) {
  kh_callback_side *c = &q->callback;
  kh_segment *open = &c->open;
  uint64_t expected = open->queue_frame + (open->kind == KH_REAL ? open->length : 0);
  if (open->length == 0 || open->kind != kind || expected != queue) {
    close_segment(q);
    open->device_frame = c->device_frames;
    open->queue_frame = queue;
    open->kind = kind;
    open->ducked = open->faded = 0;
  }
  open->length += n;
  c->device_frames += n;
}

static void silence(kh_playout *q, int16_t *out, uint32_t n, uint64_t kind) {
  if (n == 0) return;
  memset(out, 0, n * sizeof *out);
  extend(q, kind, q->callback.read, n);
  q->callback.sounding = 0;
}

/* ---- gain ----------------------------------------------------------------- */

static int ramping(const kh_playout *q) { return q->callback.ramp < q->config.fade; }

static int32_t ramp_gain(const kh_playout *q, uint32_t at) {
  const kh_callback_side *c = &q->callback;
  return c->target + (int32_t)(((int64_t)(c->from - c->target) * q->curve[at]) >> 15);
}

static void end_ramp(kh_playout *q) {
  q->callback.ramp = q->config.fade;
  q->callback.gain = q->callback.target;
}

static void aim(kh_playout *q, int32_t target) {
  kh_callback_side *c = &q->callback;
  if (c->target == target) return;
  c->from = c->gain;
  c->target = target;
  c->ramp = 0;
  /* Between runs there is nothing to be gentle with. */
  if (!c->in_run || q->config.fade == 0) end_ramp(q);
}

static void apply_gain(int16_t *out, uint32_t n, int32_t gain) {
  uint32_t i;
  for (i = 0; i < n; i++) out[i] = (int16_t)((out[i] * gain) >> 15);
}

static void apply_ramp(kh_playout *q, int16_t *out, uint32_t n) {
  kh_callback_side *c = &q->callback;
  uint32_t i;
  for (i = 0; i < n; i++) {
    c->gain = ramp_gain(q, c->ramp + i);
    out[i] = (int16_t)((out[i] * c->gain) >> 15);
  }
  c->ramp += n;
  if (!ramping(q)) c->gain = c->target;
}

/* ---- the cut --------------------------------------------------------------- */

/* The frames that a clear lets sound, at the gain in effect going down to 0. */
static uint32_t take_fade(kh_playout *q, uint64_t fence) {
  kh_callback_side *c = &q->callback;
  uint32_t n, i;
  if (!c->sounding || c->fade_left != 0) return 0;
  n = (uint32_t)lesser(q->config.fade, lesser(fence - c->read, to_bound(q)));
  kh_ring_get(q->ring, q->mask, c->read, c->fade, n);
  for (i = 0; i < n; i++)
    c->fade[i] = (int16_t)((c->fade[i] * (int64_t)c->gain * q->curve[i]) >> 30);
  c->fade_at = 0;
  c->fade_left = n;
  c->fade_queue = c->read;
  return n;
}

/* 1 when there was a clear but no room for its answer. */
static int cut(kh_playout *q, uint64_t request, uint32_t n, int64_t dac_ns, int64_t now_ns,
               uint32_t flags) {
  kh_callback_side *c = &q->callback;
  kh_shared *s = q->shared;
  kh_clear_slot *slot = &s->clears[request & (KH_N(KH_CLEAR_SLOTS) - 1)];
  uint64_t write = KH_LOAD(s->answer_write, KH_RELAXED);
  uint64_t fence, faded;
  kh_answer a;
  if (request == c->answered) return 0;
  if (write - KH_LOAD(s->answer_read, KH_ANSWER_FREE_LOAD) == KH_N(KH_ANSWERS)) return 1;

  fence = KH_LOAD(slot->fence, KH_RELAXED);
  faded = n == 0 ? 0 : take_fade(q, fence);
  if (!c->in_run) c->tail = 0;
  c->counts.handed += faded;
  c->counts.faded += faded;
  c->tail += faded;

  a.request = request;
  a.fence = fence;
  a.cursor = c->read + faded;
  a.faded = c->tail;
  a.discarded = fence - a.cursor;
  a.handed = c->counts.handed;
  a.device_frame = c->device_frames;
  a.dac_ns = dac_ns;
  a.now_ns = now_ns;
  a.flags = flags;
  a.anchor = kh_timemap_anchor(&c->time, c->device_frames);

  c->counts.discarded += a.discarded;
  c->answered = request;
  c->bound_read = KH_LOAD(slot->boundaries, KH_RELAXED);
  c->read = fence;
  c->in_run = c->sounding = 0;
  c->tail = 0;
  c->target = KH_UNITY;
  end_ramp(q);

  kh_words_put(s->answers[write & (KH_N(KH_ANSWERS) - 1)], &a, KH_ANSWER_WORDS);
  KH_STORE(s->answer_write, write + 1, KH_ANSWER_STORE);
  return 0;
}

/* ---- a block ----------------------------------------------------------------- */

static uint32_t play_fade(kh_playout *q, int16_t *out, uint32_t n) {
  kh_callback_side *c = &q->callback;
  if (n > c->fade_left) n = c->fade_left;
  memcpy(out, c->fade + c->fade_at, n * sizeof *out);
  extend(q, KH_REAL, c->fade_queue + c->fade_at, n);
  c->open.faded += n;
  c->fade_at += n;
  c->fade_left -= n;
  return n;
}

static uint32_t play_run(kh_playout *q, int16_t *out, uint64_t n) {
  kh_callback_side *c = &q->callback;
  int to_silence = c->target == 0;
  if (to_bound(q) == 0) {
    close_segment(q); /* one segment never spans two runs */
    c->bound_read++;
    c->in_run = 1;
    end_ramp(q);
  }
  n = lesser(n, to_bound(q));
  if (ramping(q)) n = lesser(n, q->config.fade - c->ramp);

  kh_ring_get(q->ring, q->mask, c->read, out, n);
  extend(q, KH_REAL, c->read, n);
  if (ramping(q)) {
    apply_ramp(q, out, (uint32_t)n);
    *(to_silence ? &c->counts.faded : &c->counts.ducked) += n;
    *(to_silence ? &c->open.faded : &c->open.ducked) += n;
  } else if (c->gain != KH_UNITY) {
    apply_gain(out, (uint32_t)n, c->gain);
    c->counts.ducked += n;
    c->open.ducked += n;
  }
  c->tail = to_silence ? c->tail + n : 0;
  c->read += n;
  c->counts.handed += n;
  c->sounding = c->gain > 0;
  return (uint32_t)n;
}

static void play(kh_playout *q, int16_t *out, uint32_t n, uint64_t write) {
  kh_callback_side *c = &q->callback;
  while (n > 0) {
    uint64_t ready = write - c->read;
    uint32_t done;
    if (c->fade_left > 0) {
      done = play_fade(q, out, n);
    } else if (ready == 0) {
      if (c->target == 0) end_ramp(q);
      silence(q, out, done = n, KH_DRY);
    } else if (c->target == 0 && (!ramping(q) || to_bound(q) == 0)) {
      end_ramp(q); /* a pause never reaches into the next run */
      silence(q, out, done = n, KH_PAUSED);
    } else {
      done = play_run(q, out, lesser(n, ready));
    }
    out += done;
    n -= done;
  }
}

/* A clear found no room for its answer: what the one before left to fade goes on,
 * then silence. */
static void hold(kh_playout *q, int16_t *out, uint32_t n) {
  kh_callback_side *c = &q->callback;
  uint32_t done = n > 0 && c->fade_left > 0 ? play_fade(q, out, n) : 0;
  c->counts.stalled_blocks++;
  if (done == n) return;
  /* Whatever ends a dry stretch now belongs to another run. */
  if (c->open.kind == KH_DRY) c->open.kind = KH_IDLE;
  silence(q, out + done, n - done, KH_PAUSED);
}

/* ---- notices and volume ---------------------------------------------------------- */

/* The next n notice frames, in device frames from `device` on, over out. `fading`: all
 * of them down to silence. */
static void mix(kh_playout *q, int16_t *out, uint32_t n, uint64_t device, int fading) {
  kh_callback_side *c = &q->callback;
  uint32_t done = 0;
  while (done < n) {
    int16_t notice[256];
    uint32_t k = (uint32_t)lesser(n - done, 256), i;
    kh_ring_get(q->notice_ring, q->notice_mask, c->notice_read + done, notice, k);
    for (i = 0; fading && i < k; i++)
      notice[i] = (int16_t)((notice[i] * q->curve[(done + i) * q->config.fade / n]) >> 15);
    for (i = 0; i < k; i++) {
      int32_t sum = out[i] + notice[i];
      out[i] = (int16_t)(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
    }
    out += k;
    done += k;
  }
  if (n == 0) return;
  c->notice_read += n;
  c->counts.notice_handed += n;
  c->counts.notice_frame = c->counts.notice_handed + c->counts.notice_flushed;
  c->counts.notice_device = device + n;
}

static void mix_notices(kh_playout *q, int16_t *out, uint32_t n, uint64_t top) {
  kh_callback_side *c = &q->callback;
  uint64_t fence = KH_LOAD(q->shared->notice_fence, KH_CONTROL_LOAD);
  uint64_t write = KH_LOAD(q->shared->notice_write, KH_WRITE_LOAD);
  uint32_t at = 0, k;
  if ((int64_t)(fence - c->notice_read) > 0) {
    if (c->notice_sounding)
      at = (uint32_t)lesser(lesser(n, q->config.fade), fence - c->notice_read);
    mix(q, out, at, top, 1);
    c->counts.notice_flushed += fence - c->notice_read;
    c->notice_read = fence;
  }
  k = (uint32_t)lesser(n - at, write - c->notice_read);
  mix(q, out + at, k, top + at, 0);
  c->notice_sounding = k > 0 && at + k == n;
  KH_STORE(q->shared->notice_read, c->notice_read, KH_READ_STORE);
}

static void apply_volume(kh_playout *q, int16_t *out, uint32_t n) {
  kh_callback_side *c = &q->callback;
  int32_t target = (int32_t)KH_LOAD(q->shared->volume, KH_RELAXED);
  uint32_t i = 0;
  if (target != c->volume_target) {
    c->volume_from = c->volume;
    c->volume_target = target;
    c->volume_ramp = 0;
  }
  for (; i < n && c->volume_ramp < q->config.fade; i++) {
    int32_t way = c->volume_from - target;
    c->volume = target + (int32_t)(((int64_t)way * q->curve[c->volume_ramp++]) >> 15);
    out[i] = (int16_t)((out[i] * c->volume) >> 15);
  }
  if (c->volume_ramp >= q->config.fade) c->volume = target;
  if (c->volume != KH_UNITY) apply_gain(out + i, n - i, c->volume);
}

/* In place, from the end: frame i of the mono block becomes `channels` samples. */
static void spread(int16_t *out, uint32_t n, uint32_t channels) {
  uint32_t i = n, k;
  if (channels == 1) return;
  while (i-- > 0) {
    int16_t v = out[i];
    for (k = 0; k < channels; k++) out[i * channels + k] = v;
  }
}

/* The write index, but no further than the fence of the first clear that this block
 * does not know (it came between the two loads). Frames behind that fence, handed
 * now, would put the read index past the fence before the clear is answered. Relaxed
 * will do: an index that covers such frames brought the word and the fence with it. */
static uint64_t known_write(const kh_playout *q, uint64_t known) {
  kh_shared *s = q->shared;
  uint64_t read = q->callback.read;
  uint64_t ready = KH_LOAD(s->write, KH_WRITE_LOAD) - read;
  if (KH_LOAD(s->control, KH_RELAXED) >> 2 != known) {
    kh_clear_slot *next = &s->clears[(known + 1) & (KH_N(KH_CLEAR_SLOTS) - 1)];
    ready = lesser(ready, KH_LOAD(next->fence, KH_RELAXED) - read);
  }
  return read + ready;
}

static void publish(kh_playout *q, uint64_t write, uint64_t mode, uint64_t top, int64_t dac_ns,
                    int64_t now_ns) {
  kh_callback_side *c = &q->callback;
  kh_snapshot *s = &c->counts;
  s->block++;
  s->read = c->read;
  s->write = write;
  s->fading = c->fade_left;
  s->answered = c->answered;
  s->mode = mode;
  s->silent = c->open.length == 0 || c->open.kind != KH_REAL;
  s->restarts = c->time.restarts;
  s->volume = (uint64_t)c->volume;
  s->device_frame = top;
  s->device_frames = c->device_frames;
  s->dac_ns = dac_ns;
  s->now_ns = now_ns;
  s->anchor = kh_timemap_anchor(&c->time, top);
  s->open = c->open;
  kh_slots_put(q->shared->slots, s->block, (const uint64_t *)s, KH_SNAPSHOT_WORDS);
}

void kh_playout_render(kh_playout *q, int16_t *out, uint32_t n, int64_t dac_ns,
                       int64_t now_ns, uint32_t flags) {
  kh_callback_side *c = &q->callback;
  kh_shared *s = q->shared;
  uint64_t control = KH_LOAD(s->control, KH_CONTROL_LOAD);
  uint64_t write = known_write(q, control >> 2);
  uint64_t mode = control & 3, top = c->device_frames, answered = c->answered;
  int stalled;
  /* After `write`: a start is written before its frames are. */
  c->bound_seen = KH_LOAD(s->bound_write, KH_WRITE_LOAD);
  if (flags & KH_UNDERFLOW) {
    c->counts.underflows++;
    if (c->time.blocks > KH_FLAGGED_ON_END) kh_timemap_restart(&c->time, top);
  }
  if (flags & KH_NOMINAL_TIME) c->counts.nominal_times++;
  else kh_timemap_block(&c->time, top, dac_ns);

  stalled = cut(q, control >> 2, n, dac_ns, now_ns, flags);
  if (stalled) {
    hold(q, out, n);
  } else {
    aim(q, mode == KH_PAUSE ? 0 : mode == KH_DUCK ? (int32_t)q->config.duck_gain : KH_UNITY);
    play(q, out, n, write);
  }
  KH_STORE(s->bound_read, c->bound_read, KH_READ_STORE);
  KH_STORE(s->read, c->read, KH_READ_STORE);
  if (n > 0) {
    mix_notices(q, out, n, top);
    apply_volume(q, out, n);
    spread(out, n, q->config.channels);
  }
  publish(q, write, mode, top, dac_ns, now_ns);
  if (c->answered != answered) kh_wake(q->config.wake_fd);
}
