// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by memchr, memcpy, memmove and memset: block sizes in bytes, and the number of calls in a pass. */
#ifndef SWAPSTONE_BLOCK_SIZES_H
#define SWAPSTONE_BLOCK_SIZES_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

#define BLOCK_SIZE(function, bytes, calls)                                                                   \
    { .argument = #bytes, .name = function "(" #bytes ")", .ops = calls, .size = bytes }

#define ALL_BLOCK_SIZES(function)                                                                            \
    BLOCK_SIZE(function, 8, 200000), BLOCK_SIZE(function, 64, 200000), BLOCK_SIZE(function, 512, 100000),    \
        BLOCK_SIZE(function, 4096, 20000), BLOCK_SIZE(function, 65536, 1000),                                \
        BLOCK_SIZE(function, 1048576, 50), {                                                                 \
        0                                                                                                    \
    }

/* Allocates zeroed memory at a page boundary, so that the alignment does not depend on the C library. */
static inline unsigned char *allocate_page_aligned(size_t size) {
    void *buffer;
    if (posix_memalign(&buffer, 4096, size) != 0)
        fail("posix_memalign of %zu bytes failed", size);
    memset(buffer, 0, size);
    return buffer;
}

#endif
