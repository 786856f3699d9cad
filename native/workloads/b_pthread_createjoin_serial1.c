/* Create a thread and join it, 2500 times. */
#include "empty_threads.h"

static uint64_t pass(void) {
    return create_and_join_each(NULL);
}

WORKLOAD(.name = "b_pthread_createjoin_serial1", .mode = FRESH, .ops = 1, .pass = pass);
