// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the b_malloc_* workloads without threads: allocating many blocks, and freeing them in an order.
 */
#ifndef SWAPSTONE_MALLOC_BLOCKS_H
#define SWAPSTONE_MALLOC_BLOCKS_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

/* Counts, and sizes in bytes, as in libc-bench. */
enum {
    ZEROED_BLOCKS = 10000,
    ZEROED_SIZE = 4000,
    TINY_BLOCKS = 10000,
    TINY_UNIT = 16,
    BIG_BLOCKS = 2000,
    BIG_UNIT = 16384
};

static inline void *allocate_block(size_t size) {
    void *block = malloc(size);
    if (!block)
        fail("malloc of %zu bytes failed", size);
    return block;
}

/* Allocates ZEROED_BLOCKS blocks of ZEROED_SIZE bytes and fills them with zeros. Returns the sum of sizes. */
static inline uint64_t allocate_zeroed(void **blocks) {
    for (size_t i = 0; i < ZEROED_BLOCKS; i++) {
        blocks[i] = allocate_block(ZEROED_SIZE);
        memset(blocks[i], 0, ZEROED_SIZE);
    }
    return (uint64_t)ZEROED_BLOCKS * ZEROED_SIZE;
}

/* Allocates blocks of 1, 2, 3, 4, 1, 2... times `unit` bytes and does not write to them. Returns the sum of
 * sizes. */
static inline uint64_t allocate_four_sizes(void **blocks, size_t count, size_t unit) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = (i % 4 + 1) * unit;
        blocks[i] = allocate_block(size);
        bytes += size;
    }
    return bytes;
}

/* Frees the blocks in the order of their allocation. */
static inline void free_in_order(void **blocks, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

/* Frees the blocks 1, 58, 115... in steps of 57 modulo `count`, and stops before block 0. That frees 2807 of
 * 10000 blocks, or 807 of 2000. The others stay allocated until the process ends, as in libc-bench. */
static inline void free_scattered(void **blocks, size_t count) {
    for (size_t i = 1; i != 0; i = (i + 57) % count)
        free(blocks[i]);
}

#endif
