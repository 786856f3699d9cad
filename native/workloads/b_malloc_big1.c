// SPDX-License-Identifier: MIT OR Apache-2.0
/* Allocates 2000 blocks of 16, 32, 48, 64, 16... KiB, does not write to them, and frees them in order.
 * libc-bench: b_malloc_big1. */
#include "malloc_blocks.h"

static uint64_t pass(void) {
    void *blocks[BIG_BLOCKS];
    uint64_t bytes = allocate_four_sizes(blocks, BIG_BLOCKS, BIG_UNIT);
    free_in_order(blocks, BIG_BLOCKS);
    return bytes;
}

WORKLOAD(.name = "b_malloc_big1", .mode = FRESH, .ops = 1, .pass = pass);
