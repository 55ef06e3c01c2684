/* The microphone's ring.
 *
 * The capture timeline counts every frame that the microphone heard, kept or not:
 * a full ring drops the newest frames and leaves a gap of exactly their number, a
 * device that dropped input leaves a gap as long as its own times say. Playout and
 * clears have nothing to do with it. A gap is published before the frames that
 * follow it, so a reader never places a frame wrongly; while the list of gaps is
 * full, the gap grows instead.
 */
#include <stdlib.h>

#include "capture.h"

void kh_wake(int fd);

kh_capture *kh_capture_open(int16_t *ring, const kh_capture_config *config, int32_t *result) {
  kh_capture *c;
  *result = KH_BAD_CONFIG;
  if (config->rate == 0 || config->channels == 0 || config->capacity < 2 ||
      (config->capacity & (config->capacity - 1)) != 0 || config->restart_frames == 0)
    return NULL;
  *result = KH_NO_MEMORY;
  c = KH_NEW(kh_capture);
  if (c == NULL) return NULL;
  c->config = *config;
  c->ring = (kh_cell *)ring;
  c->mask = config->capacity - 1u;
  c->stored = c->counts.position = c->last_woken = config->first_frame;
  KH_STORE(c->read, config->first_frame, KH_RELAXED);
  KH_STORE(c->write, config->first_frame, KH_RELAXED);
  KH_STORE(c->gap_read, 0, KH_RELAXED);
  KH_STORE(c->gap_write, 0, KH_RELAXED);
  KH_STORE(c->muted, 0, KH_RELAXED);
  kh_timemap_init(&c->time, config->rate, config->restart_frames);
  *result = KH_OK;
  return c;
}

void kh_capture_close(kh_capture *c) { KH_DELETE(c); }

/* ---- callback ------------------------------------------------------------- */

static void miss(kh_capture *c, uint64_t n, uint64_t kind) {
  if (n == 0) return;
  if (c->pending.length == 0) c->pending.position = c->counts.position;
  c->pending.length += n;
  c->pending.kind = kind;
  c->counts.position += n;
}

/* By how many ns the device's time jumped before this block, 0 when it did not start
 * anew. A flagged restart counts however short it is. */
static int64_t jump_of(kh_capture *c, int64_t ns, int *anew) {
  int64_t jump = 0;
  *anew = c->anew && c->time.windows != 0;
  c->anew = 0;
  if (*anew) {
    jump = ns - kh_timemap_at(&c->time, c->counts.position);
  } else {
    jump = kh_timemap_block(&c->time, c->counts.position, ns);
    *anew = jump > 0;
  }
  return jump > 0 ? jump : 0;
}

/* 1 when nothing stands between the ring and the next frames. */
static int publish_gap(kh_capture *c) {
  uint64_t write = KH_LOAD(c->gap_write, KH_RELAXED);
  kh_gap_record record;
  if (c->pending.length == 0) return 1;
  if (write - KH_LOAD(c->gap_read, KH_LOG_FREE_LOAD) == KH_N(KH_GAPS)) return 0;
  record.at = c->stored;
  record.gap = c->pending;
  kh_words_put(c->gaps[write & (KH_N(KH_GAPS) - 1)], &record, KH_GAP_WORDS);
  KH_STORE(c->gap_write, write + 1, KH_LOG_STORE);
  c->pending.length = 0;
  return 1;
}

static void put(kh_capture *c, const int16_t *in, uint64_t n, int zeros) {
  uint32_t step = c->config.channels;
  uint64_t done = 0;
  if (step == 1 && !zeros) {
    kh_ring_put(c->ring, c->mask, c->stored, in, n);
    return;
  }
  while (done < n) {
    int16_t mono[256];
    uint64_t k = n - done < 256 ? n - done : 256, i;
    for (i = 0; i < k; i++) mono[i] = zeros ? 0 : in[(done + i) * step];
    kh_ring_put(c->ring, c->mask, c->stored + done, mono, k);
    done += k;
  }
}

