/* Create 50 threads, then join the 50; 50 times, with the smallest stack and no guard. */
#include "empty_threads.h"

static uint64_t pass(void) {
    pthread_attr_t attributes;
    ask_for_little(&attributes);
    return create_and_join_groups(&attributes);
}

WORKLOAD(.name = "b_pthread_createjoin_minimal2", .mode = FRESH, .ops = 1, .pass = pass);
