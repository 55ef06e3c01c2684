/* The native code with tiny lists, so that tests fill and wrap each of them. */
#ifndef KH_SMALL_H
#define KH_SMALL_H
#include "contract.h"

enum {
  kh_small_KH_CLEAR_SLOTS = 4,
  kh_small_KH_ANSWERS = 2,
  kh_small_KH_BOUNDARIES = 4,
  kh_small_KH_SEGMENTS = KH_SEGMENTS, /* the audits need all of it */
  kh_small_KH_GAPS = 2
};
#define KH_N(constant) ((uint32_t)kh_small_##constant)
#endif
