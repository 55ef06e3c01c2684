/* A clear, block by block: what sounds after it and what it answers. */
#include "rig.h"

static void nothing_written(void) {
  rig *r = rig_new();
  uint64_t number = kh_playout_clear(r->q);
  kh_answer a;
  CHECK_EQ(kh_playout_answer(r->q, &a), 0);
  CHECK(rig_silent(rig_render(r, 64), 64));
  a = rig_answer(r);
  CHECK_EQ(a.request, number);
  CHECK_EQ(a.cursor, 0);
  CHECK_EQ(a.fence, 0);
  CHECK_EQ(a.handed, 0);
  rig_close(r);
}

static void before_the_first_sample(void) {
  rig *r = rig_new();
  kh_answer a;
  rig_write(r, 500, 1);
  kh_playout_clear(r->q);
  CHECK(rig_silent(rig_render(r, 64), 64));
  a = rig_answer(r);
  CHECK_EQ(a.cursor, 0);
  CHECK_EQ(a.discarded, 500);
  CHECK_EQ(a.faded, 0);
  rig_write(r, 64, 0); /* marked as a start, whatever the writer says */
  CHECK_EQ(rig_render(r, 64)[0], coded(500));
  rig_close(r);
}

static void twice_idle(void) {
  rig *r = rig_new();
  uint64_t first, second;
  rig_write(r, 32, 1);
  rig_render(r, 64);
  first = kh_playout_clear(r->q);
  rig_render(r, 64);
  CHECK_EQ(rig_answer(r).request, first);
  second = kh_playout_clear(r->q);
  CHECK(second > first);
  rig_render(r, 64);
  CHECK_EQ(rig_answer(r).request, second);
  rig_close(r);
}

static void several_coalesce(void) {
  rig *r = rig_new();
  kh_answer a;
  uint64_t last = 0;
  int i;
  rig_write(r, 300, 1);
  rig_render(r, 64);
  for (i = 0; i < 3; i++) last = kh_playout_clear(r->q);
  rig_render(r, 64);
  CHECK_EQ(rig_answer(r).request, last);
  CHECK_EQ(kh_playout_answer(r->q, &a), 0);
  rig_close(r);
}

/* The fade is longer than the block, and the writer fills the ring at once. */
static void fade_is_exact_and_private(void) {
  rig *r = rig_new();
  kh_answer a;
  kh_snapshot s;
  uint32_t i;
  rig_write(r, RIG_RING, 1);
  rig_render(r, 100);
  kh_playout_clear(r->q);
  rig_render(r, 64);
  a = rig_answer(r);
  CHECK_EQ(a.cursor, 340);
  CHECK_EQ(a.faded, 240);
  CHECK_EQ(a.discarded, RIG_RING - 340);
  CHECK_EQ(a.device_frame, 100);
  CHECK_EQ(rig_snapshot(r).fading, 240 - 64);
  rig_write(r, RIG_RING, 1);
  for (i = 0; i < 5; i++) rig_render(r, 64);
  for (i = 0; i < 100; i++) CHECK_EQ(r->out[i], coded(i));
  for (i = 0; i < 240; i++) CHECK_EQ(r->out[100 + i], rig_faded(100 + i, i, 240));
  for (i = 0; i < 64 * 6 - 240; i++) CHECK_EQ(r->out[340 + i], coded(RIG_RING + i));
  s = rig_snapshot(r);
  CHECK_EQ(s.faded, 240);
  CHECK_EQ(s.fading, 0);
  rig_close(r);
}

static void fade_stops_at_the_next_run(void) {
  rig *r = rig_new();
  kh_answer a;
  rig_write(r, 100, 1);
  rig_write(r, 400, 1);
  rig_render(r, 64);
  kh_playout_clear(r->q);
  CHECK(rig_silent(rig_render(r, 64) + 36, 28));
  a = rig_answer(r);
  CHECK_EQ(a.cursor, 100);
  CHECK_EQ(a.faded, 36);
  rig_close(r);
}

static void nothing_fades_at_a_run_start(void) {
  rig *r = rig_new();
  rig_write(r, 64, 1);
  rig_write(r, 64, 1);
  rig_render(r, 64);
  kh_playout_clear(r->q);
  CHECK(rig_silent(rig_render(r, 64), 64));
  CHECK_EQ(rig_answer(r).cursor, 64);
  rig_close(r);
}

static void while_starved(void) {
  rig *r = rig_new();
  kh_answer a;
  rig_write(r, 50, 1);
  rig_render(r, 64);
  rig_write(r, 50, 0);
  kh_playout_clear(r->q);
  CHECK(rig_silent(rig_render(r, 64), 64));
  a = rig_answer(r);
  CHECK_EQ(a.cursor, 50);
  CHECK_EQ(a.discarded, 50);
  rig_close(r);
}

static void while_fading(void) {
  rig *r = rig_new();
  rig_write(r, 1000, 1);
  rig_render(r, 64);
  kh_playout_clear(r->q);
  rig_render(r, 64);
  CHECK_EQ(rig_answer(r).cursor, 64 + 240);
  rig_write(r, 100, 1);
  kh_playout_clear(r->q);
  rig_render(r, 240);
  CHECK_EQ(rig_answer(r).cursor, 1000);
  CHECK_EQ(r->out[303], rig_faded(303, 239, 240)); /* the first fade goes on */
  CHECK(rig_silent(r->out + 304, 64));
  rig_close(r);
}

