/* The notice lane and the volume: what is mixed, counted and faded. */
#include "rig.h"

static void notice(rig *r, uint32_t n, int16_t value) {
  int16_t frames[RIG_NOTICES];
  uint32_t i;
  for (i = 0; i < n; i++) frames[i] = value;
  CHECK_EQ(kh_notice_write(r->q, frames, n), n);
}

/* What was mixed in and dropped, and where the newest notice frame lies. */
static void place(rig *r, uint64_t handed, uint64_t flushed, uint64_t frame, uint64_t device) {
  kh_snapshot s = rig_snapshot(r);
  CHECK_EQ(s.notice_handed, handed);
  CHECK_EQ(s.notice_flushed, flushed);
  CHECK_EQ(s.notice_frame, frame);
  CHECK_EQ(s.notice_device, device);
  /* written = handed + flushed + queued */
  CHECK_EQ(kh_notice_written(r->q), handed + flushed + RIG_NOTICES - kh_notice_space(r->q));
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
  place(r, 150, 0, 150, 150);
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
  place(r, 540, 360, 540, 540);
  notice(r, 10, 500); /* and the next is whole */
  CHECK_EQ(rig_render(r, 20)[0], 500);
  place(r, 550, 360, 910, 710);
  rig_close(r);
}

static void a_flush_before_anything_sounded(void) {
  rig *r = rig_new();
  notice(r, 500, 8000);
  kh_notice_flush(r->q);
  CHECK(rig_silent(rig_render(r, 300), 300));
  place(r, 0, 500, 0, 0);
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
  place(r, 128, 772, 128, 128);
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
  place(r, 100 + 240 + 50, 60, 450, 390);
  rig_close(r);
}

/* A lane that ran dry in the block: the place is that of the frame, not of the block. */
static void a_lane_that_ran_dry(void) {
  rig *r = rig_new();
  notice(r, 100, 8000);
  rig_render(r, 480);
  place(r, 100, 0, 100, 100);
  CHECK(rig_silent(rig_render(r, 480), 480));
  place(r, 100, 0, 100, 100);
  notice(r, 700, 900);
  rig_render(r, 480);
  place(r, 580, 0, 580, 1440); /* frame 100 is at 1440 - (580 - 100) */
  CHECK_EQ(r->out[959], 0);
  CHECK_EQ(r->out[960], 900);
  rig_close(r);
}

/* Nothing of it sounded in the block before, so there is nothing to fade. */
static void a_flush_of_what_has_not_begun(void) {
  rig *r = rig_new();
  notice(r, 100, 8000);
  rig_render(r, 480);
  notice(r, 200, 8000);
  kh_notice_flush(r->q);
  kh_notice_flush(r->q);
  CHECK(rig_silent(rig_render(r, 480), 480));
  place(r, 100, 200, 100, 100);
  rig_close(r);
}

static void more_than_there_is_room_for(void) {
  rig *r = rig_new();
  int16_t frames[RIG_NOTICES + 9] = {0};
  CHECK_EQ(kh_notice_space(r->q), RIG_NOTICES);
  CHECK_EQ(kh_notice_write(r->q, frames, RIG_NOTICES + 9), RIG_NOTICES);
  CHECK_EQ(kh_notice_space(r->q), 0);
  CHECK_EQ(kh_notice_write(r->q, frames, 1), 0);
  rig_render(r, 100);
  CHECK_EQ(kh_notice_space(r->q), 100);
  CHECK_EQ(kh_notice_written(r->q), RIG_NOTICES);
  rig_close(r);
}

static void in_every_channel(void) {
  kh_playout_config c = rig_config();
  rig *r;
  uint32_t i;
  c.channels = 2;
  r = rig_open(c);
  notice(r, 480, 8000);
  kh_playout_volume(r->q, 16384);
  rig_render(r, 240);
  rig_render(r, 240);
  for (i = 240; i < 480; i++) {
    CHECK_EQ(r->out[2 * i], 4000);
    CHECK_EQ(r->out[2 * i + 1], 4000);
  }
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
  int32_t reached = (int32_t)((KH_UNITY * (int64_t)kh_fade_gain(119, 240)) >> 15);
  uint32_t i;
  rig_write(r, 1000, 1);
  kh_playout_volume(r->q, 0);
  rig_render(r, 120);
  CHECK_EQ(rig_snapshot(r).volume, (uint64_t)reached);
  kh_playout_volume(r->q, 32768);
  rig_render(r, 240);
  for (i = 0; i < 240; i++) {
    int32_t gain = KH_UNITY + (int32_t)(((reached - KH_UNITY) * (int64_t)kh_fade_gain(i, 240)) >> 15);
    CHECK_EQ(r->out[120 + i], (coded(120 + i) * gain) >> 15);
  }
  CHECK_EQ(rig_render(r, 60)[0], coded(360));
  CHECK_EQ(rig_snapshot(r).volume, 32768);
  rig_close(r);
}

