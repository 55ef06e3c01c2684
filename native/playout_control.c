/* The control side of the playout: writes, clears, pauses, and draining what the
 * callback has to say. One thread, in one order; nothing here blocks.
 *
 * A clear is three stores: the fence and the item starts it covers into the slot
 * of its number, then the control word with that number (release). The callback
 * loads the control word before the write index, so it can never see a fence
 * ahead of the index.
 */
#include <stdlib.h>

#include "playout.h"

static int power_of_two(uint32_t n) { return n >= 2 && (n & (n - 1)) == 0; }

static int bad_config(const kh_playout_config *c) {
  return c->rate == 0 || c->channels == 0 || c->channels > 8 || !power_of_two(c->capacity) ||
         !power_of_two(c->notice_capacity) || c->fade > KH_FADE_MAX ||
         c->duck_gain < KH_DUCK_MIN || c->duck_gain > KH_UNITY || c->restart_frames == 0;
}

uint64_t kh_playout_shared_size(void) { return sizeof(kh_shared); }

static void store_control(kh_playout *q) {
  kh_control_side *c = &q->control;
  KH_STORE(q->shared->control, c->clears << 2 | c->mode, KH_CONTROL_STORE);
}

static void init_shared(kh_playout *q) {
  kh_shared *s = q->shared;
  const kh_playout_config *c = &q->config;
  KH_WIPE(s);
  KH_STORE(s->version, (uint64_t)KH_LAYOUT_VERSION, KH_RELAXED);
  KH_STORE(s->size, sizeof(kh_shared), KH_RELAXED);
  KH_STORE(s->boot[0], c->boot_id[0], KH_RELAXED);
  KH_STORE(s->boot[1], c->boot_id[1], KH_RELAXED);
  KH_STORE(s->rate, (uint64_t)c->rate, KH_RELAXED);
  KH_STORE(s->write, c->first_frame, KH_RELAXED);
  KH_STORE(s->read, c->first_frame, KH_RELAXED);
  KH_STORE(s->notice_write, c->first_frame, KH_RELAXED);
  KH_STORE(s->notice_fence, c->first_frame, KH_RELAXED);
  KH_STORE(s->notice_read, c->first_frame, KH_RELAXED);
  KH_STORE(s->volume, (uint64_t)KH_UNITY, KH_RELAXED);
  store_control(q);
  KH_STORE(s->magic, (uint64_t)KH_MAGIC, KH_CONTROL_STORE);
}

kh_playout *kh_playout_open(void *shared, int16_t *ring, int16_t *notice_ring,
                            const kh_playout_config *config, int32_t *result) {
  kh_playout *q;
  uint32_t i;
  *result = KH_BAD_CONFIG;
  if (bad_config(config)) return NULL;
  *result = KH_NO_MEMORY;
  q = KH_NEW(kh_playout);
  if (q == NULL) return NULL;
  q->config = *config;
  q->shared = (kh_shared *)shared;
  q->ring = (kh_cell *)ring;
  q->notice_ring = (kh_cell *)notice_ring;
  q->mask = config->capacity - 1u;
  q->notice_mask = config->notice_capacity - 1u;
  for (i = 0; i < config->fade; i++) q->curve[i] = (int16_t)kh_fade_gain(i, config->fade);

  q->control.written = q->control.notices = config->first_frame;
  q->control.clears = q->control.answered = config->first_clear;
  q->control.after_clear = 1;

  q->callback.read = q->callback.notice_read = config->first_frame;
  q->callback.device_frames = config->first_frame;
  q->callback.answered = config->first_clear;
  q->callback.gain = q->callback.target = KH_UNITY;
  q->callback.ramp = q->callback.volume_ramp = config->fade;
  q->callback.volume = q->callback.volume_target = KH_UNITY;
  kh_timemap_init(&q->callback.time, config->rate, config->restart_frames);

  init_shared(q);
  *result = KH_OK;
  return q;
}

void kh_playout_close(kh_playout *q) { KH_DELETE(q); }

uint64_t kh_playout_written(const kh_playout *q) { return q->control.written; }

uint64_t kh_playout_generation(const kh_playout *q) { return q->control.clears; }

static int answers_owed(const kh_playout *q) {
  return q->control.clears - q->control.answered >= KH_N(KH_CLEAR_SLOTS);
}

/* Frames and item starts that fit. */
static uint64_t room(const kh_playout *q, int *bound_room) {
  uint64_t read = KH_LOAD(q->shared->read, KH_READ_LOAD);
  uint64_t bound_read = KH_LOAD(q->shared->bound_read, KH_READ_LOAD);
  *bound_room = q->control.bounds - bound_read < KH_N(KH_BOUNDARIES);
  return q->config.capacity - (q->control.written - read);
}

uint64_t kh_playout_space(const kh_playout *q) {
  int bound_room;
  uint64_t frames = room(q, &bound_room);
  return answers_owed(q) || !bound_room ? 0 : frames;
}

