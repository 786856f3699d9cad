// SPDX-License-Identifier: MIT OR Apache-2.0
/* Allocates 10000 blocks of 4000 bytes, fills them with zeros, and frees all but the last. One live block
 * remains at the end of the heap above a large free area. libc-bench: b_malloc_bubble. */
#include "malloc_blocks.h"

static uint64_t pass(void) {
    void *blocks[ZEROED_BLOCKS];
    uint64_t bytes = allocate_zeroed(blocks);
    free_in_order(blocks, ZEROED_BLOCKS - 1);
    return bytes;
}

WORKLOAD(.name = "b_malloc_bubble", .mode = FRESH, .ops = 1, .pass = pass);
