/* Two threads share 300 slots: what one has taken, the other gives back. */
#include "slots.h"

static uint64_t pass(void) {
    struct slot slots[SLOTS];
    prepare_slots(slots);
    return act_twice(slots, slots);
}

WORKLOAD(.name = "b_malloc_thread_stress", .mode = FRESH, .ops = 1, .pass = pass);
