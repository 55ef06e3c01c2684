#include "lane.h"

extern const PlayoutCase *playout_case;

/* Unlike any other frame's, also at a quarter of the gain. */
static int16_t value_of(uint64_t frame) { return (int16_t)(1000 * (frame + 1)); }

/* The last digit of a sample is the notice that was mixed in. */
static int16_t speech(int16_t sample) { return (int16_t)(sample - sample % 10); }

Lane::Lane() {
  kh_playout_config config = {};
  int32_t result;
  config.rate = 48000;
  config.channels = 1;
  config.capacity = playout_case->capacity;
  config.notice_capacity = 4;
  config.fade = playout_case->fade;
  config.duck_gain = 16384;
  config.wake_fd = -1;
  config.restart_frames = 480;
  q = kh_playout_open(&shared, (int16_t *)ring, (int16_t *)notices, &config, &result);
  RL_ASSERT(q != NULL);
}

Lane::~Lane() { kh_playout_close(q); }

void Lane::write(uint32_t n, int starts) {
  int16_t frames[LANE_FRAMES];
  for (uint32_t i = 0; i < n; i++) frames[i] = value_of(kh_playout_written(q) + i);
  int64_t taken = kh_playout_write(q, kh_playout_generation(q), frames, n, starts);
  RL_ASSERT(taken >= 0 && taken <= (int64_t)n);
}

void Lane::check_answer(const kh_answer &a) {
  uint64_t before = answer_count ? answers[answer_count - 1].request : 0;
  RL_ASSERT(a.request > before && a.request <= kh_playout_generation(q));
  RL_ASSERT(a.cursor <= a.fence && a.cursor + a.discarded == a.fence);
  discarded += a.discarded;
  RL_ASSERT(a.handed + discarded == a.fence);
}

void Lane::drain() {
  kh_answer a;
  while (kh_playout_answer(q, &a)) {
    check_answer(a);
    answers[answer_count++] = a;
  }
}

/* The silence of a log is not told apart here: the C tests do that. */
void Lane::check_segment(const kh_segment &s) {
  RL_ASSERT(s.device_frame >= logged && s.length > 0);
  logged = s.device_frame + s.length;
  if (s.kind != KH_REAL) return;
  logged_real += s.length;
  for (uint64_t i = 0; i < s.length - s.faded; i++)
    RL_ASSERT(!exact || speech(device[s.device_frame + i]) == value_of(s.queue_frame + i));
}

void Lane::log() {
  kh_segment s[2];
  uint32_t n = kh_playout_segments(q, s, 2);
  for (uint32_t i = 0; i < n; i++) check_segment(s[i]);
}

void Lane::snapshot() {
  kh_snapshot s;
  if (kh_playout_snapshot(q, &s) != KH_OK) {
    RL_ASSERT(last_block == 0); /* two slots: one is always complete */
    return;
  }
  RL_ASSERT(s.block >= last_block);
  RL_ASSERT(s.read == s.handed + s.discarded);
  RL_ASSERT(s.read <= s.write && s.write <= kh_playout_written(q));
  last_block = s.block;
}

void Lane::notice(uint32_t n, int16_t value) {
  int16_t frames[4] = {value, value, value, value};
  noted += kh_notice_write(q, frames, n);
  RL_ASSERT(kh_notice_written(q) == noted);
}

void Lane::volume(uint32_t gain) {
  exact = false;
  halved = true;
  set_volume = gain;
  kh_playout_volume(q, gain);
}

void Lane::render(uint32_t n) {
  int16_t out[LANE_FRAMES];
  uint64_t at = device_frames;
  kh_playout_render(q, out, n, (int64_t)at * 20833, 0, 0);
  for (uint32_t i = 0; i < n; i++) {
    device[device_frames++] = out[i];
    if (speech(out[i]) != 0) heard[heard_frames++] = speech(out[i]);
    if (playout_case->fade == 0 && out[i] % 10 != 0) {
      RL_ASSERT(out[i] % 10 >= last_notice);
      last_notice = out[i] % 10;
      noticed++;
    }
  }
}

void Lane::callback() {
  for (uint32_t i = 0; i < playout_case->blocks; i++) render(playout_case->block);
}

void Lane::hear(uint64_t frame, uint64_t faded_from) {
  int16_t full = value_of(frame);
  RL_ASSERT(next_heard < heard_frames);
  int16_t got = heard[next_heard++];
  if (halved) RL_ASSERT(got == full || got == full / 2);
  if (!exact) return;
  if (frame < faded_from) {
    RL_ASSERT(got == full);
  } else {
    int32_t gain = kh_fade_gain((uint32_t)(frame - faded_from), playout_case->fade);
    int32_t faded = (full * gain) >> 15;
    RL_ASSERT(got == speech((int16_t)faded));
  }
}

/* In order, once each, up to each cut, and nothing between a cut and its fence. */
void Lane::check_heard(uint64_t read) {
  uint64_t frame = 0;
  for (uint32_t i = 0; i < answer_count; i++) {
    const kh_answer &a = answers[i];
    RL_ASSERT(frame <= a.cursor);
    for (; frame < a.cursor; frame++) hear(frame, a.cursor - a.faded);
    frame = a.fence;
  }
  for (; frame < read; frame++) hear(frame, UINT64_MAX);
  RL_ASSERT(next_heard == heard_frames);
}

void Lane::finish() {
  for (int i = 0; i < 8; i++) {
    drain();
    render(4);
  }
  drain();
  kh_snapshot s;
  kh_model_words = UINT32_MAX;
  render(1);
  RL_ASSERT(kh_playout_snapshot(q, &s) == KH_OK);
  kh_model_words = playout_case->words;
  RL_ASSERT(s.answered == kh_playout_generation(q));
  RL_ASSERT(answer_count == 0 ? s.answered == 0
                              : answers[answer_count - 1].request == s.answered);
  RL_ASSERT(s.read == s.handed + s.discarded && s.discarded == discarded);
  RL_ASSERT(s.handed == heard_frames && s.fading == 0);
  RL_ASSERT(playout_case->fade != 0 || s.notice_handed == noticed);
  RL_ASSERT(s.notice_handed + s.notice_flushed == noted && s.volume == set_volume);
  RL_ASSERT(s.mode == KH_PAUSE || s.read == kh_playout_written(q));
  check_heard(s.read);
  for (int i = 0; i < 4; i++) log();
  if (s.segments_lost == 0)
    RL_ASSERT(logged_real + (s.open.kind == KH_REAL ? s.open.length : 0) == s.handed);
}
