/* Take 10000 blocks of 16 to 64 bytes; give them back scattered, all but the first. */
#include "blocks.h"

static uint64_t pass(void) {
    void *blocks[TINY_BLOCKS];
    uint64_t bytes = take_four_sizes(blocks, TINY_BLOCKS, TINY_UNIT);
    give_back_scattered(blocks, TINY_BLOCKS);
    return bytes;
}

WORKLOAD(.name = "b_malloc_tiny2", .mode = FRESH, .ops = 1, .pass = pass);
