#include "reference.h"

void ref_init(reference *r, const kh_playout_config *c) {
  memset(r, 0, sizeof *r);
  r->capacity = c->capacity;
  r->fade = c->fade;
  r->duck = (int32_t)c->duck_gain;
  r->gain = r->target = KH_UNITY;
  r->volume = r->volume_target = r->volume_wanted = KH_UNITY;
  r->step = r->volume_step = r->fade;
  r->after_clear = 1;
}

static int owed(const reference *r) { return r->clears - r->drained >= KH_N(KH_CLEAR_SLOTS); }

int64_t ref_write(reference *r, uint64_t generation, const int16_t *frames, uint32_t n,
                  int starts) {
  uint32_t i;
  starts = starts || r->after_clear;
  if (generation != r->clears) return KH_STALE;
  if (owed(r)) return 0;
  if (n > r->capacity - (r->written - r->read)) n = (uint32_t)(r->capacity - (r->written - r->read));
  if (n == 0 || (starts && r->starts_queued == KH_N(KH_BOUNDARIES))) return 0;
  for (i = 0; i < n; i++) r->sample[r->written + i] = frames[i];
  r->starts[r->written] = (uint8_t)starts;
  r->starts_queued += starts != 0;
  r->written += n;
  r->after_clear = 0;
  return n;
}

uint64_t ref_clear(reference *r) {
  r->mode = KH_PLAY;
  r->number++;
  if (owed(r)) return r->clears;
  r->fence = r->written;
  r->after_clear = 1;
  return ++r->clears;
}

uint64_t ref_mode(reference *r, uint64_t mode) {
  r->mode = mode;
  return ++r->number;
}

int ref_dismiss(reference *r, uint64_t number) {
  if (number != r->number || r->mode == KH_PLAY) return 0;
  r->mode = KH_PLAY;
  return 1;
}

void ref_drain(reference *r, const kh_answer *a) {
  r->drained = a->request;
  r->answers_waiting--;
}

uint64_t ref_notice(reference *r, uint64_t room, const int16_t *frames, uint32_t n) {
  uint32_t i;
  room -= r->notice_written - r->notice_read;
  if (n > room) n = (uint32_t)room;
  CHECK(r->notice_written + n < REF_FRAMES);
  for (i = 0; i < n; i++) r->notice[r->notice_written++] = frames[i];
  return n;
}

void ref_notice_flush(reference *r) { r->notice_fence = r->notice_written; }

void ref_volume(reference *r, uint32_t gain) {
  r->volume_wanted = gain < KH_UNITY ? (int32_t)gain : KH_UNITY;
}

static void settle_gain(reference *r) {
  r->gain = r->target;
  r->step = r->fade;
}

/* Whether the dry stretch that ends here kept a frame of the same run waiting. */
static void name_dry(reference *r, int stalled) {
  uint64_t i = r->device;
  uint64_t waited = i > 0 ? r->queue[i - 1] : 0;
  int starved = !stalled && r->in_run && waited == r->read &&
                !(r->read < r->written && r->starts[r->read]);
  while (i > 0 && r->kind[i - 1] == KH_DRY && r->queue[i - 1] == waited)
    r->kind[--i] = starved ? KH_STARVED : KH_IDLE;
}

static void record(reference *r, uint8_t kind, uint64_t queue, int stalled) {
  if (r->device > 0 && r->kind[r->device - 1] == KH_DRY &&
      (kind != KH_DRY || r->queue[r->device - 1] != queue))
    name_dry(r, stalled);
  r->kind[r->device] = kind;
  r->queue[r->device] = queue;
  r->device++;
}

static int16_t silent_frame(reference *r, uint8_t kind, int stalled) {
  record(r, kind, r->read, stalled);
  r->sounding = 0;
  return 0;
}

static void cut(reference *r, uint32_t n) {
  uint64_t first = r->read;
  uint32_t k = 0;
  if (n > 0 && r->sounding && r->fade_at == r->fade_end) {
    r->fade_at = 0;
    r->fade_frame = r->read;
    for (; k < r->fade && r->read + k < r->fence && !r->starts[r->read + k]; k++)
      r->fading[k] = (int16_t)((r->sample[r->read + k] * (int64_t)r->gain *
                                kh_fade_gain(k, r->fade)) >> 30);
    r->fade_end = k;
  }
  r->handed += k;
  r->faded += k;
  r->discarded += r->fence - r->read - k;
  r->answer.request = r->clears;
  r->answer.fence = r->fence;
  r->answer.cursor = r->read + k;
  r->answer.faded = k + (r->in_run ? r->tail : 0);
  r->answer.discarded = r->fence - r->read - k;
  r->answer.handed = r->handed;
  r->answer.device_frame = r->device;
  r->answered = r->clears;
  r->answers_waiting++;
  for (; first < r->fence; first++) r->starts_queued -= r->starts[first];
  r->read = r->fence;
  r->in_run = r->sounding = 0;
  r->tail = 0;
  r->target = KH_UNITY;
  settle_gain(r);
}

