/* Two threads on the notice lane and the volume: random writes, flushes and volumes
 * against blocks of random sizes. `stress_notices [steps] [seed]`. */
#include "playout.h"
#include "threads.h"

enum { NOTICES = 512, BLOCK = 128, HIGHEST = 30000 };

typedef struct {
  pace pace;
  kh_playout *q;
  kh_shared *shared;
  int16_t ring[2], notices[NOTICES];
  uint64_t random;        /* control */
  uint64_t written;       /* control */
  uint64_t last_block;    /* control */
  uint64_t frames, heard; /* callback; the main thread after it is joined */
  int with_volume;
} stress;

/* Rises by one from frame to frame, so that what was flushed shows as a step. */
static int16_t value(uint64_t frame) { return (int16_t)(frame % HIGHEST + 1); }

/* Each frame that sounds is a later one than the one before it; without a fade and at
 * full volume it sounds as it was written. */
static void check_block(stress *s, const int16_t *out, uint32_t n, int16_t *last) {
  uint32_t i;
  for (i = 0; i < n; i++) {
    CHECK(out[i] >= 0);
    if (out[i] == 0) continue;
    s->heard++;
    if (s->with_volume) continue;
    CHECK(out[i] > *last || *last - out[i] > HIGHEST / 2);
    *last = out[i];
  }
}

static void *callback(void *user) {
  stress *s = user;
  uint64_t random = 55, blocks = 0;
  int16_t out[BLOCK], last = 0;
  while (may_go_on(&s->pace, blocks)) {
    uint32_t n = next_random(&random, BLOCK + 1);
    kh_playout_render(s->q, out, n, 0, 0, KH_NOMINAL_TIME);
    check_block(s, out, n, &last);
    s->frames += n;
    blocks++;
  }
  return NULL;
}

static void write_some(stress *s) {
  int16_t frames[BLOCK];
  uint64_t space = kh_notice_space(s->q);
  uint32_t n = next_random(&s->random, BLOCK), i;
  if (n > space) n = (uint32_t)space;
  for (i = 0; i < n; i++) frames[i] = value(s->written + i);
  CHECK_EQ(kh_notice_write(s->q, frames, n), n); /* room only grows under us */
  s->written += n;
  CHECK_EQ(kh_notice_written(s->q), s->written);
}

static void snapshot(stress *s) {
  kh_snapshot x;
  if (kh_playout_snapshot(s->q, &x) != KH_OK) return; /* overtaken, or none yet */
  CHECK(x.block >= s->last_block);
  CHECK(x.notice_handed + x.notice_flushed <= s->written);
  CHECK(x.notice_frame <= x.notice_handed + x.notice_flushed);
  CHECK(x.notice_device <= x.device_frames);
  CHECK(x.volume <= KH_UNITY);
  s->last_block = x.block;
}

static void step(stress *s) {
  uint32_t what = next_random(&s->random, 100);
  if (what < 60) write_some(s);
  else if (what < 70) kh_notice_flush(s->q);
  else if (what < 90) snapshot(s);
  else if (s->with_volume) kh_playout_volume(s->q, next_random(&s->random, 2) * KH_UNITY / 2);
  one_step(&s->pace);
}

static void finish(stress *s) {
  int16_t out[NOTICES], last = 0;
  kh_snapshot x;
  kh_playout_render(s->q, out, NOTICES, 0, 0, KH_NOMINAL_TIME);
  check_block(s, out, NOTICES, &last);
  CHECK_EQ(kh_playout_snapshot(s->q, &x), KH_OK);
  CHECK_EQ(x.notice_handed + x.notice_flushed, s->written);
  CHECK(x.notice_flushed > 0 && x.notice_handed > 0);
  if (!s->with_volume) CHECK_EQ(x.notice_handed, s->heard);
  CHECK_EQ(kh_notice_space(s->q), NOTICES);
}

static void run(uint32_t steps, uint64_t seed, uint64_t first, int with_volume) {
  stress *s = calloc(1, sizeof *s);
  kh_playout_config config = {0};
  pthread_t thread;
  int32_t result;
  uint32_t i;
  CHECK(s != NULL);
  config.rate = 48000;
  config.channels = 1;
  config.capacity = 2;
  config.notice_capacity = NOTICES;
  config.fade = with_volume ? 64 : 0;
  config.duck_gain = 16384;
  config.wake_fd = -1;
  config.restart_frames = 480;
  config.first_frame = first;
  s->random = seed;
  s->with_volume = with_volume;
  s->shared = calloc(1, kh_playout_shared_size());
  CHECK(s->shared != NULL);
  s->q = kh_playout_open(s->shared, s->ring, s->notices, &config, &result);
  CHECK_EQ(result, KH_OK);
  CHECK_EQ(pthread_create(&thread, NULL, callback, s), 0);
  for (i = 0; i < steps; i++) step(s);
  atomic_store_explicit(&s->pace.stop, 1, memory_order_relaxed);
  pthread_join(thread, NULL);
  finish(s);
  printf("%s from %llu: %llu notice frames, %llu heard\n", with_volume ? "volume" : "plain",
         (unsigned long long)first, (unsigned long long)s->written,
         (unsigned long long)s->heard);
  kh_playout_close(s->q);
  free(s->shared);
  free(s);
}

int main(int argc, char **argv) {
  uint32_t steps = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  int with_volume;
  for (with_volume = 0; with_volume <= 1; with_volume++) {
    run(steps, seed, 0, with_volume);
    run(steps, seed + 1, (1ull << 32) - 5000, with_volume);
    run(steps, seed + 2, (1ull << 63) - 5000, with_volume);
  }
  return 0;
}
