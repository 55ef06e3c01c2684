/* The playout again, one frame at a time over plain arrays: what the real one must do,
 * in the dullest way. Counts are from 0. */
#ifndef KH_REFERENCE_H
#define KH_REFERENCE_H

#include "check.h"
#include "playout.h"

enum { REF_FRAMES = 1 << 18 };

typedef struct {
  uint32_t capacity, fade;
  int32_t duck;

  /* the lane, every frame ever written */
  int16_t sample[REF_FRAMES];
  uint8_t starts[REF_FRAMES];
  uint64_t written, read, starts_queued;

  /* clears */
  uint64_t clears, answered, drained, fence, answers_waiting;
  uint64_t mode, number; /* number: of the newest pause, duck or clear */
  int after_clear;
  kh_answer answer; /* of the last block, when it answered */

  /* what sounds */
  int in_run, sounding;
  int32_t gain, from, target;
  uint32_t step; /* of a ramp; == fade when there is none */
  uint64_t tail;
  int16_t fading[KH_FADE_MAX];
  uint32_t fade_at, fade_end;
  uint64_t fade_frame;

  /* totals */
  uint64_t handed, discarded, faded, ducked, stalled;

  /* what each device frame was */
  uint8_t kind[REF_FRAMES], was_faded[REF_FRAMES], was_ducked[REF_FRAMES];
  uint64_t queue[REF_FRAMES];
  uint64_t device;

  /* the notice lane, every frame ever written, and the volume */
  int16_t notice[REF_FRAMES];
  uint64_t notice_written, notice_fence, notice_read;
  uint64_t notice_handed, notice_flushed, notice_frame, notice_device;
  int notice_sounding; /* the last frame of the block before was one */
  int32_t volume, volume_from, volume_target, volume_wanted;
  uint32_t volume_step;
} reference;

void ref_init(reference *r, const kh_playout_config *c);
int64_t ref_write(reference *r, uint64_t generation, const int16_t *frames, uint32_t n,
                  int starts);
uint64_t ref_clear(reference *r);
uint64_t ref_mode(reference *r, uint64_t mode);
int ref_dismiss(reference *r, uint64_t number);
void ref_drain(reference *r, const kh_answer *a);
uint64_t ref_notice(reference *r, uint64_t room, const int16_t *frames, uint32_t n);
void ref_notice_flush(reference *r);
void ref_volume(reference *r, uint32_t gain);
int ref_render(reference *r, int16_t *out, uint32_t n); /* 1: r->answer is one */

#endif