static void aim(reference *r) {
  int32_t target = r->mode == KH_PAUSE ? 0 : r->mode == KH_DUCK ? r->duck : KH_UNITY;
  if (target == r->target) return;
  r->from = r->gain;
  r->target = target;
  r->step = 0;
  if (!r->in_run || r->fade == 0) settle_gain(r);
}

static int16_t fade_frame(reference *r) {
  r->was_faded[r->device] = 1;
  record(r, KH_REAL, r->fade_frame + r->fade_at, 0);
  return r->fading[r->fade_at++];
}

static int16_t run_frame(reference *r) {
  int16_t out = r->sample[r->read];
  int in_ramp, down = r->target == 0;
  uint64_t at = r->device;
  record(r, KH_REAL, r->read, 0); /* names a dry stretch before the start is taken */
  if (r->starts[r->read]) {
    r->in_run = 1;
    r->starts_queued--;
    settle_gain(r);
  }
  in_ramp = r->step < r->fade;
  if (in_ramp)
    r->gain = r->target +
              (int32_t)(((int64_t)(r->from - r->target) * kh_fade_gain(r->step++, r->fade)) >> 15);
  out = (int16_t)((out * r->gain) >> 15);
  r->was_faded[at] = in_ramp && down;
  r->was_ducked[at] = !r->was_faded[at] && (in_ramp || r->gain != KH_UNITY);
  r->faded += r->was_faded[at];
  r->ducked += r->was_ducked[at];
  r->tail = down ? r->tail + 1 : 0;
  if (in_ramp && r->step == r->fade) r->gain = r->target;
  r->sounding = r->gain > 0;
  r->read++;
  r->handed++;
  return out;
}

static int16_t one_frame(reference *r) {
  if (r->fade_at < r->fade_end) return fade_frame(r);
  if (r->read == r->written) {
    if (r->target == 0) settle_gain(r);
    return silent_frame(r, KH_DRY, 0);
  }
  if (r->target == 0 && (r->step == r->fade || r->starts[r->read])) {
    settle_gain(r);
    return silent_frame(r, KH_PAUSED, 0);
  }
  return run_frame(r);
}

static int16_t with_notice(reference *r, int16_t out, uint64_t device, int32_t gain) {
  int32_t sum = out + ((r->notice[r->notice_read++] * gain) >> 15);
  r->notice_handed++;
  r->notice_frame = r->notice_read;
  r->notice_device = device + 1;
  return (int16_t)(sum > 32767 ? 32767 : sum < -32768 ? -32768 : sum);
}

static void notices(reference *r, int16_t *out, uint32_t n, uint64_t device) {
  uint32_t down = 0, i = 0;
  if (r->notice_fence > r->notice_read) {
    if (r->notice_sounding)
      while (down < n && down < r->fade && r->notice_read + down < r->notice_fence) down++;
    for (; i < down; i++)
      out[i] = with_notice(r, out[i], device + i, kh_fade_gain(i * r->fade / down, r->fade));
    r->notice_flushed += r->notice_fence - r->notice_read;
    r->notice_read = r->notice_fence;
  }
  r->notice_sounding = 0;
  for (; i < n && r->notice_read < r->notice_written; i++) {
    out[i] = with_notice(r, out[i], device + i, KH_UNITY);
    r->notice_sounding = i + 1 == n;
  }
}

static int16_t at_volume(reference *r, int16_t out) {
  if (r->volume_step < r->fade) {
    int64_t way = r->volume_from - r->volume_target;
    r->volume = r->volume_target + (int32_t)((way * kh_fade_gain(r->volume_step++, r->fade)) >> 15);
    out = (int16_t)((out * r->volume) >> 15);
    if (r->volume_step == r->fade) r->volume = r->volume_target;
    return out;
  }
  r->volume = r->volume_target;
  return (int16_t)((out * r->volume) >> 15);
}

static int speech(reference *r, int16_t *out, uint32_t n) {
  uint32_t i;
  int answers = r->clears != r->answered;
  CHECK(r->device + n < REF_FRAMES && r->written + r->capacity < REF_FRAMES);
  if (answers && r->answers_waiting == KH_N(KH_ANSWERS)) {
    r->stalled++;
    for (i = 0; i < n; i++)
      out[i] = r->fade_at < r->fade_end ? fade_frame(r) : silent_frame(r, KH_PAUSED, 1);
    return 0;
  }
  if (answers) cut(r, n);
  aim(r);
  for (i = 0; i < n; i++) out[i] = one_frame(r);
  return answers;
}

int ref_render(reference *r, int16_t *out, uint32_t n) {
  uint64_t top = r->device;
  int answers = speech(r, out, n);
  uint32_t i;
  if (n == 0) return answers;
  notices(r, out, n, top);
  if (r->volume_wanted != r->volume_target) {
    r->volume_from = r->volume;
    r->volume_target = r->volume_wanted;
    r->volume_step = 0;
  }
  for (i = 0; i < n; i++) out[i] = at_volume(r, out[i]);
  return answers;
}