static void stale_generation(void) {
  rig *r = rig_new();
  int16_t frame = 1;
  uint64_t old = kh_playout_generation(r->q);
  kh_playout_clear(r->q);
  CHECK_EQ(kh_playout_write(r->q, old, &frame, 1, 1), KH_STALE);
  CHECK_EQ(kh_playout_write(r->q, old + 2, &frame, 1, 1), KH_STALE);
  CHECK_EQ(kh_playout_written(r->q), 0);
  rig_close(r);
}

static void slots_run_out(void) {
  rig *r = rig_new();
  int16_t frame = 1;
  uint64_t last = 0;
  kh_answer a;
  uint32_t i;
  for (i = 0; i < KH_N(KH_CLEAR_SLOTS) + 3; i++) last = kh_playout_clear(r->q);
  CHECK_EQ(last, KH_N(KH_CLEAR_SLOTS));
  CHECK_EQ(kh_playout_write(r->q, last, &frame, 1, 1), 0);
  CHECK_EQ(kh_playout_space(r->q), 0);
  kh_playout_pause(r->q);
  CHECK_EQ(kh_playout_clear(r->q), last); /* and the pause is over */
  rig_render(r, 8);
  CHECK_EQ(rig_snapshot(r).mode, KH_PLAY);
  a = rig_answer(r);
  CHECK_EQ(a.request, last);
  CHECK_EQ(kh_playout_space(r->q), RIG_RING);
  rig_close(r);
}

/* With the product's sizes the slots run out first; with small ones the answers do. */
static void answer_ring_full(void) {
  rig *r = rig_new();
  kh_answer a;
  uint32_t i;
  if (KH_N(KH_ANSWERS) >= KH_N(KH_CLEAR_SLOTS)) {
    rig_close(r);
    return;
  }
  for (i = 0; i < KH_N(KH_ANSWERS); i++) {
    rig_write(r, 10, 1);
    kh_playout_clear(r->q);
    rig_render(r, 4);
  }
  rig_write(r, 500, 1);
  rig_render(r, 64);
  rig_render(r, 64);
  kh_playout_clear(r->q);
  CHECK(rig_silent(rig_render(r, 64), 64));
  CHECK_EQ(rig_snapshot(r).stalled_blocks, 1);
  CHECK_EQ(rig_snapshot(r).answered, KH_N(KH_ANSWERS));
  for (i = 0; i < KH_N(KH_ANSWERS); i++) CHECK_EQ(rig_answer(r).request, i + 1);
  CHECK_EQ(kh_playout_answer(r->q, &a), 0);
  rig_render(r, 64);
  a = rig_answer(r);
  CHECK_EQ(a.request, KH_N(KH_ANSWERS) + 1);
  CHECK_EQ(a.cursor, 10 * KH_N(KH_ANSWERS) + 128);
  CHECK_EQ(rig_snapshot(r).stalled_blocks, 1);
  rig_close(r);
}

static void settle_after_the_stream(void) {
  rig *r = rig_new();
  kh_answer a;
  rig_write(r, 500, 1);
  rig_render(r, 64);
  kh_playout_clear(r->q);
  kh_playout_settle(r->q, 5);
  a = rig_answer(r);
  CHECK_EQ(a.cursor, 64);
  CHECK_EQ(a.faded, 0);
  CHECK_EQ(a.discarded, 436);
  CHECK_EQ(a.flags, KH_NOMINAL_TIME);
  rig_snapshot(r);
  rig_close(r);
}

static void counts_near_their_ends(void) {
  static const uint64_t frames[] = {(1ull << 32) - 70, (1ull << 63) - 70};
  static const uint64_t clears[] = {(1ull << 32) - 1, 1ull << 61};
  int i;
  for (i = 0; i < 2; i++) {
    kh_playout_config c = rig_config();
    rig *r;
    kh_answer a;
    c.first_frame = frames[i];
    c.first_clear = clears[i];
    r = rig_open(c);
    rig_write(r, 600, 1);
    CHECK_EQ(rig_render(r, 64)[63], coded(frames[i] + 63));
    CHECK_EQ(kh_playout_clear(r->q), clears[i] + 1);
    rig_render(r, 300);
    a = rig_answer(r);
    CHECK_EQ(a.request, clears[i] + 1);
    CHECK_EQ(a.cursor, frames[i] + 64 + 240);
    rig_snapshot(r);
    rig_close(r);
  }
}

static void fade_curve(void) {
  static const uint32_t lengths[] = {1, 2, 64, 240, 480, KH_FADE_MAX};
  uint32_t k, i;
  for (k = 0; k < 6; k++) {
    int32_t last = KH_UNITY;
    for (i = 0; i < lengths[k]; i++) {
      int32_t gain = kh_fade_gain(i, lengths[k]);
      CHECK(gain > 0 && gain < 32768 && gain <= last);
      last = gain;
    }
  }
}

int main(void) {
  RUN(nothing_written);
  RUN(before_the_first_sample);
  RUN(twice_idle);
  RUN(several_coalesce);
  RUN(fade_is_exact_and_private);
  RUN(fade_stops_at_the_next_run);
  RUN(nothing_fades_at_a_run_start);
  RUN(while_starved);
  RUN(while_fading);
  RUN(stale_generation);
  RUN(slots_run_out);
  RUN(answer_ring_full);
  RUN(settle_after_the_stream);
  RUN(counts_near_their_ends);
  RUN(fade_curve);
  return 0;
}
