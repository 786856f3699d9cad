// SPDX-License-Identifier: MIT OR Apache-2.0
/* Finds the last byte of a page-aligned block with memchr().
 * Not from a published benchmark.
 *
 * The parameter is the size of the block in bytes. block_sizes.h has the number of calls in a pass. */
#include "block_sizes.h"

static unsigned char *buffer;

static void prepare(void) {
    buffer = allocate_page_aligned(parameter->size);
    buffer[parameter->size - 1] = 1;
}

static uint64_t pass(void) {
    uint64_t offsets = 0;
    for (uint64_t i = 0; i < parameter->ops; i++) {
        offsets += (uint64_t)((unsigned char *)memchr(buffer, 1, parameter->size) - buffer);
        compiler_barrier();
    }
    return offsets;
}

static const struct parameter sizes[] = {ALL_BLOCK_SIZES("memchr")};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = sizes);
