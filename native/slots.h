/* Two snapshot slots, written in turn by the callback.
 *
 * The writer never waits. A reader takes the newest slot whose begin and end
 * numbers agree; a process that is killed in the middle of one leaves the other
 * complete, which is what recovery reads.
 */
#ifndef KH_SLOTS_H
#define KH_SLOTS_H

#include "order.h"

#define KH_SLOT_WORDS 40u

typedef struct {
  kh_atomic begin; /* writer: callback */
  kh_atomic end;   /* writer: callback */
  kh_atomic words[KH_SLOT_WORDS]; /* writer: callback */
} kh_slot;

/* callback. `number` counts from 1. */
static inline void kh_slots_put(kh_slot slots[2], uint64_t number, const uint64_t *words,
                                uint32_t n) {
  kh_slot *slot = &slots[number & 1];
  uint32_t i;
  KH_STORE(slot->begin, number, KH_RELAXED);
  for (i = 0; i < KH_WORDS(n); i++) KH_STORE(slot->words[i], words[i], KH_SLOT_WORD_STORE);
  KH_STORE(slot->end, number, KH_SLOT_END_STORE);
}

/* any thread. Returns the number of the snapshot read, 0 when there is none. */
static inline uint64_t kh_slots_get(kh_slot slots[2], uint64_t *words, uint32_t n) {
  /* With two slots a reader is overtaken only by two whole blocks within one
   * copy; a few tries are plenty, and the bound keeps this wait-free. */
  int attempt;
  for (attempt = 0; attempt < 16; attempt++) {
    uint64_t a = KH_LOAD(slots[0].end, KH_SLOT_END_LOAD);
    uint64_t b = KH_LOAD(slots[1].end, KH_SLOT_END_LOAD);
    int newest = b > a;
    int k;
    if (a == 0 && b == 0) return 0;
    for (k = 0; k < 2; k++) {
      kh_slot *slot = &slots[k == 0 ? newest : !newest];
      uint64_t number = (slot == &slots[1]) ? b : a;
      uint32_t i;
      if (number == 0) continue;
      for (i = 0; i < KH_WORDS(n); i++) words[i] = KH_LOAD(slot->words[i], KH_SLOT_WORD_LOAD);
      if (KH_LOAD(slot->begin, KH_RELAXED) == number) return number;
    }
  }
  return 0;
}

#endif
