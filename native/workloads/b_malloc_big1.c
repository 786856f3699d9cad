/* Take 2000 blocks of 16 to 64 KiB, never written to; give them back in order. */
#include "blocks.h"

static uint64_t pass(void) {
    void *blocks[BIG_BLOCKS];
    uint64_t bytes = take_four_sizes(blocks, BIG_BLOCKS, BIG_UNIT);
    give_back_in_order(blocks, BIG_BLOCKS);
    return bytes;
}

WORKLOAD(.name = "b_malloc_big1", .mode = FRESH, .ops = 1, .pass = pass);
