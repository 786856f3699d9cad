// SPDX-License-Identifier: MIT OR Apache-2.0
/* Two threads that start together add to one number 100000 times each, under one mutex.
 * Not from a published benchmark. */
#include "threads.h"

enum { ROUNDS = 100000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t start;
static volatile uint64_t number;

static void *add(void *argument) {
    pthread_barrier_wait(&start);
    for (int i = 0; i < ROUNDS; i++) {
        pthread_mutex_lock(&mutex);
        number++;
        pthread_mutex_unlock(&mutex);
    }
    return argument;
}

static void prepare(void) {
    if (pthread_barrier_init(&start, NULL, 2) != 0)
        fail("pthread_barrier_init failed");
}

static uint64_t pass(void) {
    pthread_t threads[2];
    number = 0;
    for (int i = 0; i < 2; i++)
        start_thread(&threads[i], NULL, add, NULL);
    for (int i = 0; i < 2; i++)
        join_thread(threads[i]);
    return number;
}

WORKLOAD(.name = "mutex_contended", .mode = WARM, .ops = 2 * ROUNDS, .prepare = prepare, .pass = pass);
