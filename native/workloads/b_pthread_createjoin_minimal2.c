// SPDX-License-Identifier: MIT OR Apache-2.0
/* Creates 50 threads, then joins the 50, 50 times, with a requested stack of one page and without a guard
 * area. libc-bench: b_pthread_createjoin_minimal2. */
#include "empty_threads.h"

static uint64_t pass(void) {
    pthread_attr_t attributes;
    init_minimal_attributes(&attributes);
    return create_and_join_groups(&attributes);
}

WORKLOAD(.name = "b_pthread_createjoin_minimal2", .mode = FRESH, .ops = 1, .pass = pass);
