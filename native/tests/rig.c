#include "rig.h"

kh_playout_config rig_config(void) {
  kh_playout_config c = {0};
  c.rate = 48000;
  c.channels = 1;
  c.capacity = RIG_RING;
  c.notice_capacity = RIG_NOTICES;
  c.fade = 240;
  c.duck_gain = 16384;
  c.wake_fd = -1;
  c.restart_frames = 4800;
  c.boot_id[0] = 11;
  c.boot_id[1] = 12;
  return c;
}

rig *rig_open(kh_playout_config config) {
  rig *r = calloc(1, sizeof *r);
  int32_t result;
  CHECK(r != NULL);
  r->config = config;
  r->shared = calloc(1, kh_playout_shared_size());
  CHECK(r->shared != NULL);
  r->q = kh_playout_open(r->shared, r->ring, r->notices, &r->config, &result);
  CHECK_EQ(result, KH_OK);
  return r;
}

rig *rig_new(void) { return rig_open(rig_config()); }

void rig_close(rig *r) {
  kh_playout_close(r->q);
  free(r->shared);
  free(r);
}

void rig_write(rig *r, uint32_t n, int starts) {
  int16_t frames[RIG_RING];
  uint64_t first = kh_playout_written(r->q);
  uint32_t i;
  for (i = 0; i < n; i++) frames[i] = coded(first + i);
  CHECK_EQ(kh_playout_write(r->q, kh_playout_generation(r->q), frames, n, starts), n);
}

int16_t *rig_render(rig *r, uint32_t n) {
  int16_t *out = r->out + (size_t)r->frames * r->config.channels;
  int64_t ns = (int64_t)r->frames * 1000000000 / r->config.rate;
  CHECK(r->frames + n <= RIG_MAX);
  memset(out, 0x55, n * r->config.channels * sizeof *out); /* every frame is filled */
  kh_playout_render(r->q, out, n, ns + 20000000, ns, r->flags);
  r->frames += n;
  return out;
}

kh_answer rig_answer(rig *r) {
  kh_answer a;
  CHECK_EQ(kh_playout_answer(r->q, &a), 1);
  CHECK_EQ(a.cursor + a.discarded, a.fence);
  return a;
}

int rig_silent(const int16_t *out, uint32_t n) {
  uint32_t i;
  for (i = 0; i < n; i++)
    if (out[i] != 0) return 0;
  return 1;
}

kh_snapshot rig_snapshot(rig *r) {
  kh_snapshot s;
  CHECK_EQ(kh_playout_snapshot(r->q, &s), KH_OK);
  CHECK_EQ(s.read, r->config.first_frame + s.handed + s.discarded);
  CHECK_EQ(s.device_frames, r->config.first_frame + r->frames);
  return s;
}

int16_t rig_faded(uint64_t frame, uint32_t i, uint32_t fade) {
  return (int16_t)((coded(frame) * kh_fade_gain(i, fade)) >> 15);
}
