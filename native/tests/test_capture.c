/* The microphone's ring: frames keep their place on the timeline, whatever is lost. */
#include "check.h"
#include "capture.h"

enum { RING = 1024 };

typedef struct {
  kh_capture *c;
  int16_t ring[RING];
  uint64_t frame; /* the next one that the microphone hears */
  uint64_t first;
  uint32_t flags; /* of the next blocks */
} mic;

static int16_t coded(uint64_t frame) { return (int16_t)(frame % 30011 + 1); }

static mic *mic_open(uint32_t channels, uint64_t first) {
  kh_capture_config config = {0};
  mic *m = calloc(1, sizeof *m);
  int32_t result;
  CHECK(m != NULL);
  config.rate = 48000;
  config.channels = channels;
  config.capacity = RING;
  config.wake_fd = -1;
  config.restart_frames = 48;
  config.first_frame = m->frame = m->first = first;
  m->c = kh_capture_open(m->ring, &config, &result);
  CHECK_EQ(result, KH_OK);
  return m;
}

static void mic_close(mic *m) {
  kh_capture_close(m->c);
  free(m);
}

static void hear(mic *m, uint32_t n, uint32_t channels) {
  int16_t in[2 * RING * 2];
  uint32_t i, k;
  for (i = 0; i < n; i++)
    for (k = 0; k < channels; k++) in[i * channels + k] = (int16_t)(coded(m->frame + i) + 7 * k);
  kh_capture_process(m->c, in, n, (int64_t)((m->frame - m->first) * 1000000000 / 48000),
                     0, m->flags);
  m->frame += n;
}

/* Reads up to max; checks every frame against its place. */
static uint32_t take(mic *m, uint32_t max, uint64_t position) {
  int16_t out[RING];
  uint64_t at;
  uint32_t n = kh_capture_read(m->c, out, max, &at), i;
  CHECK_EQ(at, position);
  for (i = 0; i < n; i++) CHECK_EQ(out[i], coded(position + i));
  return n;
}

static kh_gap gap(mic *m) {
  kh_gap g;
  CHECK_EQ(kh_capture_gaps(m->c, &g, 1), 1);
  return g;
}

static kh_capture_snapshot snapshot(mic *m) {
  kh_capture_snapshot s;
  CHECK_EQ(kh_capture_snapshot_get(m->c, &s), KH_OK);
  CHECK_EQ(s.position, m->first + s.stored + s.dropped + s.missing);
  CHECK_EQ(s.position, m->frame);
  return s;
}

static void wraps(void) {
  static const uint64_t firsts[] = {0, (1ull << 32) - 300, (1ull << 63) - 300};
  uint32_t k, i;
  for (k = 0; k < 3; k++) {
    mic *m = mic_open(1, firsts[k]);
    for (i = 0; i < 50; i++) {
      hear(m, 333, 1);
      CHECK_EQ(take(m, RING, firsts[k] + 333 * i), 333);
    }
    CHECK_EQ(snapshot(m).dropped, 0);
    mic_close(m);
  }
}

static void reader_gap(void) {
  mic *m = mic_open(1, 0);
  kh_gap g;
  hear(m, 1000, 1);
  hear(m, 100, 1); /* 24 fit */
  hear(m, 100, 1);
  CHECK_EQ(take(m, RING, 0), 1024);
  CHECK_EQ(take(m, RING, 1024), 0); /* the gap is still growing */
  hear(m, 50, 1);
  CHECK_EQ(take(m, RING, 1200), 50);
  g = gap(m);
  CHECK_EQ(g.position, 1024);
  CHECK_EQ(g.length, 176);
  CHECK_EQ(g.kind, KH_GAP_READER);
  CHECK_EQ(snapshot(m).dropped, 176);
  mic_close(m);
}

static void device_gap(void) {
  mic *m = mic_open(1, 0);
  kh_gap g;
  uint32_t lost;
  for (lost = 49; lost < 400; lost += 50) { /* lengths that are no whole microseconds */
    uint64_t before = m->frame;
    hear(m, 100, 1);
    m->frame += lost;
    hear(m, 100, 1);
    CHECK_EQ(take(m, RING, before), 100); /* never across a gap */
    CHECK_EQ(take(m, RING, before + 100 + lost), 100);
    g = gap(m);
    CHECK_EQ(g.position, before + 100);
    CHECK_EQ(g.length, lost);
    CHECK_EQ(g.kind, KH_GAP_DEVICE);
    snapshot(m);
  }
  CHECK_EQ(snapshot(m).restarts, 8);
  mic_close(m);
}

static void overflow_flag(void) {
  mic *m = mic_open(1, 0);
  int16_t in[8] = {0};
  kh_capture_process(m->c, in, 8, 0, 0, KH_OVERFLOW);
  kh_capture_process(m->c, in, 8, 0, 0, KH_NOMINAL_TIME);
  m->frame = 16;
  CHECK_EQ(snapshot(m).overflows, 1);
  CHECK_EQ(snapshot(m).nominal_times, 1);
  mic_close(m);
}

/* More gaps than the list holds: the last one grows, and no place is lost. */
static void gap_list_full(void) {
  mic *m = mic_open(1, 0);
  uint64_t next = 0, covered = 0;
  uint32_t i, n;
  kh_gap g;
  for (i = 0; i < KH_N(KH_GAPS) + 5; i++) {
    hear(m, 1, 1);
    m->frame += 100;
  }
  hear(m, 1, 1);
  do {
    n = take(m, RING, next);
    covered += n;
    next += n;
    if (kh_capture_read(m->c, NULL, 0, &next) == 0)
      while (kh_capture_gaps(m->c, &g, 1)) covered += g.length;
  } while (n > 0);
  hear(m, 1, 1);
  covered += take(m, RING, m->frame - 1);
  while (kh_capture_gaps(m->c, &g, 1)) covered += g.length;
  CHECK_EQ(covered, m->frame);
  mic_close(m);
}

