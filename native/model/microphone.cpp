#include "microphone.h"

extern const CaptureCase *capture_case;

Microphone::Microphone() {
  kh_capture_config config = {};
  int32_t result;
  config.rate = 1000; /* a frame is a millisecond */
  config.channels = 1;
  config.capacity = 4;
  config.wake_fd = -1;
  config.restart_frames = 1;
  c = kh_capture_open((int16_t *)ring, &config, &result);
  RL_ASSERT(c != NULL);
}

Microphone::~Microphone() { kh_capture_close(c); }

void Microphone::process(uint32_t n, uint32_t lost) {
  int16_t in[4];
  timeline += lost;
  for (uint32_t i = 0; i < n; i++) in[i] = (int16_t)(timeline + i + 1);
  kh_capture_process(c, in, n, (int64_t)timeline * 1000000, 0, 0);
  timeline += n;
}

void Microphone::callback() {
  for (uint32_t i = 0; i < capture_case->blocks; i++)
    process(capture_case->block, i == 0 ? 0 : capture_case->device_gap);
}

/* Each frame says where on the timeline it was heard; each hole is a listed gap. */
void Microphone::read(uint32_t max) {
  int16_t out[4];
  uint64_t position = 0;
  uint32_t n = kh_capture_read(c, out, max, &position);
  kh_gap gap;
  while (kh_capture_gaps(c, &gap, 1)) {
    RL_ASSERT(gap.position == next && gap.length > 0);
    next += gap.length;
  }
  RL_ASSERT(position == next);
  for (uint32_t i = 0; i < n; i++) {
    zeros += out[i] == 0;
    RL_ASSERT(out[i] == (int16_t)(position + i + 1) || (muting && out[i] == 0));
  }
  next += n;
}

void Microphone::snapshot() {
  kh_capture_snapshot s;
  if (kh_capture_snapshot_get(c, &s) != KH_OK) {
    RL_ASSERT(last_block == 0);
    return;
  }
  RL_ASSERT(s.block >= last_block);
  RL_ASSERT(s.position == s.stored + s.dropped + s.missing);
  last_block = s.block;
}

void Microphone::finish() {
  kh_capture_snapshot s;
  kh_model_words = UINT32_MAX;
  for (int i = 0; i < 8; i++) read(4);
  process(1, 0); /* behind any gap that was still growing */
  for (int i = 0; i < 3; i++) read(4);
  RL_ASSERT(next == timeline);
  RL_ASSERT(kh_capture_snapshot_get(c, &s) == KH_OK);
  RL_ASSERT(s.position == timeline &&
            s.missing == capture_case->device_gap * (capture_case->blocks - 1));
  RL_ASSERT(s.muted == zeros);
  kh_model_words = capture_case->words;
}
