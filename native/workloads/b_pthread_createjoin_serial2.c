// SPDX-License-Identifier: MIT OR Apache-2.0
/* Creates 50 threads, then joins the 50, 50 times. libc-bench: b_pthread_createjoin_serial2. */
#include "empty_threads.h"

static uint64_t pass(void) {
    return create_and_join_groups(NULL);
}

WORKLOAD(.name = "b_pthread_createjoin_serial2", .mode = FRESH, .ops = 1, .pass = pass);
