/* Two threads on one capture: blocks of random sizes and a device that drops frames,
 * against a reader that comes when it likes. `stress_capture [steps] [seed]`. */
#include "capture.h"
#include "threads.h"

enum { RING = 1024, BLOCK = 200 };

typedef struct {
  pace pace;
  kh_capture *c;
  int16_t ring[RING];
  uint64_t first;
  uint64_t timeline; /* callback; the main thread after it is joined */
  uint64_t next;     /* control: accounted for up to here */
  uint64_t zeros, frames, gaps, last_block;
  uint64_t random;
} stress;

static int16_t coded(uint64_t frame) { return (int16_t)(frame % 30011 + 1); }

static void block(stress *s, uint32_t n, uint32_t lost) {
  int16_t in[BLOCK];
  uint32_t i;
  s->timeline += lost;
  for (i = 0; i < n; i++) in[i] = coded(s->timeline + i);
  kh_capture_process(s->c, in, n, (int64_t)((s->timeline - s->first) * 62500), 0, 0);
  s->timeline += n;
}

static void *callback(void *user) {
  stress *s = user;
  uint64_t random = 99, blocks = 0;
  while (may_go_on(&s->pace, blocks)) {
    uint32_t lost = blocks > 0 && next_random(&random, 10) == 0;
    block(s, next_random(&random, BLOCK + 1), lost ? 11 + next_random(&random, 300) : 0);
    blocks++;
  }
  return NULL;
}

static void read_some(stress *s) {
  int16_t out[RING];
  uint64_t position;
  uint32_t n = kh_capture_read(s->c, out, next_random(&s->random, RING), &position), i;
  kh_gap gap;
  while (kh_capture_gaps(s->c, &gap, 1)) {
    CHECK_EQ(gap.position, s->next);
    s->next += gap.length;
    s->gaps += gap.length;
  }
  CHECK_EQ(position, s->next);
  for (i = 0; i < n; i++) {
    s->zeros += out[i] == 0;
    CHECK(out[i] == 0 || out[i] == coded(position + i));
  }
  s->next += n;
  s->frames += n;
}

static void snapshot(stress *s) {
  kh_capture_snapshot x;
  if (kh_capture_snapshot_get(s->c, &x) != KH_OK) return;
  CHECK(x.block >= s->last_block);
  CHECK_EQ(x.position, s->first + x.stored + x.dropped + x.missing);
  s->last_block = x.block;
}

static void step(stress *s) {
  uint32_t what = next_random(&s->random, 100);
  if (what < 60) read_some(s);
  else if (what < 70) snapshot(s);
  else if (what < 75) kh_capture_mute(s->c, what < 72);
  else sched_yield();
  one_step(&s->pace);
}

static void finish(stress *s) {
  kh_capture_snapshot x;
  int i;
  for (i = 0; i < 10000; i++) read_some(s);
  block(s, 1, 0); /* ends a gap that was still growing */
  for (i = 0; i < 1000; i++) read_some(s);
  CHECK_EQ(s->next, s->timeline);
  CHECK_EQ(kh_capture_snapshot_get(s->c, &x), KH_OK);
  CHECK_EQ(x.position, s->timeline);
  CHECK_EQ(x.stored, s->frames);
  CHECK_EQ(x.dropped + x.missing, s->gaps);
  CHECK_EQ(x.muted, s->zeros);
}

static void run(uint32_t steps, uint64_t seed, uint64_t first) {
  stress *s = calloc(1, sizeof *s);
  kh_capture_config config = {0};
  pthread_t thread;
  int32_t result;
  uint32_t i;
  CHECK(s != NULL);
  config.rate = 16000; /* 62,500 ns a frame */
  config.channels = 1;
  config.capacity = RING;
  config.wake_fd = -1;
  config.restart_frames = 10;
  config.first_frame = s->first = s->timeline = s->next = first;
  s->random = seed;
  s->c = kh_capture_open(s->ring, &config, &result);
  CHECK_EQ(result, KH_OK);
  CHECK_EQ(pthread_create(&thread, NULL, callback, s), 0);
  for (i = 0; i < steps; i++) step(s);
  atomic_store_explicit(&s->pace.stop, 1, memory_order_relaxed);
  pthread_join(thread, NULL);
  finish(s);
  printf("from %llu: %llu frames read, %llu in gaps\n", (unsigned long long)first,
         (unsigned long long)s->frames, (unsigned long long)s->gaps);
  kh_capture_close(s->c);
  free(s);
}

int main(int argc, char **argv) {
  uint32_t steps = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  run(steps, seed, 0);
  run(steps, seed + 1, (1ull << 32) - 5000);
  run(steps, seed + 2, (1ull << 63) - 5000);
  return 0;
}
