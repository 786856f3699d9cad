/* Take 10000 blocks, then give back all but the last: a bubble under the top of the heap. */
#include "blocks.h"

static uint64_t pass(void) {
    void *blocks[ZEROED_BLOCKS];
    uint64_t bytes = take_zeroed(blocks);
    give_back_in_order(blocks, ZEROED_BLOCKS - 1);
    return bytes;
}

WORKLOAD(.name = "b_malloc_bubble", .mode = FRESH, .ops = 1, .pass = pass);
