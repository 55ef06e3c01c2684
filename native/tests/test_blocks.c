/* Segments, the notice lane, channels, block sizes, refusals and counters. */
#include "rig.h"

static void check_log(rig *r, const kh_segment *wanted, uint32_t n) {
  kh_segment got[16];
  uint32_t i;
  CHECK_EQ(kh_playout_segments(r->q, got, 16), n);
  for (i = 0; i < n; i++) {
    CHECK_EQ(got[i].device_frame, wanted[i].device_frame);
    CHECK_EQ(got[i].queue_frame, wanted[i].queue_frame);
    CHECK_EQ(got[i].length, wanted[i].length);
    CHECK_EQ(got[i].ducked, wanted[i].ducked);
    CHECK_EQ(got[i].faded, wanted[i].faded);
    CHECK_EQ(got[i].kind, wanted[i].kind);
  }
}

static void starved_only_within_a_run(void) {
  static const kh_segment wanted[] = {
      {0, 0, 10, 0, 0, KH_IDLE},    {10, 0, 20, 0, 0, KH_REAL},
      {30, 20, 10, 0, 0, KH_STARVED}, {40, 20, 20, 0, 0, KH_REAL},
      {60, 40, 20, 0, 0, KH_IDLE},  {80, 40, 10, 0, 0, KH_REAL},
  };
  rig *r = rig_new();
  rig_render(r, 10);
  rig_write(r, 20, 1);
  rig_render(r, 30);
  rig_write(r, 20, 0);
  rig_render(r, 40);
  CHECK_EQ(rig_snapshot(r).open.kind, KH_DRY);
  rig_write(r, 10, 1);
  rig_write(r, 10, 1);
  rig_render(r, 20);
  check_log(r, wanted, 6);
  rig_close(r);
}

static void dry_before_a_clear_is_idle(void) {
  static const kh_segment wanted[] = {{0, 0, 20, 0, 0, KH_REAL}, {20, 20, 30, 0, 0, KH_IDLE}};
  rig *r = rig_new();
  rig_write(r, 20, 1);
  rig_render(r, 30);
  kh_playout_clear(r->q);
  rig_render(r, 20);
  rig_write(r, 20, 0);
  rig_render(r, 20);
  check_log(r, wanted, 2);
  rig_close(r);
}

static void dry_before_a_stalled_clear_is_idle(void) {
  rig *r = rig_new();
  kh_segment got[16];
  uint32_t i;
  if (KH_N(KH_ANSWERS) < KH_N(KH_CLEAR_SLOTS)) {
    for (i = 0; i < KH_N(KH_ANSWERS); i++) {
      kh_playout_clear(r->q);
      rig_render(r, 1);
    }
    rig_write(r, 20, 1);
    rig_render(r, 30);
    kh_playout_clear(r->q);
    rig_render(r, 10);
    CHECK_EQ(kh_playout_segments(r->q, got, 16), 3);
    CHECK_EQ(got[2].kind, KH_IDLE);
  }
  rig_close(r);
}

static void cut_and_pause_segments(void) {
  static const kh_segment wanted[] = {
      {0, 0, 304, 0, 240, KH_REAL},
      {304, 304, 60, 0, 0, KH_PAUSED},
      {364, 304, 600, 240, 240, KH_REAL},
      {964, 2000, 36, 0, 0, KH_IDLE},
  };
  rig *r = rig_new();
  uint64_t number;
  rig_write(r, 2000, 1);
  rig_render(r, 64);
  number = kh_playout_pause(r->q);
  rig_render(r, 300);
  kh_playout_dismiss(r->q, number);
  rig_render(r, 360);
  kh_playout_clear(r->q);
  rig_render(r, 276);
  rig_write(r, 10, 1);
  rig_render(r, 10);
  check_log(r, wanted, 4);
  rig_close(r);
}

static void a_full_log_is_counted(void) {
  rig *r = rig_new();
  kh_segment s;
  uint32_t i, n = 0;
  for (i = 0; i < KH_N(KH_SEGMENTS) + 10; i++) {
    rig_write(r, 1, 1);
    rig_render(r, 1);
  }
  while (kh_playout_segments(r->q, &s, 1)) n++;
  CHECK_EQ(n, KH_N(KH_SEGMENTS));
  CHECK_EQ(rig_snapshot(r).segments_lost, 9);
  rig_close(r);
}

static void starts_run_out(void) {
  rig *r = rig_new();
  int16_t frame = 1;
  uint32_t i;
  for (i = 0; i < KH_N(KH_BOUNDARIES); i++) rig_write(r, 1, 1);
  CHECK_EQ(kh_playout_write(r->q, 0, &frame, 1, 1), 0);
  CHECK_EQ(kh_playout_write(r->q, 0, &frame, 1, 0), 1);
  rig_render(r, 1);
  CHECK_EQ(kh_playout_write(r->q, 0, &frame, 1, 1), 1);
  rig_close(r);
}

static void a_full_lane_takes_what_fits(void) {
  static int16_t frames[RIG_RING];
  rig *r = rig_new();
  rig_write(r, RIG_RING - 10, 1);
  CHECK_EQ(kh_playout_space(r->q), 10);
  CHECK_EQ(kh_playout_write(r->q, 0, frames, 100, 0), 10);
  CHECK_EQ(kh_playout_write(r->q, 0, frames, 100, 0), 0);
  rig_render(r, 64);
  CHECK_EQ(kh_playout_space(r->q), 64);
  rig_close(r);
}

