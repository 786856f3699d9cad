// SPDX-License-Identifier: MIT OR Apache-2.0
/* Creates a thread and joins it, 2500 times, with a requested stack of one page and without a guard area.
 * libc-bench: b_pthread_createjoin_minimal1. */
#include "empty_threads.h"

static uint64_t pass(void) {
    pthread_attr_t attributes;
    init_minimal_attributes(&attributes);
    return create_and_join_each(&attributes);
}

WORKLOAD(.name = "b_pthread_createjoin_minimal1", .mode = FRESH, .ops = 1, .pass = pass);
