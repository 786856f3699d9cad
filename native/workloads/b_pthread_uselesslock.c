// SPDX-License-Identifier: MIT OR Apache-2.0
/* One thread locks and unlocks an uncontended mutex 1000000 times. libc-bench: b_pthread_uselesslock. */
#include "threads.h"

enum { ROUNDS = 1000000 };

static void *lock_and_unlock(void *argument) {
    pthread_mutex_t *mutex = argument;
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(mutex);
        pthread_mutex_unlock(mutex);
    }
    return NULL;
}

static uint64_t pass(void) {
    pthread_mutex_t mutex;
    pthread_t thread;
    if (pthread_mutex_init(&mutex, NULL) != 0)
        fail("pthread_mutex_init failed");
    start_thread(&thread, NULL, lock_and_unlock, &mutex);
    join_thread(thread);
    return ROUNDS;
}

WORKLOAD(.name = "b_pthread_uselesslock", .mode = FRESH, .ops = 1, .pass = pass);
