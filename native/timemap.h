/* How a stream's frames lie in time.
 *
 * The device tells, once a block, when the block's first frame passes the
 * converter. That time is only ever late: a pointer that moves in periods, or a
 * thread that was preempted between reading pointer and clock, shifts it later,
 * by up to a period. So the mapping is the lower envelope over the last two
 * windows of blocks. The windows are short because two crystals drift apart by up
 * to some 200 ppm: 64 blocks of 10 ms at that rate are 6 frames at 48 kHz.
 *
 * Callback thread only; no atomics. Times are ns, `rate` is Hz.
 */
#ifndef KH_TIMEMAP_H
#define KH_TIMEMAP_H

#include "contract.h"

#define KH_WINDOW 32u /* blocks */
/* PortAudio flags a few blocks on end after an underflow; the first is the restart. */
#define KH_FLAGGED_ON_END 4u

typedef struct {
  uint64_t frame; /* of the earliest block, relative to the envelope */
  int64_t ns;
} kh_point;

typedef struct {
  uint32_t rate;
  int64_t restart_ns; /* a block later than the envelope by more is a restart */
  uint64_t since;
  int64_t since_ns;
  uint64_t blocks;   /* since the last restart */
  uint32_t in_window;
  uint32_t windows;  /* 0, 1 or 2 that hold something */
  kh_point current, previous;
  uint64_t restarts;
} kh_timemap;

static inline void kh_timemap_init(kh_timemap *m, uint32_t rate, uint32_t restart_frames) {
  kh_timemap zero = {0};
  *m = zero;
  m->rate = rate;
  m->restart_ns = (int64_t)((uint64_t)restart_frames * 1000000000u / rate);
}

/* Time of `frame` by the line through p. Frames may lie before p. */
static inline int64_t kh_point_at(const kh_timemap *m, kh_point p, uint64_t frame) {
  int64_t d = (int64_t)(frame - p.frame);
  return p.ns + d / (int64_t)m->rate * 1000000000 +
         d % (int64_t)m->rate * 1000000000 / (int64_t)m->rate;
}

/* Meaningless before the first block. */
static inline int64_t kh_timemap_at(const kh_timemap *m, uint64_t frame) {
  int64_t a = kh_point_at(m, m->current, frame);
  if (m->windows == 2) {
    int64_t b = kh_point_at(m, m->previous, frame);
    if (b < a) a = b;
  }
  return a;
}

/* From `frame` on another mapping holds: the device was started anew. */
static inline void kh_timemap_restart(kh_timemap *m, uint64_t frame) {
  if (m->windows == 0) return;
  m->since = frame;
  m->since_ns = kh_timemap_at(m, frame);
  m->restarts++;
  m->windows = 0;
  m->blocks = 0;
}

/* One block: `frame` is its first frame. Returns by how many ns the device's time
 * jumped when this block was a restart, 0 otherwise. */
static inline int64_t kh_timemap_block(kh_timemap *m, uint64_t frame, int64_t ns) {
  kh_point here;
  int64_t jump = 0;
  here.frame = frame;
  here.ns = ns;
  if (m->windows != 0) {
    int64_t late = ns - kh_timemap_at(m, frame);
    if (late > m->restart_ns) {
      jump = late;
      kh_timemap_restart(m, frame);
    }
  } else if (m->restarts == 0) {
    m->since = frame;
    m->since_ns = ns;
  }
  if (m->windows == 0) {
    m->current = here;
    m->windows = 1;
    m->in_window = 0;
  } else if (ns < kh_point_at(m, m->current, frame)) {
    m->current = here;
  }
  m->blocks++;
  if (++m->in_window == KH_WINDOW) {
    m->previous = m->current;
    m->current = here;
    m->windows = 2;
    m->in_window = 0;
  }
  return jump;
}

static inline kh_anchor kh_timemap_anchor(const kh_timemap *m, uint64_t frame) {
  kh_anchor a;
  a.frame = frame;
  a.ns = m->windows ? kh_timemap_at(m, frame) : 0;
  a.since = m->since;
  a.since_ns = m->since_ns;
  a.blocks = m->blocks < 2u * KH_WINDOW ? m->blocks : 2u * KH_WINDOW;
  return a;
}

#endif
