/* The playout against the reference: the same random operations, the same samples,
 * answers, counts and log. `differential [seeds] [first seed]`. */
#include "reference.h"

enum { RING = 512, NOTICES = 256, STEPS = 1500, BLOCK_MAX = 400 };

typedef struct {
  uint64_t random;
  kh_playout *q;
  kh_playout_config config;
  kh_shared *shared;
  int16_t ring[RING], notices[NOTICES];
  reference ref;
  uint64_t number;  /* of the newest pause or duck */
  uint64_t logged;  /* device frames of the log compared so far */
  int gaps;         /* the log lost something: compare no more of it */
} match;

static uint32_t below(match *m, uint32_t n) {
  m->random = m->random * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(m->random >> 33) % n;
}

static void start(match *m, uint64_t seed) {
  static const uint32_t fades[] = {0, 1, 7, 64, 240};
  int32_t result;
  memset(m, 0, sizeof *m);
  m->random = seed;
  m->config.rate = 48000;
  m->config.channels = 1;
  m->config.capacity = RING;
  m->config.notice_capacity = NOTICES;
  m->config.fade = fades[below(m, 5)];
  m->config.duck_gain = KH_DUCK_MIN + below(m, KH_UNITY - KH_DUCK_MIN + 1);
  m->config.wake_fd = -1;
  m->config.restart_frames = 480;
  m->shared = calloc(1, kh_playout_shared_size());
  CHECK(m->shared != NULL);
  m->q = kh_playout_open(m->shared, m->ring, m->notices, &m->config, &result);
  CHECK_EQ(result, KH_OK);
  ref_init(&m->ref, &m->config);
}

static void write_some(match *m) {
  int16_t frames[RING];
  uint32_t n = below(m, 200), i;
  int starts = below(m, 4) == 0;
  uint64_t generation = kh_playout_generation(m->q) - (below(m, 20) == 0);
  for (i = 0; i < n; i++) frames[i] = (int16_t)(below(m, 65536) - 32768);
  CHECK_EQ(kh_playout_write(m->q, generation, frames, n, starts),
           ref_write(&m->ref, generation, frames, n, starts));
}

/* Loud enough to be limited now and then. */
static void notice_some(match *m) {
  int16_t frames[NOTICES];
  uint32_t n = below(m, NOTICES), i;
  for (i = 0; i < n; i++) frames[i] = (int16_t)(below(m, 65536) - 32768);
  CHECK_EQ(kh_notice_write(m->q, frames, n), ref_notice(&m->ref, NOTICES, frames, n));
  CHECK_EQ(kh_notice_written(m->q), m->ref.notice_written);
  CHECK_EQ(kh_notice_space(m->q), NOTICES - (m->ref.notice_written - m->ref.notice_read));
}

static void change_volume(match *m) {
  uint32_t gain = below(m, 3) == 0 ? below(m, 2) * 40000 : below(m, 32769);
  kh_playout_volume(m->q, gain);
  ref_volume(&m->ref, gain);
}

static void compare_answer(match *m, const kh_answer *got, const kh_answer *wanted) {
  CHECK_EQ(got->request, wanted->request);
  CHECK_EQ(got->fence, wanted->fence);
  CHECK_EQ(got->cursor, wanted->cursor);
  CHECK_EQ(got->faded, wanted->faded);
  CHECK_EQ(got->discarded, wanted->discarded);
  CHECK_EQ(got->handed, wanted->handed);
  CHECK_EQ(got->device_frame, wanted->device_frame);
  ref_drain(&m->ref, got);
}

/* Answers wait in `due` until they are drained, as they do in the ring. */
static kh_answer due[KH_ANSWERS];
static uint32_t due_first, due_count;

static void drain(match *m) {
  kh_answer a;
  while (kh_playout_answer(m->q, &a)) {
    CHECK(due_count > 0);
    compare_answer(m, &a, &due[due_first]);
    due_first = (due_first + 1) % KH_ANSWERS;
    due_count--;
  }
  CHECK_EQ(due_count, 0);
}

