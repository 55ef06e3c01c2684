/* A playout of a few frames under the model checker: what its two threads do, and
 * what must be true of everything that came out. */
#ifndef KH_MODEL_LANE_H
#define KH_MODEL_LANE_H

#include "playout.h"

struct Lane;

/* One small program for the control side, against `blocks` blocks. */
struct PlayoutCase {
  const char *name;
  void (*control)(Lane &);
  uint32_t fade, blocks, block, capacity;
  uint32_t words;      /* of a snapshot */
  unsigned executions; /* random ones; 0: every one within `bound` preemptions */
  unsigned bound;
};

extern const PlayoutCase playout_cases[];
extern const unsigned playout_case_count;

enum { LANE_FRAMES = 8, LANE_HEARD = 96 };

struct Lane {
  Lane();
  ~Lane();

  /* control */
  void write(uint32_t n, int starts = 0); /* as many as there is room for */
  void clear() { kh_playout_clear(q); }
  void drain();    /* answers */
  void log();      /* segments */
  void snapshot(); /* read while the callback may be writing it */
  void notice(uint32_t n, int16_t value); /* 1 to 9, rising from one to the next */
  void volume(uint32_t gain);             /* full or half */

  void callback();
  void finish(); /* everything is answered and accounted for */

  kh_playout *q;
  bool exact = true; /* no pause: every gain is known */
  bool halved = false; /* some samples may be at half volume */

 private:
  void render(uint32_t n);
  void check_answer(const kh_answer &a);
  void check_heard(uint64_t read);
  void hear(uint64_t frame, uint64_t faded_from);
  void check_segment(const kh_segment &s);

  kh_shared shared;
  kh_cell ring[LANE_FRAMES], notices[LANE_FRAMES];
  int16_t device[LANE_HEARD]; /* every sample that left, by device frame */
  uint32_t device_frames = 0;
  int16_t heard[LANE_HEARD]; /* those of the speech lane */
  uint32_t heard_frames = 0, next_heard = 0;
  int last_notice = 0;
  uint64_t noticed = 0, noted = 0;
  uint64_t set_volume = KH_UNITY;
  kh_answer answers[16];
  uint32_t answer_count = 0;
  uint64_t discarded = 0, last_block = 0, logged = 0, logged_real = 0;
};

#endif
