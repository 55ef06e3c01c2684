/* Reading the shared region of a process that is gone. Nothing here writes. */
#include "playout.h"

int32_t kh_recover_snapshot(const void *shared, uint64_t size, const uint64_t *boot_id,
                            kh_snapshot *out) {
  kh_shared *s = (kh_shared *)shared;
  if (size < sizeof *s || KH_LOAD(s->magic, KH_CONTROL_LOAD) != KH_MAGIC ||
      KH_LOAD(s->version, KH_RELAXED) != KH_LAYOUT_VERSION ||
      KH_LOAD(s->size, KH_RELAXED) != sizeof *s ||
      KH_LOAD(s->boot[0], KH_RELAXED) != boot_id[0] ||
      KH_LOAD(s->boot[1], KH_RELAXED) != boot_id[1])
    return KH_NOT_OURS;
  return kh_slots_get(s->slots, (uint64_t *)out, KH_SNAPSHOT_WORDS) ? KH_OK : KH_NO_SNAPSHOT;
}

uint32_t kh_recover_answers(const void *shared, kh_answer *out, uint32_t max) {
  kh_shared *s = (kh_shared *)shared;
  uint64_t write = KH_LOAD(s->answer_write, KH_ANSWER_LOAD);
  /* The oldest place is the one that the next answer overwrites, and the process
   * may have died doing so; unless that answer was not drained yet. */
  uint64_t kept = write - KH_LOAD(s->answer_read, KH_RELAXED);
  uint64_t first;
  uint32_t n = 0;
  if (kept < KH_N(KH_ANSWERS)) kept = KH_N(KH_ANSWERS) - 1u;
  first = write > kept ? write - kept : 0;
  if (write - first > max) first = write - max;
  for (; first < write; first++, n++)
    kh_words_get(s->answers[first & (KH_N(KH_ANSWERS) - 1)], &out[n], KH_ANSWER_WORDS);
  return n;
}

uint64_t kh_recover_generation(const void *shared) {
  kh_shared *s = (kh_shared *)shared;
  return KH_LOAD(s->control, KH_CONTROL_LOAD) >> 2;
}
