// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the threaded workloads: pthread_create() and pthread_join() that call fail() on an error. */
#ifndef SWAPSTONE_THREADS_H
#define SWAPSTONE_THREADS_H

#include "harness.h"

#include <pthread.h>
#include <string.h>

static inline void start_thread(pthread_t *thread, const pthread_attr_t *attributes, void *(*work)(void *),
                                void *argument) {
    int error = pthread_create(thread, attributes, work, argument);
    if (error)
        fail("pthread_create: %s", strerror(error));
}

static inline void join_thread(pthread_t thread) {
    int error = pthread_join(thread, NULL);
    if (error)
        fail("pthread_join: %s", strerror(error));
}

#endif
