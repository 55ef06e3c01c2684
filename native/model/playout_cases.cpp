/* What the control side does in each test; lane.cpp says what must hold. */
#include "lane.h"

/* The clear comes at any point of a block, with more written right behind it: a
 * block that saw the new index and not the clear must not run past the fence. */
static void clear_race(Lane &l) {
  l.write(3);
  l.clear();
  l.write(3);
  l.drain();
}

static void two_clears(Lane &l) {
  l.write(2);
  l.clear();
  l.write(2);
  l.clear();
  l.write(2);
  l.drain();
}

static void clear_first(Lane &l) {
  l.clear();
  l.write(2);
  l.drain();
}

static void clear_idle(Lane &l) {
  l.write(1);
  l.clear();
  l.clear();
  l.drain();
  l.clear();
}

/* The ring is as long as what is written first: the writer is at once in the
 * places that a fade still has to play. */
static void fade_overwritten(Lane &l) {
  l.write(4);
  l.clear();
  for (int i = 0; i < 3; i++) l.write(2);
  l.drain();
}

static void fade_at_start(Lane &l) {
  l.write(3);
  l.write(2, 1);
  l.clear();
  l.write(1);
}

static void pause_clear(Lane &l) {
  l.write(4);
  kh_playout_pause(l.q);
  l.clear();
  l.write(2);
  l.drain();
}

static void pause_dismiss(Lane &l) {
  l.write(4);
  uint64_t number = kh_playout_pause(l.q);
  l.write(2);
  RL_ASSERT(kh_playout_dismiss(l.q, number) == 1);
  l.clear();
  RL_ASSERT(kh_playout_dismiss(l.q, number) == 0);
  l.write(1);
}

static void pause_dismiss_fade(Lane &l) {
  l.exact = false;
  pause_dismiss(l);
}

static void clear_pause(Lane &l) {
  l.write(3);
  l.clear();
  kh_playout_pause(l.q);
  l.write(2);
  l.drain();
}

/* Two answers have room; the third clear waits, and so do blocks. */
static void answers_full(Lane &l) {
  l.write(1);
  l.clear();
  l.write(1);
  l.clear();
  l.clear();
  l.write(1);
  l.drain();
  l.clear();
  l.write(1);
  l.drain();
}

/* More clears than slots, drained late: the newest one covers the rest. */
static void clears_coalesce(Lane &l) {
  l.write(1);
  for (int i = 0; i < 6; i++) l.clear();
  l.write(1); /* refused */
  RL_ASSERT(kh_playout_generation(l.q) <= 6);
  l.drain();
  l.clear();
  l.write(1);
}

static void wrap(Lane &l) {
  for (int i = 0; i < 6; i++) l.write(3);
}

/* More starts than the list holds, in a ring with room. */
static void starts_wrap(Lane &l) {
  for (int i = 0; i < 6; i++) l.write(1, 1);
}

static void starts_clear(Lane &l) {
  for (int i = 0; i < 3; i++) l.write(1, 1);
  l.clear();
  for (int i = 0; i < 3; i++) l.write(1, 1);
  l.drain();
}

static void snapshots(Lane &l) {
  l.write(3);
  l.snapshot();
  l.clear();
  l.snapshot();
  l.snapshot();
}

/* The log holds two: starts make segments, and the reader keeps up or does not. */
static void segments(Lane &l) {
  for (int i = 0; i < 4; i++) {
    l.write(1, 1);
    l.log();
  }
  l.log();
}

static void notices(Lane &l) {
  l.write(2);
  l.notice(3, 1);
  kh_notice_flush(l.q);
  l.notice(2, 2);
  l.notice(2, 3);
  l.notice(2, 4);
}

static void flushes(Lane &l) {
  l.notice(3, 1);
  kh_notice_flush(l.q);
  l.notice(3, 2);
  kh_notice_flush(l.q);
  l.notice(1, 3);
}

static void volume(Lane &l) {
  l.volume(KH_UNITY / 2);
  l.write(3);
  l.volume(KH_UNITY);
  l.clear();
  l.write(3);
  l.volume(KH_UNITY / 2);
}

/* name, control, fade, blocks, block, capacity, words, executions, bound */
const PlayoutCase playout_cases[] = {
    {"clear_race", clear_race, 0, 3, 4, 8, 0, 20000, 0},
    {"clear_race_fade", clear_race, 2, 3, 3, 8, 0, 20000, 0},
    {"two_clears", two_clears, 0, 3, 2, 8, 0, 20000, 0},
    {"two_clears_fade", two_clears, 2, 4, 1, 8, 0, 20000, 0},
    {"clear_first", clear_first, 0, 2, 2, 8, 0, 10000, 0},
    {"clear_idle", clear_idle, 0, 3, 1, 8, 0, 20000, 0},
    {"fade_overwritten", fade_overwritten, 2, 4, 1, 4, 0, 30000, 0},
    {"fade_at_start", fade_at_start, 2, 3, 2, 8, 0, 20000, 0},
    {"pause_clear", pause_clear, 0, 3, 2, 8, 0, 20000, 0},
    {"pause_dismiss", pause_dismiss, 0, 3, 2, 8, 0, 20000, 0},
    {"pause_dismiss_fade", pause_dismiss_fade, 2, 4, 1, 8, 0, 20000, 0},
    {"clear_pause", clear_pause, 0, 3, 2, 8, 0, 20000, 0},
    {"answers_full", answers_full, 0, 5, 1, 8, 0, 30000, 0},
    {"clears_coalesce", clears_coalesce, 0, 4, 1, 8, 0, 20000, 0},
    {"wrap", wrap, 0, 4, 3, 4, 0, 30000, 0},
    {"starts_wrap", starts_wrap, 0, 4, 2, 8, 0, 30000, 0},
    {"starts_clear", starts_clear, 0, 4, 1, 8, 0, 20000, 0},
    {"snapshots", snapshots, 0, 4, 1, 8, 5, 40000, 0},
    {"segments", segments, 0, 5, 1, 8, 0, 20000, 0},
    {"notices", notices, 0, 4, 2, 8, 0, 20000, 0},
    {"notices_flushes", flushes, 0, 4, 2, 8, 0, 20000, 0},
    {"notices_flushes_fade", flushes, 2, 4, 2, 8, 0, 20000, 0},
    {"volume", volume, 0, 4, 2, 8, 0, 20000, 0},
    {"clear_first_all", clear_first, 0, 2, 2, 8, 0, 0, 3},
    {"clear_race_all", clear_race, 0, 3, 4, 8, 0, 0, 3},
};
const unsigned playout_case_count = sizeof playout_cases / sizeof *playout_cases;
