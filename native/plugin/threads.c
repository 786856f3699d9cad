// SPDX-License-Identifier: MIT OR Apache-2.0
#include "threads.h"

#include <stdlib.h>

enum { THREADS = 1 << 12, PROBES = 8, MOST_CALLS = 1 << 14 };

static struct thread threads[THREADS];
struct thread unknown, *thread = &unknown;

uint32_t top(const struct stack *stack) {
    return stack->count ? stack->calls[stack->count - 1].path : stack->base;
}

void forget(struct stack *stack) {
    *stack = (struct stack){.calls = stack->calls, .room = stack->room};
}

void forget_user(struct thread *one) {
    for (size_t i = 0; i < USER_STACKS; i++)
        forget(&one->user[i]);
    one->current_user = one->oldest_user = 0;
}

void push(struct stack *stack, struct call call) {
    if (stack->count == stack->room) {
        uint32_t room = stack->room ? 2 * stack->room : 32;
        struct call *grown = room <= MOST_CALLS ? realloc(stack->calls, room * sizeof *grown) : NULL;
        if (!grown) {
            stack->without_room++; /* its callees are shown as called by the last caller that had room */
            return;
        }
        stack->calls = grown;
        stack->room = room;
    }
    stack->calls[stack->count++] = call;
}

struct thread *find_thread(uint64_t key, uint64_t hash) {
    struct thread *place = &threads[hash % THREADS];
    for (unsigned i = 0; i < PROBES; i++) {
        struct thread *one = &threads[(hash + i) % THREADS];
        if (one->key == key)
            return one;
        if (!one->key) {
            place = one;
            break;
        }
    }
    forget(&place->kernel);
    forget_user(place);
    place->key = key;
    return place;
}
