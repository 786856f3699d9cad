// SPDX-License-Identifier: MIT OR Apache-2.0
/* Fills a page-aligned block with memset(), each time with another value.
 * Not from a published benchmark.
 *
 * The parameter is the size of the block in bytes. block_sizes.h has the number of calls in a pass. */
#include "block_sizes.h"

static unsigned char *buffer;

static void prepare(void) {
    buffer = allocate_page_aligned(parameter->size);
}

static uint64_t pass(void) {
    for (uint64_t i = 0; i < parameter->ops; i++) {
        memset(buffer, (int)(i & 255), parameter->size);
        compiler_barrier();
    }
    return buffer[0] + 256u * buffer[parameter->size - 1];
}

static const struct parameter sizes[] = {ALL_BLOCK_SIZES("memset")};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = sizes);
