/* Create a thread and join it, 2500 times, with the smallest stack and no guard. */
#include "empty_threads.h"

static uint64_t pass(void) {
    pthread_attr_t attributes;
    ask_for_little(&attributes);
    return create_and_join_each(&attributes);
}

WORKLOAD(.name = "b_pthread_createjoin_minimal1", .mode = FRESH, .ops = 1, .pass = pass);
