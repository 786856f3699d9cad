// SPDX-License-Identifier: MIT OR Apache-2.0
/* Follows a chain of pointers, 100000 loads, each of which needs the one before it. lmbench: lat_mem_rd with
 * a stride of 128 bytes.
 *
 * The parameter is the size of the array. `size` is that in bytes. Each pointer points 128 bytes up, the
 * highest to the lowest. The sizes are those that the summary takes for its columns L1 $, L2 $ and Main mem.
 */
#include "harness.h"

#include <sys/mman.h>

enum { LOADS = 100000, STRIDE = 128, LOADS_IN_A_ROUND = 10 };

static char *array;

static void prepare(void) {
    array = mmap(NULL, parameter->size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(array != MAP_FAILED, "mmap");
    for (size_t at = 0; at < parameter->size; at += STRIDE)
        *(char **)(array + at) = array + (at + STRIDE < parameter->size ? at + STRIDE : 0);
}

static uint64_t pass(void) {
    char *at = array;
    for (int i = 0; i < LOADS / LOADS_IN_A_ROUND; i++)
        for (int load = 0; load < LOADS_IN_A_ROUND; load++) {
            at = *(char **)at;
            __asm__ volatile("" : "+r"(at));
        }
    return (uint64_t)(at - array);
}

#define SIZE(text, bytes)                                                                                    \
    { .argument = text, .name = "lat_mem_rd(" text ")", .ops = LOADS, .size = bytes }

static const struct parameter sizes[] = {
    SIZE("1k", 1 << 10), SIZE("128k", 128 << 10), SIZE("8m", 8 << 20), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = sizes);
