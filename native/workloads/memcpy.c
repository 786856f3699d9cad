/* Copy a block between two page-aligned buffers, again and again: both stay in the cache as far as it
 * reaches. */
#include "sizes.h"

static unsigned char *source, *target;

static void prepare(void) {
    source = page_aligned(parameter->size);
    target = page_aligned(parameter->size);
    source[0] = 1;
    source[parameter->size - 1] = 2;
}

static uint64_t pass(void) {
    for (uint64_t i = 0; i < parameter->ops; i++) {
        memcpy(target, source, parameter->size);
        compiler_barrier();
    }
    return target[0] + 256u * target[parameter->size - 1];
}

static const struct parameter sizes[] = {SIZES("memcpy")};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = sizes);
