/* What the long-buffer string workloads share. */
#ifndef SWAPSTONE_BUFFER_H
#define SWAPSTONE_BUFFER_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_SIZE = 500000, BUFFER_ROUNDS = 100 };

static inline char *take_buffer(void) {
    char *buffer = malloc(BUFFER_SIZE);
    if (!buffer)
        fail("malloc failed");
    return buffer;
}

#endif
