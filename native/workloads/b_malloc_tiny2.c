// SPDX-License-Identifier: MIT OR Apache-2.0
/* Allocates 10000 blocks of 16, 32, 48, 64, 16... bytes, does not write to them, and frees 2807 of them in a
 * scattered order. libc-bench: b_malloc_tiny2. */
#include "malloc_blocks.h"

static uint64_t pass(void) {
    void *blocks[TINY_BLOCKS];
    uint64_t bytes = allocate_four_sizes(blocks, TINY_BLOCKS, TINY_UNIT);
    free_scattered(blocks, TINY_BLOCKS);
    return bytes;
}

WORKLOAD(.name = "b_malloc_tiny2", .mode = FRESH, .ops = 1, .pass = pass);
