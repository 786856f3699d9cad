// SPDX-License-Identifier: MIT OR Apache-2.0
/* Two threads allocate and free at random, each in its own table of 300 slots: the thread that allocates a
 * block also frees it. libc-bench: b_malloc_thread_local. */
#include "malloc_slots.h"

static uint64_t pass(void) {
    struct slot first[SLOTS], second[SLOTS];
    init_slots(first);
    init_slots(second);
    return run_two_threads(first, second);
}

WORKLOAD(.name = "b_malloc_thread_local", .mode = FRESH, .ops = 1, .pass = pass);
