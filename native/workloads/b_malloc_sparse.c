// SPDX-License-Identifier: MIT OR Apache-2.0
/* Allocates 10000 blocks of 4000 bytes, fills them with zeros, and frees all but every 150th. The memory
 * figures show how much of the fragmented heap the allocator returns to the kernel.
 * libc-bench: b_malloc_sparse. */
#include "malloc_blocks.h"

static uint64_t pass(void) {
    void *blocks[ZEROED_BLOCKS];
    uint64_t bytes = allocate_zeroed(blocks);
    for (size_t i = 0; i < ZEROED_BLOCKS; i++)
        if (i % 150 != 0)
            free(blocks[i]);
    return bytes;
}

WORKLOAD(.name = "b_malloc_sparse", .mode = FRESH, .ops = 1, .pass = pass);
