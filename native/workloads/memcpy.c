// SPDX-License-Identifier: MIT OR Apache-2.0
/* Copies a block between two page-aligned buffers with memcpy().
 * Not from a published benchmark.
 *
 * The parameter is the size of the block in bytes. block_sizes.h has the number of calls in a pass. */
#include "block_sizes.h"

static unsigned char *source, *destination;

static void prepare(void) {
    source = allocate_page_aligned(parameter->size);
    destination = allocate_page_aligned(parameter->size);
    source[0] = 1;
    source[parameter->size - 1] = 2;
}

static uint64_t pass(void) {
    for (uint64_t i = 0; i < parameter->ops; i++) {
        memcpy(destination, source, parameter->size);
        compiler_barrier();
    }
    return destination[0] + 256u * destination[parameter->size - 1];
}

static const struct parameter sizes[] = {ALL_BLOCK_SIZES("memcpy")};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = sizes);
