/* Find the last byte of a page-aligned block, again and again. */
#include "sizes.h"

static unsigned char *buffer;

static void prepare(void) {
    buffer = page_aligned(parameter->size);
    buffer[parameter->size - 1] = 1;
}

static uint64_t pass(void) {
    uint64_t found = 0;
    for (uint64_t i = 0; i < parameter->ops; i++) {
        found += (uint64_t)((unsigned char *)memchr(buffer, 1, parameter->size) - buffer);
        compiler_barrier();
    }
    return found;
}

static const struct parameter sizes[] = {SIZES("memchr")};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = sizes);
