/* Two threads hand a turn to and fro 2000 times, each waiting on a condition variable of its own. */
#include "threads.h"

enum { ROUND_TRIPS = 2000 };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turns[2] = {PTHREAD_COND_INITIALIZER, PTHREAD_COND_INITIALIZER};
static int turn;
static uint64_t handed;

static void play(int me) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < ROUND_TRIPS; i++) {
        while (turn != me)
            pthread_cond_wait(&turns[me], &mutex);
        turn = !me;
        handed++;
        pthread_cond_signal(&turns[!me]);
    }
    pthread_mutex_unlock(&mutex);
}

static void *play_second(void *argument) {
    play(1);
    return argument;
}

static uint64_t pass(void) {
    pthread_t second;
    turn = 0;
    handed = 0;
    start_thread(&second, NULL, play_second, NULL);
    play(0);
    join_thread(second);
    return handed;
}

WORKLOAD(.name = "condvar_pingpong", .mode = WARM, .ops = ROUND_TRIPS, .pass = pass);
