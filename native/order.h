/* Every atomic access of the native code, by name.
 *
 * Each order below has exactly one partner, named beside it. The model check
 * builds this same code with one of them weakened to relaxed at a time and must
 * find a fault each time, so an order that is not needed cannot stay here
 * unnoticed, and a needed one cannot be lost.
 *
 * No stand-alone fences: ThreadSanitizer does not model them.
 */
#ifndef KH_ORDER_H
#define KH_ORDER_H

#ifndef KH_MODEL
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#define KH_FITS _Static_assert
_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2, "64-bit atomics must be lock-free");

typedef _Atomic uint64_t kh_atomic;
typedef int16_t kh_cell; /* one frame in a ring, or one plain word beside an atomic */
typedef uint64_t kh_word;

#define KH_LOAD(a, order) atomic_load_explicit(&(a), order)
#define KH_STORE(a, v, order) atomic_store_explicit(&(a), v, order)
#define KH_RELAXED memory_order_relaxed
#define KH_ACQUIRE memory_order_acquire
#define KH_RELEASE memory_order_release
#define KH_GET(w) (w)
#define KH_SET(w, v) ((w) = (v))
#define KH_NEW(T) ((T *)calloc(1, sizeof(T)))
#define KH_DELETE(p) free(p)
#define KH_WIPE(p) memset((p), 0, sizeof *(p))
#ifndef KH_N
#define KH_N(constant) (constant) /* tests build with smaller sizes */
#endif
#define KH_WORDS(n) (n)           /* of a snapshot; the model keeps fewer */

static inline void kh_ring_put(kh_cell *ring, uint64_t mask, uint64_t at,
                               const int16_t *from, uint64_t n) {
  uint64_t i = at & mask, first = mask + 1 - i;
  if (first > n) first = n;
  memcpy(ring + i, from, first * sizeof *from);
  memcpy(ring, from + first, (n - first) * sizeof *from);
}

static inline void kh_ring_get(const kh_cell *ring, uint64_t mask, uint64_t at, int16_t *to,
                               uint64_t n) {
  uint64_t i = at & mask, first = mask + 1 - i;
  if (first > n) first = n;
  memcpy(to, ring + i, first * sizeof *to);
  memcpy(to + first, ring, (n - first) * sizeof *to);
}

static inline void kh_words_put(kh_word *to, const void *from, uint32_t n) {
  memcpy(to, from, n * sizeof *to);
}

static inline void kh_words_get(const kh_word *from, void *to, uint32_t n) {
  memcpy(to, from, n * sizeof *from);
}
#else
#include "model_atomics.h" /* the same names over the model checker's types */
#endif

/* The control word: clear number and mode. The callback loads it first, so that
 * everything a clear names (fence, index, item starts) is there. */
#ifndef KH_CONTROL_STORE
#define KH_CONTROL_STORE KH_RELEASE /* partner: KH_CONTROL_LOAD */
#endif
#ifndef KH_CONTROL_LOAD
#define KH_CONTROL_LOAD KH_ACQUIRE /* partner: KH_CONTROL_STORE */
#endif
/* The write index publishes frames and item starts. */
#ifndef KH_WRITE_STORE
#define KH_WRITE_STORE KH_RELEASE /* partner: KH_WRITE_LOAD */
#endif
#ifndef KH_WRITE_LOAD
#define KH_WRITE_LOAD KH_ACQUIRE /* partner: KH_WRITE_STORE */
#endif
/* The read indices give frames and item starts back to the writer. */
#ifndef KH_READ_STORE
#define KH_READ_STORE KH_RELEASE /* partner: KH_READ_LOAD */
#endif
#ifndef KH_READ_LOAD
#define KH_READ_LOAD KH_ACQUIRE /* partner: KH_READ_STORE */
#endif
/* Answers: the write index publishes one, the read index gives its place back. */
#ifndef KH_ANSWER_STORE
#define KH_ANSWER_STORE KH_RELEASE /* partner: KH_ANSWER_LOAD */
#endif
#ifndef KH_ANSWER_LOAD
#define KH_ANSWER_LOAD KH_ACQUIRE /* partner: KH_ANSWER_STORE */
#endif
#ifndef KH_ANSWER_FREE_STORE
#define KH_ANSWER_FREE_STORE KH_RELEASE /* partner: KH_ANSWER_FREE_LOAD */
#endif
#ifndef KH_ANSWER_FREE_LOAD
#define KH_ANSWER_FREE_LOAD KH_ACQUIRE /* partner: KH_ANSWER_FREE_STORE */
#endif
/* Logs (segments, gaps): the same pair as the answers. */
#ifndef KH_LOG_STORE
#define KH_LOG_STORE KH_RELEASE /* partner: KH_LOG_LOAD */
#endif
#ifndef KH_LOG_LOAD
#define KH_LOG_LOAD KH_ACQUIRE /* partner: KH_LOG_STORE */
#endif
#ifndef KH_LOG_FREE_STORE
#define KH_LOG_FREE_STORE KH_RELEASE /* partner: KH_LOG_FREE_LOAD */
#endif
#ifndef KH_LOG_FREE_LOAD
#define KH_LOG_FREE_LOAD KH_ACQUIRE /* partner: KH_LOG_FREE_STORE */
#endif
/* Snapshot slots (sequence lock without fences, Boehm 2012): each word is stored
 * with release and loaded with acquire, so that a reader that saw a later word
 * also sees that slot's later begin number. */
#ifndef KH_SLOT_WORD_STORE
#define KH_SLOT_WORD_STORE KH_RELEASE /* partner: KH_SLOT_WORD_LOAD */
#endif
#ifndef KH_SLOT_WORD_LOAD
#define KH_SLOT_WORD_LOAD KH_ACQUIRE /* partner: KH_SLOT_WORD_STORE */
#endif
#ifndef KH_SLOT_END_STORE
#define KH_SLOT_END_STORE KH_RELEASE /* partner: KH_SLOT_END_LOAD */
#endif
#ifndef KH_SLOT_END_LOAD
#define KH_SLOT_END_LOAD KH_ACQUIRE /* partner: KH_SLOT_END_STORE */
#endif

#endif