static void muted_is_zeros(void) {
  mic *m = mic_open(1, 0);
  int16_t out[64];
  uint64_t at;
  uint32_t i;
  hear(m, 10, 1);
  kh_capture_mute(m->c, 1);
  hear(m, 20, 1);
  kh_capture_mute(m->c, 0);
  hear(m, 10, 1);
  CHECK_EQ(kh_capture_read(m->c, out, 64, &at), 40);
  for (i = 0; i < 40; i++) CHECK_EQ(out[i], i < 10 || i >= 30 ? coded(i) : 0);
  CHECK_EQ(snapshot(m).muted, 20);
  kh_capture_process(m->c, NULL, 5, (int64_t)m->frame * 1000000000 / 48000, 0, 0);
  m->frame += 5;
  CHECK_EQ(kh_capture_read(m->c, out, 64, &at), 5);
  CHECK_EQ(out[4], 0);
  CHECK_EQ(snapshot(m).muted, 25);
  mic_close(m);
}

static void first_channel_is_kept(void) {
  mic *m = mic_open(2, 0);
  hear(m, 700, 2);
  CHECK_EQ(take(m, RING, 0), 700);
  mic_close(m);
}

static void any_block_size(void) {
  mic *m = mic_open(1, 0);
  hear(m, 0, 1);
  hear(m, 1, 1);
  hear(m, 2 * RING, 1);
  CHECK_EQ(take(m, 10, 0), 10);
  CHECK_EQ(take(m, RING, 10), RING - 10);
  CHECK_EQ(snapshot(m).dropped, RING + 1);
  mic_close(m);
}

/* What an output device got: after an underflow the silence is a gap, also one that is
 * too short to be taken for a restart unflagged. */
static void a_flagged_restart(void) {
  mic *m = mic_open(1, 0);
  kh_capture_snapshot s;
  kh_gap g;
  uint32_t i;
  for (i = 0; i < 6; i++) hear(m, 100, 1);
  m->frame += 30; /* below restart_frames */
  m->flags = KH_UNDERFLOW;
  for (i = 0; i < 4; i++) hear(m, 100, 1); /* PortAudio flags a few on end */
  m->flags = 0;
  CHECK_EQ(take(m, RING, 0), 600);
  CHECK_EQ(take(m, RING, 630), 400);
  g = gap(m);
  CHECK_EQ(g.position, 600);
  CHECK_EQ(g.length, 30);
  CHECK_EQ(g.kind, KH_GAP_DEVICE);
  s = snapshot(m);
  CHECK_EQ(s.restarts, 1);
  CHECK_EQ(s.anchor.ns, (int64_t)s.frame * 1000000000 / 48000);
  mic_close(m);
}

/* Its first block after that has no believable time: the next one tells how long it was. */
static void a_flagged_restart_without_a_time(void) {
  mic *m = mic_open(1, 0);
  kh_gap g;
  uint32_t i;
  for (i = 0; i < 6; i++) hear(m, 100, 1);
  m->flags = KH_UNDERFLOW | KH_NOMINAL_TIME;
  hear(m, 100, 1);
  m->flags = 0;
  m->frame += 30;
  hear(m, 100, 1);
  CHECK_EQ(take(m, RING, 0), 700);
  CHECK_EQ(take(m, RING, 730), 100);
  g = gap(m);
  CHECK_EQ(g.position, 700);
  CHECK_EQ(g.length, 30);
  CHECK_EQ(snapshot(m).restarts, 1);
  mic_close(m);
}

/* Flagged, but no later than it should be: a new line, and nothing missing. */
static void a_flagged_restart_that_lost_nothing(void) {
  mic *m = mic_open(1, 0);
  uint32_t i;
  for (i = 0; i < 6; i++) hear(m, 100, 1);
  m->flags = KH_UNDERFLOW;
  hear(m, 100, 1);
  CHECK_EQ(take(m, RING, 0), 700);
  CHECK_EQ(snapshot(m).restarts, 1);
  CHECK_EQ(snapshot(m).missing, 0);
  CHECK_EQ(snapshot(m).anchor.blocks, 1);
  mic_close(m);
}

static void anchor_follows_the_timeline(void) {
  mic *m = mic_open(1, 0);
  kh_capture_snapshot s;
  hear(m, 480, 1);
  m->frame += 480;
  hear(m, 480, 1);
  s = snapshot(m);
  CHECK_EQ(s.frame, 960);
  CHECK_EQ(s.anchor.frame, 960);
  CHECK_EQ(s.anchor.ns, 20000000);
  mic_close(m);
}

int main(void) {
  RUN(wraps);
  RUN(reader_gap);
  RUN(device_gap);
  RUN(overflow_flag);
  RUN(gap_list_full);
  RUN(muted_is_zeros);
  RUN(first_channel_is_kept);
  RUN(any_block_size);
  RUN(a_flagged_restart);
  RUN(a_flagged_restart_without_a_time);
  RUN(a_flagged_restart_that_lost_nothing);
  RUN(anchor_follows_the_timeline);
  return 0;
}
