/* kelter.h for C files: it has no guard of its own, because cffi reads it too. */
#ifndef KH_CONTRACT_H
#define KH_CONTRACT_H
#include <stdint.h>

#include "kelter.h"
#endif
