// SPDX-License-Identifier: MIT OR Apache-2.0
/* Two threads pass a turn back and forth 2000 times. Each waits on its own condition variable. Not from a
 * published benchmark. */
#include "threads.h"

enum { ROUND_TRIPS = 2000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turns[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static int turn;
static uint64_t turns_passed;

static void take_turns(int self) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < ROUND_TRIPS; i++) {
        while (turn != self)
            pthread_cond_wait(&turns[self], &mutex);
        turn = !self;
        turns_passed++;
        pthread_cond_signal(&turns[!self]);
    }
    pthread_mutex_unlock(&mutex);
}

static void *take_second_turns(void *argument) {
    take_turns(1);
    return argument;
}

static uint64_t pass(void) {
    pthread_t second;
    turn = 0;
    turns_passed = 0;
    start_thread(&second, NULL, take_second_turns, NULL);
    take_turns(0);
    join_thread(second);
    return turns_passed;
}

WORKLOAD(.name = "condvar_pingpong", .mode = WARM, .ops = ROUND_TRIPS, .pass = pass);