void kh_capture_process(kh_capture *c, const int16_t *in, uint32_t n, int64_t adc_ns,
                        int64_t now_ns, uint32_t flags) {
  kh_capture_snapshot *s = &c->counts;
  int zeros = in == NULL || KH_LOAD(c->muted, KH_RELAXED);
  uint64_t space, k;
  if (flags & KH_OVERFLOW) s->overflows++;
  if ((flags & KH_UNDERFLOW) && c->time.blocks > KH_FLAGGED_ON_END) c->anew = 1;
  if (flags & KH_NOMINAL_TIME) {
    s->nominal_times++;
  } else {
    int anew;
    int64_t jump = jump_of(c, adc_ns, &anew);
    if (anew) {
      /* To the nearest frame; in microseconds, so that no jump overflows. */
      uint64_t lost = ((uint64_t)jump / 1000 * c->config.rate + 500000) / 1000000;
      s->missing += lost;
      miss(c, lost, KH_GAP_DEVICE);
      /* The map now starts where the timeline goes on. */
      kh_timemap_init(&c->time, c->config.rate, c->config.restart_frames);
      kh_timemap_block(&c->time, s->position, adc_ns);
      s->restarts++;
    }
  }
  s->frame = s->position;

  space = c->config.capacity - (c->stored - KH_LOAD(c->read, KH_READ_LOAD));
  k = n < space ? n : space;
  if (k > 0 && !publish_gap(c)) k = 0;
  if (k > 0) {
    put(c, in, k, zeros);
    c->stored += k;
    s->stored += k;
    s->position += k;
    if (zeros) s->muted += k;
    KH_STORE(c->write, c->stored, KH_WRITE_STORE);
  }
  s->dropped += n - k;
  miss(c, n - k, KH_GAP_READER);

  s->block++;
  s->adc_ns = adc_ns;
  s->now_ns = now_ns;
  s->anchor = kh_timemap_anchor(&c->time, s->frame);
  kh_slots_put(c->slots, s->block, (const uint64_t *)s, KH_CAPTURE_WORDS);
  if (c->config.wake_every != 0 && c->stored - c->last_woken >= c->config.wake_every) {
    c->last_woken += c->config.wake_every;
    kh_wake(c->config.wake_fd);
  }
}

/* ---- control ---------------------------------------------------------------- */

void kh_capture_mute(kh_capture *c, int32_t muted) {
  KH_STORE(c->muted, (uint64_t)(muted != 0), KH_RELAXED);
}

/* Takes the gaps that lie before ring frame `read`; returns the ring frame of the
 * first one after it, or `ready`. */
static uint64_t pass_gaps(kh_capture *c, uint64_t read, uint64_t ready) {
  uint64_t first = KH_LOAD(c->gap_read, KH_RELAXED);
  uint64_t last = KH_LOAD(c->gap_write, KH_LOG_LOAD);
  while (first != last) {
    kh_gap_record record;
    kh_words_get(c->gaps[first & (KH_N(KH_GAPS) - 1)], &record, KH_GAP_WORDS);
    if (record.at != read) return record.at - read < ready - read ? record.at : ready;
    if (c->passed_count == KH_N(KH_GAPS)) return read; /* the caller takes gaps first */
    c->passed[c->passed_count++] = record.gap;
    c->offset += record.gap.length;
    KH_STORE(c->gap_read, ++first, KH_LOG_FREE_STORE);
  }
  return ready;
}

uint32_t kh_capture_read(kh_capture *c, int16_t *out, uint32_t max, uint64_t *position) {
  uint64_t read = KH_LOAD(c->read, KH_RELAXED);
  uint64_t ready = KH_LOAD(c->write, KH_WRITE_LOAD);
  uint64_t end = pass_gaps(c, read, ready);
  uint32_t n = end - read < max ? (uint32_t)(end - read) : max;
  kh_ring_get(c->ring, c->mask, read, out, n);
  *position = read + c->offset;
  KH_STORE(c->read, read + n, KH_READ_STORE);
  return n;
}

uint32_t kh_capture_gaps(kh_capture *c, kh_gap *out, uint32_t max) {
  uint32_t n = c->passed_count < max ? c->passed_count : max, i;
  for (i = 0; i < n; i++) out[i] = c->passed[i];
  for (i = n; i < c->passed_count; i++) c->passed[i - n] = c->passed[i];
  c->passed_count -= n;
  return n;
}

int32_t kh_capture_snapshot_get(const kh_capture *c, kh_capture_snapshot *out) {
  kh_capture *mutable_c = (kh_capture *)c;
  return kh_slots_get(mutable_c->slots, (uint64_t *)out, KH_CAPTURE_WORDS) ? KH_OK
                                                                          : KH_NO_SNAPSHOT;
}
