#include "account.h"

account *account_new(uint32_t limit, uint64_t tape_frames, uint64_t first, uint32_t fade) {
  account *a = calloc(1, sizeof *a);
  CHECK(a != NULL);
  a->limit = limit;
  a->first = first;
  a->fade = fade;
  a->items = calloc(limit, sizeof *a->items);
  a->answers = calloc(limit, sizeof *a->answers);
  a->segments = calloc(limit * 4ull, sizeof *a->segments);
  a->tape = calloc(tape_frames, sizeof *a->tape);
  CHECK(a->items && a->answers && a->segments && a->tape);
  return a;
}

void account_free(account *a) {
  free(a->items);
  free(a->answers);
  free(a->segments);
  free(a->tape);
  free(a);
}

int16_t account_value(uint64_t frame) { return (int16_t)(frame % 30011 + 1500); }

/* Every clear in order; what it dropped. Returns the frames dropped in all. */
static uint64_t audit_answers(const account *a) {
  uint64_t dropped = 0, fence = a->first;
  uint32_t i;
  for (i = 0; i < a->answer_count; i++) {
    const kh_answer *x = &a->answers[i];
    CHECK(i == 0 || x->request > a->answers[i - 1].request);
    CHECK(x->cursor - a->first >= fence - a->first);
    CHECK_EQ(x->cursor + x->discarded, x->fence);
    CHECK(x->faded <= x->cursor - fence);
    dropped += x->discarded;
    CHECK_EQ(a->first + x->handed + dropped, x->fence);
    fence = x->fence;
  }
  return dropped;
}

/* Splits each item at the cut that fell into it. */
static void post_items(account *a, uint64_t read) {
  uint32_t i, k = 0;
  for (i = 0; i < a->item_count; i++) {
    item *it = &a->items[i];
    uint64_t end = it->start + it->length, cut;
    while (k < a->answer_count && a->answers[k].fence - a->first <= it->start - a->first) k++;
    if (k == a->answer_count) {
      cut = read - a->first < end - a->first ? read : end; /* the rest is still queued */
      it->handed = cut - a->first > it->start - a->first ? cut - it->start : 0;
      continue;
    }
    cut = a->answers[k].cursor;
    CHECK(end - a->first <= a->answers[k].fence - a->first);
    if (cut - a->first < it->start - a->first) cut = it->start;
    if (cut - a->first > end - a->first) cut = end;
    it->handed = cut - it->start;
    it->dropped = end - cut;
  }
}

static void check_sample(const account *a, const kh_segment *s, uint64_t i) {
  int16_t got = a->tape[s->device_frame - a->first + i];
  int16_t full = account_value(s->queue_frame + i);
  uint64_t plain = s->length - s->faded;
  if (s->ducked + s->faded == 0 || (a->plain && i < plain))
    CHECK_EQ(got, full);
  else if (a->plain)
    CHECK_EQ(got, (full * kh_fade_gain((uint32_t)(i - plain), a->fade)) >> 15);
  else
    CHECK(got >= 0 && got <= full);
}

/* The device's record: contiguous, each REAL frame the next one that was due. */
static uint64_t audit_record(account *a, uint64_t *faded, uint64_t *ducked) {
  uint64_t device = a->first, due = a->first, real = 0, i;
  uint32_t k = 0, which = 0, n;
  for (n = 0; n < a->segment_count; n++) {
    const kh_segment *s = &a->segments[n];
    CHECK_EQ(s->device_frame, device);
    device += s->length;
    for (i = 0; s->kind != KH_REAL && i < s->length; i++)
      CHECK_EQ(a->tape[s->device_frame - a->first + i], 0);
    if (s->kind != KH_REAL) continue;
    for (i = 0; i < s->length; i++, due++, real++) {
      for (; k < a->answer_count && due == a->answers[k].cursor; k++) due = a->answers[k].fence;
      CHECK_EQ(s->queue_frame + i, due);
      while (due - a->items[which].start >= a->items[which].length) which++;
      a->items[which].recount++;
      check_sample(a, s, i);
    }
    *faded += s->faded;
    *ducked += s->ducked;
  }
  return real;
}

void account_audit(account *a, const kh_snapshot *last) {
  uint64_t faded = 0, ducked = 0, handed = 0, dropped = 0, real;
  uint32_t i;
  CHECK_EQ(last->segments_lost, 0);
  if (last->open.length > 0) a->segments[a->segment_count++] = last->open;
  CHECK_EQ(last->discarded, audit_answers(a));
  CHECK_EQ(last->read, a->first + last->handed + last->discarded);
  post_items(a, last->read);
  real = audit_record(a, &faded, &ducked);
  CHECK_EQ(real + last->fading, last->handed);
  CHECK_EQ(faded + last->fading, last->faded);
  CHECK_EQ(ducked, last->ducked);
  for (i = 0; i < a->item_count; i++) {
    handed += a->items[i].handed;
    dropped += a->items[i].dropped;
    if (last->fading == 0) CHECK_EQ(a->items[i].recount, a->items[i].handed);
  }
  CHECK_EQ(handed, last->handed);
  CHECK_EQ(dropped, last->discarded);
}
