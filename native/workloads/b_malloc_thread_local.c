/* Two threads with 300 slots each: all that a thread takes it gives back itself. */
#include "slots.h"

static uint64_t pass(void) {
    struct slot first[SLOTS], second[SLOTS];
    prepare_slots(first);
    prepare_slots(second);
    return act_twice(first, second);
}

WORKLOAD(.name = "b_malloc_thread_local", .mode = FRESH, .ops = 1, .pass = pass);
