// SPDX-License-Identifier: MIT OR Apache-2.0
/* Two threads allocate and free at random in one shared table of 300 slots: each frees blocks that the other
 * allocated. libc-bench: b_malloc_thread_stress. */
#include "malloc_slots.h"

static uint64_t pass(void) {
    struct slot slots[SLOTS];
    init_slots(slots);
    return run_two_threads(slots, slots);
}

WORKLOAD(.name = "b_malloc_thread_stress", .mode = FRESH, .ops = 1, .pass = pass);
