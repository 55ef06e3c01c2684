/* The names of order.h over relacy's types: atomics with every value that C11 lets
 * a load return, and plain words whose every access is checked for a data race.
 *
 * Each access is a site that knows its place and the name of its order, so one build
 * can weaken any of them: `kh_weakened` is the name of an order, or the "file:line"
 * of one site, that is taken as relaxed.
 */
#ifndef KH_MODEL_ATOMICS_H
#define KH_MODEL_ATOMICS_H

#include <relacy/relacy.hpp>

#include <stdint.h>
#include <string.h>

typedef rl::generic_atomic<uint64_t, true> kh_atomic; /* begins as 0 */
typedef rl::var<int16_t> kh_cell;
typedef rl::var<uint64_t> kh_word;

extern uint32_t kh_model_words; /* of a snapshot; a longer one only costs time */

struct kh_site {
  kh_site(const char *path, int at, const char *order_name);
  rl::memory_order order(rl::memory_order written) {
    raced |= racing;
    return weak ? rl::mo_relaxed : written;
  }

  const char *file;
  int line;
  const char *name;
  bool weak;
  bool raced = false; /* reached while both threads ran */
  kh_site *next;

  static bool racing;
  static kh_site *all;
};

#define KH_ORDER_AT_SITE(written, name)              \
  ([&]() -> rl::memory_order {                     \
    static kh_site site(__FILE__, __LINE__, name);   \
    return site.order(written);                    \
  }())
#define KH_FITS static_assert
#define KH_LOAD(a, written) ((a).load(KH_ORDER_AT_SITE(written, #written), $))
#define KH_STORE(a, v, written) ((a).store((v), KH_ORDER_AT_SITE(written, #written), $))
#define KH_RELAXED rl::mo_relaxed
#define KH_ACQUIRE rl::mo_acquire
#define KH_RELEASE rl::mo_release
#define KH_GET(w) ((uint64_t)(w)($))
#define KH_SET(w, v) ((w)($) = (uint64_t)(v))
#define KH_NEW(T) (new T())
#define KH_DELETE(p) delete (p)
#define KH_WIPE(p) ((void)(p)) /* relacy's atomics begin as 0 */
#define KH_WORDS(n) ((n) < kh_model_words ? (n) : kh_model_words)

/* Small enough that every ring wraps within a few steps. */
enum {
  kh_model_KH_CLEAR_SLOTS = 4,
  kh_model_KH_ANSWERS = 2,
  kh_model_KH_BOUNDARIES = 2,
  kh_model_KH_SEGMENTS = 2,
  kh_model_KH_GAPS = 2
};
#define KH_N(constant) ((uint32_t)kh_model_##constant)

static inline void kh_ring_put(kh_cell *ring, uint64_t mask, uint64_t at,
                               const int16_t *from, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) ring[(at + i) & mask]($) = from[i];
}

static inline void kh_ring_get(const kh_cell *ring, uint64_t mask, uint64_t at, int16_t *to,
                               uint64_t n) {
  for (uint64_t i = 0; i < n; i++) to[i] = ring[(at + i) & mask]($);
}

static inline void kh_words_put(kh_word *to, const void *from, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) to[i]($) = ((const uint64_t *)from)[i];
}

static inline void kh_words_get(const kh_word *from, void *to, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) ((uint64_t *)to)[i] = from[i]($);
}

#endif
