/* The mapping of frames to time: the lower envelope, restarts, drift. */
#include "check.h"
#include "timemap.h"

enum { RATE = 48000, BLOCK = 480, BLOCK_NS = 10000000 };

static kh_timemap fresh(void) {
  kh_timemap m;
  kh_timemap_init(&m, RATE, 4800);
  return m;
}

static int64_t distance(int64_t a, int64_t b) { return a < b ? b - a : a - b; }

static void before_the_first_block(void) {
  kh_timemap m = fresh();
  kh_anchor a = kh_timemap_anchor(&m, 77);
  CHECK_EQ(a.frame, 77);
  CHECK_EQ(a.ns, 0);
  CHECK_EQ(a.blocks, 0);
}

/* Blocks that look later than they are do not move the mapping. */
static void envelope(void) {
  kh_timemap m = fresh();
  uint64_t i;
  for (i = 0; i < 500; i++) {
    int64_t late = i % 7 == 0 ? 0 : (int64_t)(i * 2654435761u % 9000000);
    CHECK_EQ(kh_timemap_block(&m, i * BLOCK, (int64_t)i * BLOCK_NS + late), 0);
    CHECK_EQ(kh_timemap_at(&m, i * BLOCK), (int64_t)i * BLOCK_NS);
  }
  CHECK_EQ(kh_timemap_anchor(&m, 500 * BLOCK).ns, 500ll * BLOCK_NS);
  CHECK_EQ(kh_timemap_anchor(&m, 0).blocks, 2 * KH_WINDOW);
  CHECK_EQ(kh_timemap_at(&m, 0), 0); /* and for frames that have passed */
}

static void early_block_moves_it_at_once(void) {
  kh_timemap m = fresh();
  kh_timemap_block(&m, 0, 5000000);
  CHECK_EQ(kh_timemap_at(&m, 0), 5000000);
  kh_timemap_block(&m, BLOCK, BLOCK_NS + 1000000);
  CHECK_EQ(kh_timemap_at(&m, 0), 1000000);
}

static void restart(void) {
  kh_timemap m = fresh();
  uint64_t i;
  int64_t step = 300000000;
  for (i = 0; i < 100; i++) kh_timemap_block(&m, i * BLOCK, (int64_t)i * BLOCK_NS);
  CHECK_EQ(kh_timemap_block(&m, i * BLOCK, (int64_t)i * BLOCK_NS + step), step);
  CHECK_EQ(m.restarts, 1);
  CHECK_EQ(kh_timemap_anchor(&m, i * BLOCK).since, 100 * BLOCK);
  CHECK_EQ(kh_timemap_anchor(&m, i * BLOCK).since_ns, 100ll * BLOCK_NS);
  CHECK_EQ(kh_timemap_anchor(&m, i * BLOCK).ns, 100ll * BLOCK_NS + step);
  CHECK_EQ(kh_timemap_anchor(&m, i * BLOCK).blocks, 1);
  for (i++; i < 300; i++)
    CHECK_EQ(kh_timemap_block(&m, i * BLOCK, (int64_t)i * BLOCK_NS + step), 0);
}

static void just_below_a_restart(void) {
  kh_timemap m = fresh();
  kh_timemap_block(&m, 0, 0);
  CHECK_EQ(kh_timemap_block(&m, BLOCK, BLOCK_NS + 100000000), 0); /* 4,800 frames */
  CHECK_EQ(kh_timemap_block(&m, 2 * BLOCK, 2 * BLOCK_NS + 100000001), 100000001);
}

/* A crystal that is slow by 200 ppm makes each block later; the mapping follows
 * within the two windows, which is some 6 frames. A fast one is followed at once. */
static void drift(void) {
  int64_t ppm;
  for (ppm = -200; ppm <= 200; ppm += 100) {
    kh_timemap m = fresh();
    int64_t i, ns = 0, frame_ns = 1000000000 / RATE;
    for (i = 0; i < 6000; i++) {
      ns = i * (BLOCK_NS + BLOCK_NS * ppm / 1000000);
      CHECK_EQ(kh_timemap_block(&m, (uint64_t)i * BLOCK, ns), 0);
    }
    CHECK(distance(kh_timemap_at(&m, (uint64_t)(i - 1) * BLOCK), ns) <= 7 * frame_ns);
    CHECK(kh_timemap_at(&m, (uint64_t)(i - 1) * BLOCK) <= ns);
  }
}

static void far_along(void) {
  kh_timemap m = fresh();
  uint64_t first = (1ull << 63) - 100;
  kh_timemap_block(&m, first, 1000);
  CHECK_EQ(kh_timemap_at(&m, first + 48000), 1000000000 + 1000);
  CHECK_EQ(kh_timemap_at(&m, first - 48000), -1000000000 + 1000);
}

int main(void) {
  RUN(before_the_first_block);
  RUN(envelope);
  RUN(early_block_moves_it_at_once);
  RUN(restart);
  RUN(just_below_a_restart);
  RUN(drift);
  RUN(far_along);
  return 0;
}
