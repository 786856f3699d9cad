/* Take 10000 blocks, then give back all but every 150th: what can the allocator return of a heap full of
 * holes? */
#include "blocks.h"

static uint64_t pass(void) {
    void *blocks[ZEROED_BLOCKS];
    uint64_t bytes = take_zeroed(blocks);
    for (size_t i = 0; i < ZEROED_BLOCKS; i++)
        if (i % 150 != 0)
            free(blocks[i]);
    return bytes;
}

WORKLOAD(.name = "b_malloc_sparse", .mode = FRESH, .ops = 1, .pass = pass);
