/* What the two stress tests share: a random stream, a paced second thread. */
#ifndef KH_THREADS_H
#define KH_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include "check.h"

static inline uint32_t next_random(uint64_t *state, uint32_t below) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % below;
}

/* Neither thread gets further ahead of the other than a few steps or blocks.
 * Relaxed: nothing else may be ordered by it. */
enum { PACE_AHEAD = 8 };


typedef struct {
  _Atomic uint64_t steps;  /* writer: control */
  _Atomic uint64_t blocks; /* writer: callback */
  _Atomic int stop;       /* writer: control */
} pace;

static inline int may_go_on(pace *p, uint64_t blocks) {
  atomic_store_explicit(&p->blocks, blocks, memory_order_relaxed);
  while (blocks >= atomic_load_explicit(&p->steps, memory_order_relaxed) + PACE_AHEAD) {
    if (atomic_load_explicit(&p->stop, memory_order_relaxed)) return 0;
    sched_yield();
  }
  return 1;
}

static inline void one_step(pace *p) {
  uint64_t steps = atomic_fetch_add_explicit(&p->steps, 1, memory_order_relaxed);
  while (atomic_load_explicit(&p->blocks, memory_order_relaxed) + PACE_AHEAD < steps)
    sched_yield();
}

#endif
