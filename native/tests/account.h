/* The bookkeeping of a stress run, and its audit once both threads are done. */
#ifndef KH_ACCOUNT_H
#define KH_ACCOUNT_H

#include "check.h"
#include "playout.h"

typedef struct {
  uint64_t start;  /* queue frame */
  uint64_t length; /* accepted */
  uint64_t handed, dropped; /* by the answers */
  uint64_t recount;         /* by the device's record */
} item;

typedef struct {
  uint64_t first;      /* where counts start */
  uint32_t fade;
  int plain;           /* no pause and no duck: every gain is known */
  item *items;
  kh_answer *answers;
  kh_segment *segments;
  uint32_t item_count, answer_count, segment_count, limit;
  int16_t *tape;       /* every frame that left, by device frame - first */
} account;

account *account_new(uint32_t limit, uint64_t tape_frames, uint64_t first, uint32_t fade);
void account_free(account *a);
int16_t account_value(uint64_t frame);
/* Everything handed is the right frame, in order, at the right gain; nothing else
 * sounds; each item's counts agree with the answers and with the record. */
void account_audit(account *a, const kh_snapshot *last);

#endif
