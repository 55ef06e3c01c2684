/* What can be read from the region of a process that died at any point. */
#include "rig.h"

static const uint64_t boot[2] = {11, 12};

/* A copy of the region, as the next process maps it. */
static kh_shared *left_behind(rig *r) {
  kh_shared *s = malloc(sizeof *s);
  CHECK(s != NULL);
  memcpy(s, r->shared, sizeof *s);
  return s;
}

static rig *played(void) {
  rig *r = rig_new();
  rig_write(r, 500, 1);
  rig_render(r, 64);
  rig_render(r, 64);
  return r;
}

static void newest_snapshot(void) {
  rig *r = played();
  kh_shared *s = left_behind(r);
  kh_snapshot out;
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, boot, &out), KH_OK);
  CHECK_EQ(out.block, 2);
  CHECK_EQ(out.handed, 128);
  free(s);
  rig_close(r);
}

/* Killed within block 3: its slot has the new begin and some new words. */
static void torn_slot(void) {
  rig *r = played();
  kh_shared *s = left_behind(r);
  kh_snapshot out;
  KH_STORE(s->slots[1].begin, 3, KH_RELAXED);
  KH_STORE(s->slots[1].words[3], 999, KH_RELAXED);
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, boot, &out), KH_OK);
  CHECK_EQ(out.block, 2);
  KH_STORE(s->slots[1].begin, 1, KH_RELAXED);
  KH_STORE(s->slots[1].words[3], 64, KH_RELAXED);
  KH_STORE(s->slots[0].begin, 4, KH_RELAXED);
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, boot, &out), KH_OK);
  CHECK_EQ(out.block, 1);
  CHECK_EQ(out.handed, 64);
  free(s);
  rig_close(r);
}

static void first_block_torn(void) {
  rig *r = rig_new();
  kh_shared *s = left_behind(r);
  kh_snapshot out;
  KH_STORE(s->slots[1].begin, 1, KH_RELAXED);
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, boot, &out), KH_NO_SNAPSHOT);
  free(s);
  rig_close(r);
}

static void somebody_elses(void) {
  rig *r = played();
  kh_shared *s = left_behind(r);
  kh_snapshot out;
  uint64_t other[2] = {11, 13};
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, other, &out), KH_NOT_OURS);
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s - 1, boot, &out), KH_NOT_OURS);
  CHECK_EQ(kh_recover_snapshot(s, 0, boot, &out), KH_NOT_OURS);
  KH_STORE(s->version, KH_LAYOUT_VERSION + 1, KH_RELAXED);
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, boot, &out), KH_NOT_OURS);
  KH_STORE(s->version, KH_LAYOUT_VERSION - 1, KH_RELAXED);
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, boot, &out), KH_NOT_OURS);
  KH_STORE(s->version, KH_LAYOUT_VERSION, KH_RELAXED);
  KH_STORE(s->size, sizeof *s + 8, KH_RELAXED);
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, boot, &out), KH_NOT_OURS);
  KH_STORE(s->size, sizeof *s, KH_RELAXED);
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, boot, &out), KH_OK);
  KH_STORE(s->magic, 0, KH_RELAXED);
  CHECK_EQ(kh_recover_snapshot(s, sizeof *s, boot, &out), KH_NOT_OURS);
  free(s);
  rig_close(r);
}

static void answers_and_generation(void) {
  rig *r = rig_new();
  kh_shared *s;
  kh_answer out[KH_ANSWERS + 1];
  uint32_t i, n, total = KH_N(KH_ANSWERS) * 2;
  for (i = 0; i < total; i++) {
    kh_playout_clear(r->q);
    rig_render(r, 1);
    rig_answer(r);
  }
  kh_playout_clear(r->q); /* asked for, not answered */
  s = left_behind(r);
  CHECK_EQ(kh_recover_generation(s), total + 1);
  n = kh_recover_answers(s, out, KH_ANSWERS + 1);
  /* All were drained, so the oldest place may have been half overwritten. */
  CHECK_EQ(n, KH_N(KH_ANSWERS) - 1);
  for (i = 0; i < n; i++) CHECK_EQ(out[i].request, total - n + 1 + i);
  CHECK_EQ(kh_recover_answers(s, out, 1), 1);
  CHECK_EQ(out[0].request, total);
  free(s);
  rig_close(r);
}

static void undrained_answers_are_all_kept(void) {
  rig *r = rig_new();
  kh_shared *s;
  kh_answer out[KH_ANSWERS];
  uint32_t i, n = KH_N(KH_ANSWERS);
  if (n > KH_N(KH_CLEAR_SLOTS)) n = KH_N(KH_CLEAR_SLOTS);
  for (i = 0; i < n; i++) {
    kh_playout_clear(r->q);
    rig_render(r, 1);
  }
  s = left_behind(r);
  CHECK_EQ(kh_recover_answers(s, out, KH_ANSWERS), n);
  CHECK_EQ(out[0].request, 1);
  free(s);
  rig_close(r);
}

int main(void) {
  RUN(newest_snapshot);
  RUN(torn_slot);
  RUN(first_block_torn);
  RUN(somebody_elses);
  RUN(answers_and_generation);
  RUN(undrained_answers_are_all_kept);
  return 0;
}
