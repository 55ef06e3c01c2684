/* The notice lane and the volume: what is mixed, counted and faded. */
#include "rig.h"

static void notice(rig *r, uint32_t n, int16_t value) {
  int16_t frames[RIG_NOTICES];
  uint32_t i;
  for (i = 0; i < n; i++) frames[i] = value;
  CHECK_EQ(kh_notice_write(r->q, frames, n), n);
}

/* written = handed + flushed + queued, and the place of the newest frame. */
static void place(rig *r, uint64_t handed, uint64_t flushed, uint64_t device) {
  kh_snapshot s = rig_snapshot(r);
  CHECK_EQ(s.notice_handed, handed);
  CHECK_EQ(s.notice_flushed, flushed);
  CHECK_EQ(s.notice_device, device);
}

static void over_speech_and_alone(void) {
  rig *r = rig_new();
  uint32_t i;
  rig_write(r, 100, 1);
  notice(r, 150, 1000);
  rig_render(r, 200);
  for (i = 0; i < 100; i++) CHECK_EQ(r->out[i], coded(i) + 1000);
  for (i = 100; i < 150; i++) CHECK_EQ(r->out[i], 1000);
  CHECK(rig_silent(r->out + 150, 50));
  place(r, 150, 0, 150);
  CHECK_EQ(rig_snapshot(r).handed, 100); /* a notice is in no item */
  CHECK_EQ(kh_notice_written(r->q), 150);
  rig_close(r);
}

static void the_sum_is_limited(void) {
  rig *r = rig_new();
  notice(r, 8, 32767);
  rig_write(r, 8, 1);
  rig_render(r, 8);
  CHECK_EQ(r->out[3], 32767);
  rig_close(r);
}

static void a_flush_fades_what_sounds(void) {
  rig *r = rig_new();
  uint32_t i;
  notice(r, 900, 8000);
  rig_render(r, 300);
  kh_notice_flush(r->q);
  rig_render(r, 400);
  for (i = 0; i < 240; i++) CHECK_EQ(r->out[300 + i], (8000 * kh_fade_gain(i, 240)) >> 15);
  CHECK(rig_silent(r->out + 540, 160));
  place(r, 540, 360, 540);
  notice(r, 10, 500); /* and the next is whole */
  CHECK_EQ(rig_render(r, 20)[0], 500);
  place(r, 550, 360, 710);
  rig_close(r);
}

static void a_flush_before_anything_sounded(void) {
  rig *r = rig_new();
  notice(r, 500, 8000);
  kh_notice_flush(r->q);
  CHECK(rig_silent(rig_render(r, 300), 300));
  place(r, 0, 500, 0);
  rig_close(r);
}

/* The fade ends with the block, however short that is. */
static void a_flush_in_a_short_block(void) {
  rig *r = rig_new();
  int32_t last;
  notice(r, 900, 8000);
  rig_render(r, 64);
  kh_notice_flush(r->q);
  rig_render(r, 64);
  last = r->out[127];
  CHECK(last >= 0 && last < 8000 / 20);
  CHECK(rig_silent(rig_render(r, 64), 64));
  place(r, 128, 772, 128);
  rig_close(r);
}

static void a_new_notice_behind_a_flush(void) {
  rig *r = rig_new();
  notice(r, 400, 8000);
  rig_render(r, 100);
  kh_notice_flush(r->q);
  notice(r, 50, 700);
  rig_render(r, 480);
  for (uint32_t i = 0; i < 50; i++) CHECK_EQ(r->out[340 + i], 700);
  CHECK(rig_silent(r->out + 390, 190));
  place(r, 100 + 240 + 50, 60, 390);
  rig_close(r);
}

static void volume_ramps_and_holds(void) {
  rig *r = rig_new();
  kh_snapshot s;
  uint32_t i;
  rig_write(r, 2000, 1);
  rig_render(r, 100);
  for (i = 0; i < 100; i++) CHECK_EQ(r->out[i], coded(i)); /* exact at full volume */
  kh_playout_volume(r->q, 16384);
  rig_render(r, 100); /* the ramp goes over blocks */
  rig_render(r, 300);
  for (i = 0; i < 240; i++) {
    int32_t gain = 16384 + (int32_t)((16384 * (int64_t)kh_fade_gain(i, 240)) >> 15);
    CHECK_EQ(r->out[100 + i], (coded(100 + i) * gain) >> 15);
  }
  for (i = 240; i < 400; i++) CHECK_EQ(r->out[100 + i], (coded(100 + i) * 16384) >> 15);
  s = rig_snapshot(r);
  CHECK_EQ(s.volume, 16384);
  CHECK_EQ(s.handed, 500);
  CHECK_EQ(s.ducked, 0); /* a volume is no cut and no duck */
  CHECK_EQ(s.faded, 0);
  kh_playout_volume(r->q, 40000); /* more than all is all */
  rig_render(r, 240);
  CHECK_EQ(rig_render(r, 10)[0], coded(740));
  CHECK_EQ(rig_snapshot(r).volume, 32768);
  rig_close(r);
}

/* Another volume in the middle of a ramp goes on from where that had come. */
static void volume_in_mid_ramp(void) {
  rig *r = rig_new();
  int32_t reached = KH_UNITY + (int32_t)((-KH_UNITY * (int64_t)(32768 - kh_fade_gain(119, 240))) >> 15);
  rig_write(r, 1000, 1);
  kh_playout_volume(r->q, 0);
  rig_render(r, 120);
  CHECK_EQ(rig_snapshot(r).volume, (uint64_t)reached);
  kh_playout_volume(r->q, 32768);
  rig_render(r, 1);
  CHECK(rig_snapshot(r).volume >= (uint64_t)reached);
  rig_render(r, 300);
  CHECK_EQ(rig_snapshot(r).volume, 32768);
  rig_close(r);
}

static void volume_is_over_notices_cuts_and_pauses(void) {
  rig *r = rig_new();
  kh_answer a;
  rig_write(r, 2000, 1);
  kh_playout_volume(r->q, 0);
  notice(r, 600, 9000);
  rig_render(r, 300);
  CHECK(rig_silent(r->out + 240, 60));
  kh_playout_pause(r->q);
  rig_render(r, 300);
  kh_playout_clear(r->q);
  rig_render(r, 300);
  a = rig_answer(r);
  CHECK_EQ(a.cursor, 540); /* the counts are those of full volume */
  CHECK_EQ(a.faded, 240);
  rig_close(r);
}

int main(void) {
  RUN(over_speech_and_alone);
  RUN(the_sum_is_limited);
  RUN(a_flush_fades_what_sounds);
  RUN(a_flush_before_anything_sounded);
  RUN(a_flush_in_a_short_block);
  RUN(a_new_notice_behind_a_flush);
  RUN(volume_ramps_and_holds);
  RUN(volume_in_mid_ramp);
  RUN(volume_is_over_notices_cuts_and_pauses);
  return 0;
}
