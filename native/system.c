/* The few things asked of the operating system. */
#include <errno.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <stdint.h>

#include "contract.h"

void kh_wake(int fd);

int64_t kh_now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int32_t kh_lock_memory(const void *start, uint64_t size) {
  return mlock(start, size) == 0 ? 0 : errno;
}

void kh_wake(int fd) {
  uint64_t one = 1;
  ssize_t written;
  if (fd < 0) return;
  /* EAGAIN means that the counter is full: the other side is being woken. */
  written = write(fd, &one, sizeof one);
  (void)written;
}
