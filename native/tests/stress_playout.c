/* Two threads on one playout: random writes, clears, pauses and drains against blocks
 * of random sizes. Afterwards every sample and every count is audited.
 * `stress_playout [steps] [seed]`. */
#include "account.h"
#include "threads.h"

enum { RING = 2048, BLOCK = 128 };

typedef struct {
  pace pace;
  kh_playout *q;
  kh_shared *shared;
  int16_t ring[RING], notices[2];
  account *account;
  uint64_t random;      /* control */
  uint64_t last_block;  /* control */
  uint64_t pause;       /* control */
  uint64_t tape_frames; /* callback; the main thread after it is joined */
} stress;

static void *callback(void *user) {
  stress *s = user;
  uint64_t random = 77, blocks = 0;
  while (may_go_on(&s->pace, blocks)) {
    uint32_t n = next_random(&random, BLOCK + 1);
    kh_playout_render(s->q, s->account->tape + s->tape_frames, n, 0, 0, KH_NOMINAL_TIME);
    s->tape_frames += n;
    blocks++;
  }
  return NULL;
}

static void write_some(stress *s) {
  int16_t frames[RING];
  uint64_t first = kh_playout_written(s->q);
  uint32_t n = next_random(&s->random, 400), i;
  int starts = next_random(&s->random, 3) == 0;
  account *a = s->account;
  int64_t taken;
  for (i = 0; i < n; i++) frames[i] = account_value(first + i);
  taken = kh_playout_write(s->q, kh_playout_generation(s->q), frames, n, starts);
  CHECK(taken >= 0);
  if (taken == 0) return;
  a->items[a->item_count].start = first;
  a->items[a->item_count++].length = (uint64_t)taken;
}

static void drain(stress *s) {
  account *a = s->account;
  while (kh_playout_answer(s->q, &a->answers[a->answer_count])) a->answer_count++;
  a->segment_count += kh_playout_segments(s->q, a->segments + a->segment_count, 64);
}

static void snapshot(stress *s) {
  kh_snapshot x;
  if (kh_playout_snapshot(s->q, &x) != KH_OK) return; /* overtaken, or none yet */
  CHECK(x.block >= s->last_block);
  CHECK_EQ(x.read, s->account->first + x.handed + x.discarded);
  CHECK(x.write - x.read <= RING);
  s->last_block = x.block;
}

static void step(stress *s) {
  uint32_t what = next_random(&s->random, 100);
  if (what < 45) write_some(s);
  else if (what < 55) kh_playout_clear(s->q);
  else if (what < 75) drain(s);
  else if (what < 85) snapshot(s);
  else if (s->account->plain) sched_yield();
  else if (what < 88) s->pause = kh_playout_pause(s->q);
  else if (what < 90) s->pause = kh_playout_duck(s->q);
  else kh_playout_dismiss(s->q, s->pause);
  if (s->account->segment_count + 64 > s->account->limit * 4) CHECK(!"the log fits");
  one_step(&s->pace);
}

static void finish(stress *s) {
  kh_snapshot last;
  uint32_t before;
  drain(s);
  kh_playout_settle(s->q, 0);
  do {
    before = s->account->segment_count;
    drain(s);
  } while (s->account->segment_count != before);
  CHECK_EQ(kh_playout_snapshot(s->q, &last), KH_OK);
  CHECK_EQ(last.answered, kh_playout_generation(s->q));
  CHECK_EQ(last.device_frames - s->account->first, s->tape_frames);
  account_audit(s->account, &last);
}

static void run(uint32_t steps, uint64_t seed, uint64_t first, uint64_t first_clear, int plain) {
  stress *s = calloc(1, sizeof *s);
  kh_playout_config config = {0};
  pthread_t thread;
  int32_t result;
  uint32_t i;
  CHECK(s != NULL);
  config.rate = 48000;
  config.channels = 1;
  config.capacity = RING;
  config.notice_capacity = 2;
  config.fade = 150;
  config.duck_gain = 16384;
  config.wake_fd = -1;
  config.restart_frames = 480;
  config.first_frame = first;
  config.first_clear = first_clear;
  s->random = seed;
  s->shared = calloc(1, kh_playout_shared_size());
  s->account = account_new(steps + 100, (steps + 2ull * PACE_AHEAD) * BLOCK, first, config.fade);
  s->account->plain = plain;
  s->q = kh_playout_open(s->shared, s->ring, s->notices, &config, &result);
  CHECK_EQ(result, KH_OK);
  CHECK_EQ(pthread_create(&thread, NULL, callback, s), 0);
  for (i = 0; i < steps; i++) step(s);
  atomic_store_explicit(&s->pace.stop, 1, memory_order_relaxed);
  pthread_join(thread, NULL);
  finish(s);
  printf("%s from %llu: %u items, %u answers, %llu frames\n", plain ? "clears" : "all modes",
         (unsigned long long)first, s->account->item_count, s->account->answer_count,
         (unsigned long long)s->tape_frames);
  kh_playout_close(s->q);
  account_free(s->account);
  free(s->shared);
  free(s);
}

int main(int argc, char **argv) {
  uint32_t steps = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 20000;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  int plain;
  for (plain = 1; plain >= 0; plain--) {
    run(steps, seed, 0, 0, plain);
    run(steps, seed + 1, (1ull << 32) - 5000, (1ull << 32) - 50, plain);
    run(steps, seed + 2, (1ull << 63) - 5000, 1ull << 61, plain);
  }
  return 0;
}
