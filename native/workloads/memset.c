/* Set a page-aligned block, again and again, to another value each time. */
#include "sizes.h"

static unsigned char *buffer;

static void prepare(void) {
    buffer = page_aligned(parameter->size);
}

static uint64_t pass(void) {
    for (uint64_t i = 0; i < parameter->ops; i++) {
        memset(buffer, (int)(i & 255), parameter->size);
        compiler_barrier();
    }
    return buffer[0] + 256u * buffer[parameter->size - 1];
}

static const struct parameter sizes[] = {SIZES("memset")};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = sizes);
