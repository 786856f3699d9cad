/* Create 2500 threads that nobody joins: what a finished thread keeps. */
#include "empty_threads.h"

static uint64_t pass(void) {
    pthread_attr_t attributes;
    uint64_t made = 0;
    if (pthread_attr_init(&attributes) != 0)
        fail("pthread_attr_init failed");
    /* Some C libraries refuse so small a stack and keep their default; that is part of the work. */
    (void)pthread_attr_setstacksize(&attributes, 16384);
    for (; made < ONE_BY_ONE; made++) {
        pthread_t thread;
        start_thread(&thread, &attributes, do_nothing, NULL);
    }
    return made;
}

WORKLOAD(.name = "b_pthread_create_serial1", .mode = FRESH, .ops = 1, .pass = pass);
