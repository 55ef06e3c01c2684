/* Pause, dismiss and duck, and how a clear ends them. */
#include "rig.h"

static void pause_then_clear(void) {
  rig *r = rig_new();
  kh_answer a;
  uint32_t i;
  rig_write(r, 2000, 1);
  rig_render(r, 64);
  kh_playout_pause(r->q);
  rig_render(r, 480);
  for (i = 0; i < 240; i++) CHECK_EQ(r->out[64 + i], rig_faded(64 + i, i, 240));
  CHECK(rig_silent(r->out + 304, 240));
  CHECK_EQ(rig_snapshot(r).mode, KH_PAUSE);
  kh_playout_clear(r->q);
  CHECK(rig_silent(rig_render(r, 64), 64)); /* it was silent: nothing more is handed */
  a = rig_answer(r);
  CHECK_EQ(a.cursor, 304);
  CHECK_EQ(a.faded, 240);
  rig_write(r, 64, 1);
  CHECK_EQ(rig_render(r, 64)[0], coded(2000)); /* the pause ended with the clear */
  rig_close(r);
}

/* The clear's own fade goes on from where the pause's had come. */
static void clear_within_the_pause_fade(void) {
  rig *r = rig_new();
  kh_answer a;
  int32_t gain = kh_fade_gain(63, 240);
  rig_write(r, 2000, 1);
  rig_render(r, 64);
  kh_playout_pause(r->q);
  rig_render(r, 64);
  kh_playout_clear(r->q);
  rig_render(r, 480);
  a = rig_answer(r);
  CHECK_EQ(a.cursor, 128 + 240);
  CHECK_EQ(a.faded, 64 + 240);
  CHECK_EQ(r->out[128], (coded(128) * (int64_t)gain * kh_fade_gain(0, 240)) >> 30);
  CHECK_EQ(rig_snapshot(r).faded, 64 + 240);
  rig_close(r);
}

static void dismiss_resumes_exactly(void) {
  kh_playout_config c = rig_config();
  rig *r;
  uint64_t number;
  uint32_t i;
  c.fade = 0;
  r = rig_open(c);
  rig_write(r, 1000, 1);
  rig_render(r, 64);
  number = kh_playout_pause(r->q);
  CHECK(rig_silent(rig_render(r, 100), 100));
  CHECK_EQ(kh_playout_dismiss(r->q, number), 1);
  rig_render(r, 64);
  for (i = 0; i < 64; i++) CHECK_EQ(r->out[164 + i], coded(64 + i));
  CHECK_EQ(kh_playout_dismiss(r->q, number), 0);
  rig_close(r);
}

/* With a fade: every frame is handed once, down to silence and up again. */
static void dismiss_with_a_fade(void) {
  rig *r = rig_new();
  kh_snapshot s;
  uint32_t i;
  uint64_t number;
  rig_write(r, 2000, 1);
  rig_render(r, 64);
  number = kh_playout_pause(r->q);
  rig_render(r, 300);
  CHECK_EQ(kh_playout_dismiss(r->q, number), 1);
  rig_render(r, 300);
  for (i = 0; i < 240; i++) {
    int32_t gain = KH_UNITY + ((-KH_UNITY * kh_fade_gain(i, 240)) >> 15);
    CHECK_EQ(r->out[364 + i], (coded(304 + i) * gain) >> 15);
  }
  CHECK_EQ(r->out[604], coded(544));
  s = rig_snapshot(r);
  CHECK_EQ(s.faded, 240);
  CHECK_EQ(s.ducked, 240);
  CHECK_EQ(s.handed, 604);
  rig_close(r);
}

static void void_dismissals(void) {
  rig *r = rig_new();
  uint64_t old = kh_playout_pause(r->q), newer = kh_playout_pause(r->q);
  CHECK(newer != old);
  CHECK_EQ(kh_playout_dismiss(r->q, old), 0);
  kh_playout_clear(r->q);
  CHECK_EQ(kh_playout_dismiss(r->q, newer), 0);
  newer = kh_playout_duck(r->q);
  CHECK_EQ(kh_playout_dismiss(r->q, newer), 1);
  rig_close(r);
}

static void pause_at_a_run_boundary(void) {
  rig *r = rig_new();
  uint64_t number;
  rig_write(r, 100, 1);
  rig_write(r, 300, 1);
  rig_render(r, 64);
  number = kh_playout_pause(r->q);
  rig_render(r, 64);
  CHECK(rig_silent(r->out + 100, 28)); /* the fade does not reach into the next run */
  CHECK_EQ(rig_snapshot(r).read, 100);
  CHECK_EQ(rig_snapshot(r).faded, 36);
  kh_playout_dismiss(r->q, number);
  CHECK_EQ(rig_render(r, 64)[0], coded(100)); /* a run starts at full gain */
  rig_close(r);
}

static void pause_before_the_first_frame(void) {
  rig *r = rig_new();
  kh_playout_pause(r->q);
  rig_write(r, 100, 1);
  CHECK(rig_silent(rig_render(r, 64), 64));
  CHECK_EQ(rig_snapshot(r).read, 0);
  CHECK_EQ(rig_snapshot(r).silent, 1);
  rig_close(r);
}

static void duck_is_exact_and_counted(void) {
  rig *r = rig_new();
  kh_snapshot s;
  uint64_t number;
  uint32_t i;
  rig_write(r, 2000, 1);
  rig_render(r, 64);
  number = kh_playout_duck(r->q);
  rig_render(r, 400);
  for (i = 0; i < 240; i++) {
    int32_t gain = 16384 + (int32_t)((16384 * (int64_t)kh_fade_gain(i, 240)) >> 15);
    CHECK_EQ(r->out[64 + i], (coded(64 + i) * gain) >> 15);
  }
  for (i = 240; i < 400; i++) CHECK_EQ(r->out[64 + i], (coded(64 + i) * 16384) >> 15);
  s = rig_snapshot(r);
  CHECK_EQ(s.ducked, 400);
  CHECK_EQ(s.faded, 0);
  CHECK_EQ(s.mode, KH_DUCK);
  kh_playout_dismiss(r->q, number);
  rig_render(r, 400);
  CHECK_EQ(rig_snapshot(r).ducked, 640);
  CHECK_EQ(r->out[863], coded(863));
  rig_close(r);
}

static void silent_says_how_the_block_ended(void) {
  kh_playout_config c = rig_config();
  rig *r;
  c.fade = 64;
  r = rig_open(c);
  rig_write(r, 500, 1);
  rig_render(r, 64);
  CHECK_EQ(rig_snapshot(r).silent, 0);
  kh_playout_clear(r->q);
  rig_render(r, 64); /* the fade fills it */
  CHECK_EQ(rig_snapshot(r).silent, 0);
  rig_render(r, 1);
  CHECK_EQ(rig_snapshot(r).silent, 1);
  rig_close(r);
}

int main(void) {
  RUN(pause_then_clear);
  RUN(clear_within_the_pause_fade);
  RUN(dismiss_resumes_exactly);
  RUN(dismiss_with_a_fade);
  RUN(void_dismissals);
  RUN(pause_at_a_run_boundary);
  RUN(pause_before_the_first_frame);
  RUN(duck_is_exact_and_counted);
  RUN(silent_says_how_the_block_ended);
  return 0;
}
