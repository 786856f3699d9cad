// SPDX-License-Identifier: MIT OR Apache-2.0
/* Creates a thread and joins it, 2500 times. libc-bench: b_pthread_createjoin_serial1. */
#include "empty_threads.h"

static uint64_t pass(void) {
    return create_and_join_each(NULL);
}

WORKLOAD(.name = "b_pthread_createjoin_serial1", .mode = FRESH, .ops = 1, .pass = pass);
