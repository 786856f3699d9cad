/* What the block memory workloads share: their sizes, and how often each is repeated in a pass. */
#ifndef SWAPSTONE_SIZES_H
#define SWAPSTONE_SIZES_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define ONE_SIZE(function, bytes, times)                                                                     \
    { .argument = #bytes, .name = function "(" #bytes ")", .ops = times, .size = bytes }

#define SIZES(function)                                                                                      \
    ONE_SIZE(function, 8, 200000), ONE_SIZE(function, 64, 200000), ONE_SIZE(function, 512, 100000),          \
        ONE_SIZE(function, 4096, 20000), ONE_SIZE(function, 65536, 1000), ONE_SIZE(function, 1048576, 50), { \
        0                                                                                                    \
    }

/* A buffer of zeros that begins at a page, so that alignment is the same in every C library. */
static inline unsigned char *page_aligned(size_t size) {
    void *buffer;
    if (posix_memalign(&buffer, 4096, size) != 0)
        fail("posix_memalign of %zu bytes failed", size);
    memset(buffer, 0, size);
    return buffer;
}

#endif
