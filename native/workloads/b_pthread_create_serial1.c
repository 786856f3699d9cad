// SPDX-License-Identifier: MIT OR Apache-2.0
/* Creates 2500 threads with a requested stack of 16 KiB and joins none. The memory figures show what the C
 * library keeps of an ended thread that is not joined. libc-bench: b_pthread_create_serial1. */
#include "empty_threads.h"

static uint64_t pass(void) {
    pthread_attr_t attributes;
    uint64_t created = 0;
    if (pthread_attr_init(&attributes) != 0)
        fail("pthread_attr_init failed");
    /* A C library that requires a larger stack returns EINVAL and keeps its default, as in libc-bench. */
    (void)pthread_attr_setstacksize(&attributes, 16384);
    for (; created < THREADS; created++) {
        pthread_t thread;
        start_thread(&thread, &attributes, return_at_once, NULL);
    }
    return created;
}

WORKLOAD(.name = "b_pthread_create_serial1", .mode = FRESH, .ops = 1, .pass = pass);
