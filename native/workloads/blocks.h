/* What the malloc workloads share: taking many blocks and giving them back in some order. */
#ifndef SWAPSTONE_BLOCKS_H
#define SWAPSTONE_BLOCKS_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum {
    ZEROED_BLOCKS = 10000,
    ZEROED_SIZE = 4000,
    TINY_BLOCKS = 10000,
    TINY_UNIT = 16,
    BIG_BLOCKS = 2000,
    BIG_UNIT = 16384
};

static inline void *take_block(size_t size) {
    void *block = malloc(size);
    if (!block)
        fail("malloc of %zu bytes failed", size);
    return block;
}

/* Take ZEROED_BLOCKS blocks of one size and write zeros to all of them. Returns the bytes taken. */
static inline uint64_t take_zeroed(void **blocks) {
    for (size_t i = 0; i < ZEROED_BLOCKS; i++) {
        blocks[i] = take_block(ZEROED_SIZE);
        memset(blocks[i], 0, ZEROED_SIZE);
    }
    return (uint64_t)ZEROED_BLOCKS * ZEROED_SIZE;
}

/* Take blocks of 1, 2, 3, 4, 1, 2... units, without a write to them. Returns the bytes taken. */
static inline uint64_t take_four_sizes(void **blocks, size_t count, size_t unit) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < count; i++) {
        size_t size = (i % 4 + 1) * unit;
        blocks[i] = take_block(size);
        bytes += size;
    }
    return bytes;
}

/* Give them back in the order in which they were taken. */
static inline void give_back_in_order(void **blocks, size_t count) {
    for (size_t i = 0; i < count; i++)
        free(blocks[i]);
}

/* Give back every 57th, around and around from the second on, until the first would be next: that one is
 * kept. */
static inline void give_back_scattered(void **blocks, size_t count) {
    for (size_t i = 1; i != 0; i = (i + 57) % count)
        free(blocks[i]);
}

#endif
