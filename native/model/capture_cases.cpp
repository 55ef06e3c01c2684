#include "microphone.h"

static void reads(Microphone &m) {
  for (int i = 0; i < 4; i++) m.read(3);
}

static void mute(Microphone &m) {
  m.muting = true;
  kh_capture_mute(m.c, 1);
  m.read(4);
  kh_capture_mute(m.c, 0);
  m.read(4);
}

static void snapshots(Microphone &m) {
  m.snapshot();
  m.read(2);
  m.snapshot();
  m.snapshot();
}

/* name, control, blocks, block, device_gap, words, executions */
const CaptureCase capture_cases[] = {
    {"capture_wrap", reads, 4, 2, 0, 0, 20000},
    {"capture_full", reads, 6, 3, 0, 0, 30000},
    {"capture_device_gaps", reads, 6, 1, 2, 0, 20000},
    {"capture_mute", mute, 3, 2, 0, 0, 10000},
    {"capture_snapshots", snapshots, 4, 1, 2, 6, 20000},
};
const unsigned capture_case_count = sizeof capture_cases / sizeof *capture_cases;
