/* Assertions that stop at the first failure and say where and what. */
#ifndef KH_CHECK_H
#define KH_CHECK_H

#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                               \
  do {                                                                 \
    if (!(condition)) {                                                \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                         \
    }                                                                  \
  } while (0)

#define CHECK_EQ(got, wanted)                                                           \
  do {                                                                                  \
    int64_t got_ = (int64_t)(got), wanted_ = (int64_t)(wanted);                         \
    if (got_ != wanted_) {                                                              \
      fprintf(stderr, "%s:%d: %s is %" PRId64 ", not %" PRId64 " (%s)\n", __FILE__,     \
              __LINE__, #got, got_, wanted_, #wanted);                                  \
      exit(1);                                                                          \
    }                                                                                   \
  } while (0)

#define RUN(test)                  \
  do {                             \
    test();                        \
    printf("ok  %s\n", #test);     \
  } while (0)

#endif