static void any_block_size(void) {
  static const uint32_t sizes[] = {0, 1, 7, 0, 64, 480, 1, 1024, 0, 333};
  rig *r = rig_new();
  uint32_t i, k;
  rig_write(r, 3000, 1);
  for (k = 0; k < 10; k++) rig_render(r, sizes[k]);
  for (i = 0; i < r->frames; i++) CHECK_EQ(r->out[i], coded(i));
  CHECK_EQ(rig_snapshot(r).block, 10);
  rig_close(r);
}

static void an_empty_block_answers(void) {
  rig *r = rig_new();
  rig_write(r, 200, 1);
  rig_render(r, 64);
  kh_playout_clear(r->q);
  rig_render(r, 0);
  CHECK_EQ(rig_answer(r).cursor, 64);
  rig_close(r);
}

static void both_channels(void) {
  kh_playout_config c = rig_config();
  rig *r;
  uint32_t i;
  c.channels = 2;
  r = rig_open(c);
  rig_write(r, 100, 1);
  rig_render(r, 64);
  kh_playout_clear(r->q);
  rig_render(r, 64);
  for (i = 0; i < 200; i++) {
    int16_t wanted = i < 64 ? coded(i) : i < 100 ? rig_faded(i, i - 64, 240) : 0;
    if (i >= 128) break;
    CHECK_EQ(r->out[2 * i], wanted);
    CHECK_EQ(r->out[2 * i + 1], wanted);
  }
  rig_close(r);
}

static void notices_mix_and_saturate(void) {
  int16_t loud[3] = {32767, -32768, 100}, speech[3] = {30000, -30000, 7};
  rig *r = rig_new();
  int16_t *out;
  kh_playout_write(r->q, 0, speech, 3, 1);
  CHECK_EQ(kh_notice_write(r->q, loud, 3), 3);
  out = rig_render(r, 5);
  CHECK_EQ(out[0], 32767);
  CHECK_EQ(out[1], -32768);
  CHECK_EQ(out[2], 107);
  CHECK(rig_silent(out + 3, 2));
  CHECK_EQ(rig_snapshot(r).notice_handed, 3);
  CHECK_EQ(rig_snapshot(r).handed, 3);
  rig_close(r);
}

static void notices_are_preempted(void) {
  static int16_t tone[2 * RIG_NOTICES];
  kh_playout_config c = rig_config();
  rig *r;
  int16_t *out;
  uint32_t i;
  c.fade = 0;
  r = rig_open(c);
  for (i = 0; i < 2 * RIG_NOTICES; i++) tone[i] = (int16_t)(i + 1);
  CHECK_EQ(kh_notice_write(r->q, tone, 2 * RIG_NOTICES), RIG_NOTICES);
  CHECK_EQ(rig_render(r, 300)[299], 300);
  kh_notice_flush(r->q);
  CHECK_EQ(kh_notice_write(r->q, tone + 500, 2), 2);
  kh_playout_clear(r->q); /* of the speech lane only */
  out = rig_render(r, 3);
  CHECK_EQ(out[0], 501);
  CHECK_EQ(out[2], 0);
  CHECK_EQ(kh_notice_write(r->q, tone, 2 * RIG_NOTICES), RIG_NOTICES);
  rig_close(r);
}

static void flags_are_counted(void) {
  rig *r = rig_new();
  r->flags = KH_UNDERFLOW;
  rig_render(r, 8);
  r->flags = KH_NOMINAL_TIME;
  rig_render(r, 8);
  CHECK_EQ(rig_snapshot(r).underflows, 1);
  CHECK_EQ(rig_snapshot(r).nominal_times, 1);
  rig_close(r);
}

static void no_snapshot_before_a_block(void) {
  rig *r = rig_new();
  kh_snapshot s;
  CHECK_EQ(kh_playout_snapshot(r->q, &s), KH_NO_SNAPSHOT);
  CHECK(KH_SNAPSHOT_WORDS <= KH_SLOT_WORDS);
  rig_close(r);
}

static void refuse(kh_playout_config c) {
  static int16_t ring[RIG_RING];
  void *shared = calloc(1, kh_playout_shared_size());
  int32_t result = KH_OK;
  CHECK(kh_playout_open(shared, ring, ring, &c, &result) == NULL);
  CHECK_EQ(result, KH_BAD_CONFIG);
  free(shared);
}

static void bad_configurations(void) {
  kh_playout_config c = rig_config();
#define REFUSE(field, value) c = rig_config(), c.field = (value), refuse(c)
  REFUSE(rate, 0);
  REFUSE(channels, 0);
  REFUSE(channels, 9);
  REFUSE(capacity, 100);
  REFUSE(capacity, 0);
  REFUSE(notice_capacity, 3);
  REFUSE(fade, KH_FADE_MAX + 1);
  REFUSE(duck_gain, KH_DUCK_MIN - 1);
  REFUSE(duck_gain, 32769);
  REFUSE(restart_frames, 0);
#undef REFUSE
}

int main(void) {
  RUN(starved_only_within_a_run);
  RUN(dry_before_a_clear_is_idle);
  RUN(dry_before_a_stalled_clear_is_idle);
  RUN(cut_and_pause_segments);
  RUN(a_full_log_is_counted);
  RUN(starts_run_out);
  RUN(a_full_lane_takes_what_fits);
  RUN(any_block_size);
  RUN(an_empty_block_answers);
  RUN(both_channels);
  RUN(notices_mix_and_saturate);
  RUN(notices_are_preempted);
  RUN(flags_are_counted);
  RUN(no_snapshot_before_a_block);
  RUN(bad_configurations);
  return 0;
}
