/* The one file that knows PortAudio: from its callback to ours. It calls no
 * PortAudio function, so it links nothing.
 *
 * Times. PortAudio's are seconds in a double, on a clock that is CLOCK_MONOTONIC
 * under ALSA and something else elsewhere; `clock_offset_ns` makes them ours. They
 * are not always believable: 0 through some plugins, NaN, in the past after an
 * xrun, or absurdly far away. Then the nominal latency stands in, flagged.
 */
#define _GNU_SOURCE
#include <math.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <portaudio.h>

#include "contract.h"

enum { FAR_NS = 2000000000 }; /* no wired device is 2 s away */

struct kh_port {
  kh_playout *playout;
  kh_capture *capture;
  kh_capture *reference; /* of a playout; set before the first callback */
  int64_t nominal_ns;
  int64_t clock_offset_ns;
  _Atomic uint64_t callbacks;      /* writer: callback */
  _Atomic uint64_t finished;       /* writer: PortAudio's thread, after the last callback */
  _Atomic uint64_t thread_id;      /* writer: callback */
  _Atomic int64_t sched_policy;    /* writer: callback */
  _Atomic int64_t sched_priority;  /* writer: callback */
  _Atomic uint64_t last_flags;     /* writer: callback */
  _Atomic uint64_t flagged;        /* writer: callback */
};

static kh_port *port_new(kh_playout *q, kh_capture *c, int64_t nominal_ns, int64_t offset_ns) {
  kh_port *p = calloc(1, sizeof *p);
  if (p == NULL) return NULL;
  p->playout = q;
  p->capture = c;
  p->nominal_ns = nominal_ns;
  p->clock_offset_ns = offset_ns;
  atomic_init(&p->sched_policy, -1);
  return p;
}

kh_port *kh_port_playout(kh_playout *q, int64_t nominal_ns, int64_t clock_offset_ns) {
  return port_new(q, NULL, nominal_ns, clock_offset_ns);
}

kh_port *kh_port_capture(kh_capture *c, int64_t nominal_ns, int64_t clock_offset_ns) {
  return port_new(NULL, c, nominal_ns, clock_offset_ns);
}

void kh_port_reference(kh_port *port, kh_capture *reference) { port->reference = reference; }

void kh_port_close(kh_port *port) { free(port); }

void kh_port_timing(kh_port *port, int64_t nominal_ns, int64_t clock_offset_ns) {
  port->nominal_ns = nominal_ns;
  port->clock_offset_ns = clock_offset_ns;
}

void kh_port_status_get(const kh_port *port, kh_port_status *out) {
  out->callbacks = atomic_load_explicit(&port->callbacks, memory_order_relaxed);
  out->finished = atomic_load_explicit(&port->finished, memory_order_relaxed);
  out->thread_id = atomic_load_explicit(&port->thread_id, memory_order_relaxed);
  out->sched_policy = atomic_load_explicit(&port->sched_policy, memory_order_relaxed);
  out->sched_priority = atomic_load_explicit(&port->sched_priority, memory_order_relaxed);
  out->last_flags = atomic_load_explicit(&port->last_flags, memory_order_relaxed);
  out->flagged = atomic_load_explicit(&port->flagged, memory_order_relaxed);
}

static void first_callback(kh_port *p) {
  struct sched_param param = {0};
  int policy = -1;
  pthread_getschedparam(pthread_self(), &policy, &param);
  atomic_store_explicit(&p->sched_policy, policy, memory_order_relaxed);
  atomic_store_explicit(&p->sched_priority, param.sched_priority, memory_order_relaxed);
  atomic_store_explicit(&p->thread_id, (uint64_t)syscall(SYS_gettid), memory_order_relaxed);
}

static void count(kh_port *p, PaStreamCallbackFlags status) {
  uint64_t callbacks = atomic_load_explicit(&p->callbacks, memory_order_relaxed);
  if (callbacks == 0) first_callback(p);
  atomic_store_explicit(&p->callbacks, callbacks + 1, memory_order_relaxed);
  if (status != 0) {
    atomic_store_explicit(&p->last_flags, status, memory_order_relaxed);
    atomic_store_explicit(&p->flagged,
                          atomic_load_explicit(&p->flagged, memory_order_relaxed) + 1,
                          memory_order_relaxed);
  }
}

/* A device time in ns, or `nominal` and the flag when it can't be true. `ahead` is
 * 1 for a time that must not be in the past (output), -1 for one that must not be
 * in the future (input). */
static int64_t device_ns(const kh_port *p, double seconds, int64_t now, int ahead,
                         uint32_t *flags) {
  if (isfinite(seconds) && seconds > 0 && seconds < 9e9) {
    int64_t ns = (int64_t)(seconds * 1e9) + p->clock_offset_ns;
    int64_t distance = (ns - now) * ahead;
    /* A thread that was preempted sees a time that is over by a little. */
    if (distance > -FAR_NS / 10 && distance < FAR_NS) return ns;
  }
  *flags |= KH_NOMINAL_TIME;
  return now + ahead * p->nominal_ns;
}

static int on_block(const void *input, void *output, unsigned long frames,
                    const PaStreamCallbackTimeInfo *time, PaStreamCallbackFlags status,
                    void *user) {
  kh_port *p = user;
  int64_t now = kh_now_ns();
  uint32_t flags = 0;
  count(p, status);
  if (p->playout != NULL) {
    int64_t dac = device_ns(p, time->outputBufferDacTime, now, 1, &flags);
    if (status & paOutputUnderflow) flags |= KH_UNDERFLOW;
    kh_playout_render(p->playout, output, (uint32_t)frames, dac, now, flags);
    if (p->reference != NULL)
      kh_capture_process(p->reference, output, (uint32_t)frames, dac, now, flags);
  } else {
    int64_t adc = device_ns(p, time->inputBufferAdcTime, now, -1, &flags);
    if (status & paInputOverflow) flags |= KH_OVERFLOW;
    kh_capture_process(p->capture, input, (uint32_t)frames, adc, now, flags);
  }
  return paContinue;
}

static void on_finished(void *user) {
  kh_port *p = user;
  atomic_store_explicit(&p->finished, 1, memory_order_relaxed);
}

/* Typed first, so that a changed PortAudio signature does not compile. */
void *kh_port_callback(void) {
  PaStreamCallback *typed = on_block;
  void *untyped;
  _Static_assert(sizeof typed == sizeof untyped, "function pointers fit void pointers");
  __builtin_memcpy(&untyped, &typed, sizeof untyped);
  return untyped;
}

void *kh_port_finished(void) {
  PaStreamFinishedCallback *typed = on_finished;
  void *untyped;
  __builtin_memcpy(&untyped, &typed, sizeof untyped);
  return untyped;
}
