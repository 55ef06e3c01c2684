/* The microphone's ring: what its two sides share and each one's own. Internal. */
#ifndef KH_CAPTURE_H
#define KH_CAPTURE_H

#include <stdint.h>

#include "contract.h"
#include "order.h"
#include "slots.h"
#include "timemap.h"

#define KH_CAPTURE_WORDS ((uint32_t)(sizeof(kh_capture_snapshot) / 8))
KH_FITS(KH_CAPTURE_WORDS <= KH_SLOT_WORDS, "a snapshot is larger than its slot");

/* A gap lies before ring frame `at`: what follows it is `length` frames later on
 * the timeline than its place in the ring says. */
typedef struct {
  uint64_t at;
  kh_gap gap;
} kh_gap_record;

#define KH_GAP_WORDS ((uint32_t)(sizeof(kh_gap_record) / 8))

struct kh_capture {
  kh_capture_config config;
  kh_cell *ring;
  uint64_t mask;

  kh_atomic read;      /* writer: control; ring frames taken */
  kh_atomic gap_read;  /* writer: control */
  kh_atomic muted;     /* writer: control */
  uint64_t offset;     /* control; timeline minus ring index */
  kh_gap passed[KH_N(KH_GAPS)]; /* control; gaps not yet handed on */
  uint32_t passed_count;
  char apart[64]; /* the two sides are written by two cores */

  kh_atomic write;     /* writer: callback; ring frames stored */
  kh_atomic gap_write; /* writer: callback */
  kh_slot slots[2];    /* writer: callback */
  kh_word gaps[KH_N(KH_GAPS)][sizeof(kh_gap_record) / 8]; /* by gap_write */

  uint64_t stored; /* callback */
  uint64_t last_woken;
  kh_gap pending; /* not published yet; length 0 when there is none */
  kh_timemap time;
  int anew; /* the device started anew; by how much will be known with its next time */
  kh_capture_snapshot counts;
};

#endif