static void compare_counts(match *m) {
  kh_snapshot s;
  reference *r = &m->ref;
  CHECK_EQ(kh_playout_snapshot(m->q, &s), KH_OK);
  CHECK_EQ(s.read, r->read);
  CHECK_EQ(s.write, r->written);
  CHECK_EQ(s.handed, r->handed);
  CHECK_EQ(s.discarded, r->discarded);
  CHECK_EQ(s.read, s.handed + s.discarded);
  CHECK_EQ(s.faded, r->faded);
  CHECK_EQ(s.ducked, r->ducked);
  CHECK_EQ(s.fading, r->fade_end - r->fade_at);
  CHECK_EQ(s.answered, r->answered);
  CHECK_EQ(s.mode, r->mode);
  CHECK_EQ(s.stalled_blocks, r->stalled);
  CHECK_EQ(s.device_frames, r->device);
  CHECK_EQ(s.notice_handed, r->notice_handed);
  CHECK_EQ(s.notice_flushed, r->notice_flushed);
  CHECK_EQ(s.notice_frame, r->notice_frame);
  CHECK_EQ(s.notice_device, r->notice_device);
  CHECK_EQ(s.volume, r->volume);
  CHECK_EQ(s.silent, r->device == 0 || r->kind[r->device - 1] != KH_REAL);
  m->gaps = s.segments_lost != 0;
}

static void render(match *m) {
  int16_t got[BLOCK_MAX], wanted[BLOCK_MAX];
  uint32_t n = below(m, 8) == 0 ? below(m, 2) : below(m, BLOCK_MAX), i;
  kh_playout_render(m->q, got, n, 0, 0, KH_NOMINAL_TIME);
  if (ref_render(&m->ref, wanted, n)) due[(due_first + due_count++) % KH_ANSWERS] = m->ref.answer;
  for (i = 0; i < n; i++) CHECK_EQ(got[i], wanted[i]);
  compare_counts(m);
}

static void compare_segment(match *m, const kh_segment *s) {
  reference *r = &m->ref;
  uint64_t i, faded = 0, ducked = 0;
  CHECK_EQ(s->device_frame, m->logged);
  CHECK(s->length > 0);
  for (i = 0; i < s->length; i++) {
    uint64_t at = s->device_frame + i;
    CHECK_EQ(r->kind[at], s->kind);
    CHECK_EQ(r->queue[at], s->queue_frame + (s->kind == KH_REAL ? i : 0));
    CHECK(i == 0 || s->kind != KH_REAL || !r->starts[r->queue[at]]);
    faded += r->was_faded[at];
    ducked += r->was_ducked[at];
  }
  CHECK_EQ(s->faded, faded);
  CHECK_EQ(s->ducked, ducked);
  m->logged += s->length;
}

static void compare_log(match *m) {
  kh_segment s;
  while (!m->gaps && kh_playout_segments(m->q, &s, 1)) compare_segment(m, &s);
}

static void step(match *m) {
  uint32_t what = below(m, 100);
  if (what < 38) render(m);
  else if (what < 64) write_some(m);
  else if (what < 67) notice_some(m);
  else if (what < 68) kh_notice_flush(m->q), ref_notice_flush(&m->ref);
  else if (what < 70) change_volume(m);
  else if (what < 75) CHECK_EQ(kh_playout_clear(m->q), ref_clear(&m->ref));
  else if (what < 79) m->number = kh_playout_pause(m->q), ref_mode(&m->ref, KH_PAUSE);
  else if (what < 82) m->number = kh_playout_duck(m->q), ref_mode(&m->ref, KH_DUCK);
  else if (what < 90)
    CHECK_EQ(kh_playout_dismiss(m->q, m->number), ref_dismiss(&m->ref, m->number));
  else if (what < 93) drain(m);
  else compare_log(m);
}

static void play(match *m, uint64_t seed) {
  int i;
  start(m, seed);
  due_first = due_count = 0;
  for (i = 0; i < STEPS && m->ref.device < REF_FRAMES - 2 * BLOCK_MAX; i++) step(m);
  for (i = 0; i < 2; i++) {
    drain(m);
    render(m);
  }
  drain(m);
  compare_log(m);
  kh_playout_close(m->q);
  free(m->shared);
}

int main(int argc, char **argv) {
  uint64_t seeds = argc > 1 ? strtoull(argv[1], NULL, 10) : 100;
  uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 10) : 1, seed;
  match *m = malloc(sizeof *m);
  CHECK(m != NULL);
  for (seed = first; seed < first + seeds; seed++) {
    fprintf(stderr, "\rseed %llu ", (unsigned long long)seed);
    play(m, seed);
  }
  printf("%llu seeds of %d steps\n", (unsigned long long)seeds, STEPS);
  free(m);
  return 0;
}
