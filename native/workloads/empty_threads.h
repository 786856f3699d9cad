// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the b_pthread_create* workloads: threads that return at once, created in one of two patterns. */
#ifndef SWAPSTONE_EMPTY_THREADS_H
#define SWAPSTONE_EMPTY_THREADS_H

#include "threads.h"

#include <unistd.h>

enum { THREADS = 2500, GROUPS = 50, GROUP_SIZE = 50 };

static inline void *return_at_once(void *argument) {
    (void)argument;
    return NULL;
}

/* Returns the number of threads. `attributes` may be NULL. */
static inline uint64_t create_and_join_each(const pthread_attr_t *attributes) {
    uint64_t created = 0;
    for (; created < THREADS; created++) {
        pthread_t thread;
        start_thread(&thread, attributes, return_at_once, NULL);
        join_thread(thread);
    }
    return created;
}

/* Returns the number of threads. `attributes` may be NULL. */
static inline uint64_t create_and_join_groups(const pthread_attr_t *attributes) {
    uint64_t created = 0;
    for (int group = 0; group < GROUPS; group++) {
        pthread_t threads[GROUP_SIZE];
        for (int i = 0; i < GROUP_SIZE; i++, created++)
            start_thread(&threads[i], attributes, return_at_once, NULL);
        for (int i = 0; i < GROUP_SIZE; i++)
            join_thread(threads[i]);
    }
    return created;
}

/* Requests a stack of one page and no guard area. A C library that requires a larger stack returns EINVAL and
 * keeps its default, as in libc-bench. */
static inline void init_minimal_attributes(pthread_attr_t *attributes) {
    if (pthread_attr_init(attributes) != 0)
        fail("pthread_attr_init failed");
    (void)pthread_attr_setstacksize(attributes, (size_t)sysconf(_SC_PAGESIZE));
    if (pthread_attr_setguardsize(attributes, 0) != 0)
        fail("pthread_attr_setguardsize failed");
}

#endif
