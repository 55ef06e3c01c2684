/* What the control side and the callback of the playout share with each other,
 * and each one's own. Internal. Each atomic names its one writer. */
#ifndef KH_PLAYOUT_H
#define KH_PLAYOUT_H

#include <stdint.h>

#include "contract.h"
#include "order.h"
#include "slots.h"
#include "timemap.h"

#define KH_MAGIC 0x544f594c50484bu /* "KHPLYOT" */
#define KH_UNITY 32768
#define KH_ANSWER_WORDS ((uint32_t)(sizeof(kh_answer) / 8))
#define KH_SEGMENT_WORDS ((uint32_t)(sizeof(kh_segment) / 8))
#define KH_SNAPSHOT_WORDS ((uint32_t)(sizeof(kh_snapshot) / 8))
KH_FITS(KH_SNAPSHOT_WORDS <= KH_SLOT_WORDS, "a snapshot is larger than its slot");

/* What a clear names, besides its number. */
typedef struct {
  kh_atomic fence;      /* writer: control; published by the control word */
  kh_atomic boundaries; /* writer: control; item starts below the fence end here */
} kh_clear_slot;

/* The shared region: a file mapped from a tmpfs, so that what was true when the
 * process died can still be read. */
typedef struct {
  kh_atomic magic;   /* writer: control, last of the header */
  kh_atomic version; /* writer: control */
  kh_atomic size;    /* writer: control */
  kh_atomic boot[2]; /* writer: control */
  kh_atomic rate;    /* writer: control */

  kh_atomic control;       /* writer: control; clear number << 2 | mode */
  kh_atomic write;         /* writer: control; queue frames written */
  kh_atomic bound_write;   /* writer: control; item starts written */
  kh_atomic answer_read;   /* writer: control */
  kh_atomic segment_read;  /* writer: control */
  kh_atomic notice_write;  /* writer: control */
  kh_atomic notice_fence;  /* writer: control */
  kh_atomic volume;        /* writer: control; Q15 */
  kh_clear_slot clears[KH_N(KH_CLEAR_SLOTS)];

  kh_atomic read;          /* writer: callback; queue frames handed or discarded */
  kh_atomic bound_read;    /* writer: callback; item starts taken or dropped */
  kh_atomic answer_write;  /* writer: callback */
  kh_atomic segment_write; /* writer: callback */
  kh_atomic notice_read;   /* writer: callback */
  kh_slot slots[2];        /* writer: callback */

  kh_word bounds[KH_N(KH_BOUNDARIES)];                         /* by bound_write */
  kh_word answers[KH_N(KH_ANSWERS)][sizeof(kh_answer) / 8];    /* by answer_write */
  kh_word segments[KH_N(KH_SEGMENTS)][sizeof(kh_segment) / 8]; /* by segment_write */
} kh_shared;

typedef struct {
  uint64_t written;
  uint64_t clears;     /* newest clear asked for */
  uint64_t answered;   /* newest clear whose answer was drained */
  uint64_t pauses;     /* number of the newest pause, duck or clear */
  uint64_t mode;
  uint64_t bounds;     /* item starts written */
  uint64_t notices;
  int after_clear;     /* the next frame starts a run whatever the writer says */
} kh_control_side;

typedef struct {
  uint64_t read;
  uint64_t answered;
  uint64_t bound_read;
  uint64_t bound_seen;
  uint64_t notice_read;
  uint64_t device_frames;
  kh_snapshot counts; /* totals so far; becomes the snapshot at the end of a block */
  kh_timemap time;
  kh_segment open;

  int in_run;     /* a run has begun and was not cut: its next frame is due */
  int sounding;   /* the last frame copied out was speech at a gain above 0 */
  int32_t gain;   /* Q15, now */
  int32_t from;   /* of the ramp */
  int32_t target;
  uint32_t ramp;  /* frames of the ramp done; == fade when there is none */
  int32_t volume, volume_from, volume_target; /* Q15, as gain, from and target */
  uint32_t volume_ramp;
  int notice_sounding; /* the last frame of the block before was a notice's */
  uint64_t tail;  /* faded frames at the end of what was handed */

  uint32_t fade_at, fade_left; /* of what a clear left to play */
  uint64_t fade_queue;         /* queue frame of fade[0] */
  int16_t fade[KH_FADE_MAX];   /* private copy: the ring is the writer's again */
} kh_callback_side;

struct kh_playout {
  kh_playout_config config;
  kh_shared *shared;
  kh_cell *ring;
  kh_cell *notice_ring;
  uint64_t mask, notice_mask;
  kh_control_side control;
  char apart[64]; /* the two sides are written by two cores */
  kh_callback_side callback;
  int16_t curve[KH_FADE_MAX]; /* gains of a fade-out, Q15; read-only after open */
};

/* Wakes the control side. Callback-safe: the eventfd is non-blocking. */
void kh_wake(int fd);

#endif
