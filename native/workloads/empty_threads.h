/* What the thread creation workloads share: threads that do nothing, made in one of two patterns. */
#ifndef SWAPSTONE_EMPTY_THREADS_H
#define SWAPSTONE_EMPTY_THREADS_H

#include "threads.h"

#include <unistd.h>

enum { ONE_BY_ONE = 2500, GROUPS = 50, GROUP_SIZE = 50 };

static inline void *do_nothing(void *argument) {
    (void)argument;
    return NULL;
}

static inline uint64_t create_and_join_each(const pthread_attr_t *attributes) {
    uint64_t made = 0;
    for (; made < ONE_BY_ONE; made++) {
        pthread_t thread;
        start_thread(&thread, attributes, do_nothing, NULL);
        join_thread(thread);
    }
    return made;
}

static inline uint64_t create_and_join_groups(const pthread_attr_t *attributes) {
    uint64_t made = 0;
    for (int group = 0; group < GROUPS; group++) {
        pthread_t threads[GROUP_SIZE];
        for (int i = 0; i < GROUP_SIZE; i++, made++)
            start_thread(&threads[i], attributes, do_nothing, NULL);
        for (int i = 0; i < GROUP_SIZE; i++)
            join_thread(threads[i]);
    }
    return made;
}

/* Ask for a stack of one page without a guard. A C library that refuses so small a stack keeps its default;
 * that is part of the work. */
static inline void ask_for_little(pthread_attr_t *attributes) {
    if (pthread_attr_init(attributes) != 0)
        fail("pthread_attr_init failed");
    (void)pthread_attr_setstacksize(attributes, (size_t)sysconf(_SC_PAGESIZE));
    if (pthread_attr_setguardsize(attributes, 0) != 0)
        fail("pthread_attr_setguardsize failed");
}

#endif
