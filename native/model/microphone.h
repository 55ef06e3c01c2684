/* A capture of a few frames under the model checker. */
#ifndef KH_MODEL_MICROPHONE_H
#define KH_MODEL_MICROPHONE_H

#include "capture.h"

struct Microphone;

struct CaptureCase {
  const char *name;
  void (*control)(Microphone &);
  uint32_t blocks, block;
  uint32_t device_gap; /* frames that the device drops between two blocks */
  uint32_t words;
  unsigned executions;
};

extern const CaptureCase capture_cases[];
extern const unsigned capture_case_count;

struct Microphone {
  Microphone();
  ~Microphone();

  void read(uint32_t max); /* control */
  void snapshot();         /* control */
  void callback();
  void finish();

  kh_capture *c;
  bool muting = false;

 private:
  void process(uint32_t n, uint32_t lost);

  kh_cell ring[4];
  uint64_t timeline = 0;   /* callback: frames the microphone heard */
  uint64_t next = 0;       /* control: capture frame accounted for so far */
  uint64_t last_block = 0, zeros = 0;
};

#endif