/* Speech with a notice over it, a duck, its end, a pause and a clear; the volume changes
 * `volumes` times, in the middle of their ramps as well. */
static rig *conversation(uint32_t volumes) {
  static const uint32_t gains[] = {20000, 0, 32768, 9000};
  rig *r = rig_new();
  uint32_t i;
  uint64_t held = 0;
  rig_write(r, 4000, 1);
  notice(r, 1000, 3000);
  for (i = 0; i < 40; i++) {
    if (i % 10 == 1 && i / 10 < volumes) kh_playout_volume(r->q, gains[i / 10]);
    if (i == 5) held = kh_playout_duck(r->q);
    if (i == 12) CHECK_EQ(kh_playout_dismiss(r->q, held), 1);
    if (i == 20) kh_playout_pause(r->q);
    if (i == 22) kh_playout_clear(r->q);
    rig_render(r, 100);
  }
  return r;
}

/* Counts, cursor and log are those of full volume; samples are never above them. */
static void volume_changes_no_count(void) {
  rig *full = conversation(0), *r = conversation(4);
  kh_answer a = rig_answer(full), b = rig_answer(r);
  kh_snapshot s = rig_snapshot(full), t = rig_snapshot(r);
  uint32_t i;
  CHECK(memcmp(&a, &b, sizeof a) == 0);
  CHECK_EQ(t.volume, 9000);
  t.volume = s.volume;
  CHECK(memcmp(&s, &t, sizeof s) == 0);
  CHECK(s.ducked > 0 && s.faded > 0 && a.discarded > 0);
  for (i = 0; i < 100; i++) CHECK_EQ(r->out[i], full->out[i]);
  for (i = 0; i < r->frames; i++) CHECK(r->out[i] >= 0 && r->out[i] <= full->out[i]);
  CHECK(rig_silent(r->out + 1340, 760)); /* volume 0 from block 11 to block 21 */
  for (i = 2340; i < 3100; i++) CHECK_EQ(r->out[i], full->out[i]);
  rig_close(full);
  rig_close(r);
}

/* A volume that comes to the same is no ramp, and nothing is rendered by a settle. */
static void volume_that_stays(void) {
  rig *r = rig_new();
  rig_write(r, 1000, 1);
  kh_playout_volume(r->q, 100);
  kh_playout_volume(r->q, 32768);
  CHECK_EQ(rig_render(r, 10)[0], coded(0));
  kh_playout_volume(r->q, 100);
  kh_playout_settle(r->q, 0);
  CHECK_EQ(rig_snapshot(r).volume, 32768);
  CHECK_EQ(rig_render(r, 10)[0], (coded(10) * (100 + ((32668 * kh_fade_gain(0, 240)) >> 15))) >> 15);
  rig_close(r);
}

static void volume_without_a_fade(void) {
  kh_playout_config c = rig_config();
  rig *r;
  c.fade = 0;
  r = rig_open(c);
  rig_write(r, 1000, 1);
  kh_playout_volume(r->q, 16384);
  CHECK_EQ(rig_render(r, 1)[0], coded(0) / 2);
  kh_playout_volume(r->q, 0);
  CHECK(rig_silent(rig_render(r, 7), 7));
  kh_playout_volume(r->q, 32768);
  CHECK_EQ(rig_render(r, 7)[0], coded(8));
  rig_close(r);
}

int main(void) {
  RUN(over_speech_and_alone);
  RUN(the_sum_is_limited);
  RUN(a_flush_fades_what_sounds);
  RUN(a_flush_before_anything_sounded);
  RUN(a_flush_in_a_short_block);
  RUN(a_new_notice_behind_a_flush);
  RUN(a_lane_that_ran_dry);
  RUN(a_flush_of_what_has_not_begun);
  RUN(more_than_there_is_room_for);
  RUN(in_every_channel);
  RUN(volume_ramps_and_holds);
  RUN(volume_in_mid_ramp);
  RUN(volume_changes_no_count);
  RUN(volume_that_stays);
  RUN(volume_without_a_fade);
  return 0;
}
