// SPDX-License-Identifier: MIT OR Apache-2.0
/* Moves a block by half its size inside one buffer with memmove(), up and down in turn: source and
 * destination overlap. Not from a published benchmark.
 *
 * The parameter is the size of the block in bytes. block_sizes.h has the number of calls in a pass. */
#include "block_sizes.h"

static unsigned char *buffer;

static void prepare(void) {
    buffer = allocate_page_aligned(parameter->size + parameter->size / 2);
    buffer[0] = 1;
    buffer[parameter->size - 1] = 2;
}

static uint64_t pass(void) {
    size_t half = parameter->size / 2;
    for (uint64_t i = 0; i < parameter->ops; i += 2) {
        memmove(buffer + half, buffer, parameter->size);
        compiler_barrier();
        memmove(buffer, buffer + half, parameter->size);
        compiler_barrier();
    }
    return buffer[0] + 256u * buffer[parameter->size - 1];
}

static const struct parameter sizes[] = {ALL_BLOCK_SIZES("memmove")};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = sizes);
