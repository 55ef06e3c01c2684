/* A playout on a bench: every sample written and every sample that came out. */
#ifndef KH_RIG_H
#define KH_RIG_H

#include "check.h"
#include "playout.h"

enum { RIG_RING = 4096, RIG_NOTICES = 1024, RIG_MAX = 1 << 16 };

typedef struct {
  kh_playout *q;
  kh_playout_config config;
  kh_shared *shared;
  int16_t ring[RIG_RING], notices[RIG_NOTICES];
  int16_t out[RIG_MAX * 2]; /* all that was rendered, interleaved */
  uint32_t frames;          /* rendered */
  uint32_t flags;           /* of the next blocks */
} rig;

/* A sample that no other frame within some 30,000 has. */
static inline int16_t coded(uint64_t frame) { return (int16_t)(frame % 30011 + 1500); }

/* 48 kHz mono, fade 240, duck at half, counts from 0. */
kh_playout_config rig_config(void);
rig *rig_open(kh_playout_config config);
rig *rig_new(void);
void rig_close(rig *r);

void rig_write(rig *r, uint32_t n, int starts); /* coded by frame; all must fit */
int16_t *rig_render(rig *r, uint32_t n);        /* the block's first sample */
kh_answer rig_answer(rig *r);                   /* there must be one */
int rig_silent(const int16_t *out, uint32_t n);
kh_snapshot rig_snapshot(rig *r);               /* checked for its identities */
int16_t rig_faded(uint64_t frame, uint32_t i, uint32_t fade);

#endif