int64_t kh_playout_write(kh_playout *q, uint64_t generation, const int16_t *frames,
                         uint32_t n, int32_t starts_run) {
  kh_control_side *c = &q->control;
  int starts = starts_run || c->after_clear, bound_room;
  uint64_t space;
  if (generation != c->clears) return KH_STALE;
  /* So a clear always finds a slot: without a write it coalesces. */
  if (answers_owed(q)) return 0;
  space = room(q, &bound_room);
  if (n > space) n = (uint32_t)space;
  if (n == 0 || (starts && !bound_room)) return 0;
  if (starts) {
    KH_SET(q->shared->bounds[c->bounds & (KH_N(KH_BOUNDARIES) - 1)], c->written);
    c->bounds++;
    KH_STORE(q->shared->bound_write, c->bounds, KH_WRITE_STORE);
    c->after_clear = 0;
  }
  kh_ring_put(q->ring, q->mask, c->written, frames, n);
  c->written += n;
  KH_STORE(q->shared->write, c->written, KH_WRITE_STORE);
  return (int64_t)n;
}

uint64_t kh_playout_clear(kh_playout *q) {
  kh_control_side *c = &q->control;
  kh_clear_slot *slot;
  if (answers_owed(q)) {
    /* Nothing was written since the newest clear (see write), so it covers this
     * one as well; a pause asked for in between still has to end. */
    c->mode = KH_PLAY;
    c->pauses++;
    store_control(q);
    return c->clears;
  }
  c->clears++;
  slot = &q->shared->clears[c->clears & (KH_N(KH_CLEAR_SLOTS) - 1)];
  KH_STORE(slot->fence, c->written, KH_RELAXED);
  KH_STORE(slot->boundaries, c->bounds, KH_RELAXED);
  c->mode = KH_PLAY;
  c->pauses++;
  c->after_clear = 1;
  store_control(q);
  return c->clears;
}

static uint64_t set_mode(kh_playout *q, uint64_t mode) {
  q->control.mode = mode;
  q->control.pauses++;
  store_control(q);
  return q->control.pauses;
}

uint64_t kh_playout_pause(kh_playout *q) { return set_mode(q, KH_PAUSE); }

uint64_t kh_playout_duck(kh_playout *q) { return set_mode(q, KH_DUCK); }

int32_t kh_playout_dismiss(kh_playout *q, uint64_t number) {
  if (number != q->control.pauses || q->control.mode == KH_PLAY) return 0;
  q->control.mode = KH_PLAY;
  store_control(q);
  return 1;
}

int32_t kh_playout_answer(kh_playout *q, kh_answer *out) {
  kh_shared *s = q->shared;
  uint64_t read = KH_LOAD(s->answer_read, KH_RELAXED);
  if (KH_LOAD(s->answer_write, KH_ANSWER_LOAD) == read) return 0;
  kh_words_get(s->answers[read & (KH_N(KH_ANSWERS) - 1)], out, KH_ANSWER_WORDS);
  KH_STORE(s->answer_read, read + 1, KH_ANSWER_FREE_STORE);
  q->control.answered = out->request;
  return 1;
}

uint32_t kh_playout_segments(kh_playout *q, kh_segment *out, uint32_t max) {
  kh_shared *s = q->shared;
  uint64_t read = KH_LOAD(s->segment_read, KH_RELAXED);
  uint64_t ready = KH_LOAD(s->segment_write, KH_LOG_LOAD) - read;
  uint32_t n = ready < max ? (uint32_t)ready : max, i;
  for (i = 0; i < n; i++)
    kh_words_get(s->segments[(read + i) & (KH_N(KH_SEGMENTS) - 1)], &out[i],
                 KH_SEGMENT_WORDS);
  KH_STORE(s->segment_read, read + n, KH_LOG_FREE_STORE);
  return n;
}

int32_t kh_playout_snapshot(const kh_playout *q, kh_snapshot *out) {
  return kh_slots_get(q->shared->slots, (uint64_t *)out, KH_SNAPSHOT_WORDS) ? KH_OK
                                                                            : KH_NO_SNAPSHOT;
}

void kh_playout_settle(kh_playout *q, int64_t now_ns) {
  kh_playout_render(q, NULL, 0, now_ns, now_ns, KH_NOMINAL_TIME);
}

uint64_t kh_notice_space(const kh_playout *q) {
  uint64_t read = KH_LOAD(q->shared->notice_read, KH_READ_LOAD);
  return q->config.notice_capacity - (q->control.notices - read);
}

uint64_t kh_notice_write(kh_playout *q, const int16_t *frames, uint32_t n) {
  kh_control_side *c = &q->control;
  uint64_t space = kh_notice_space(q);
  if (n > space) n = (uint32_t)space;
  kh_ring_put(q->notice_ring, q->notice_mask, c->notices, frames, n);
  c->notices += n;
  KH_STORE(q->shared->notice_write, c->notices, KH_WRITE_STORE);
  return n;
}

uint64_t kh_notice_written(const kh_playout *q) {
  return q->control.notices - q->config.first_frame;
}

void kh_playout_volume(kh_playout *q, uint32_t gain) {
  /* On its own: nothing else has to be seen with it. */
  KH_STORE(q->shared->volume, (uint64_t)(gain < KH_UNITY ? gain : KH_UNITY), KH_RELAXED);
}

void kh_notice_flush(kh_playout *q) {
  KH_STORE(q->shared->notice_fence, q->control.notices, KH_CONTROL_STORE);
}
