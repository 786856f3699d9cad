// SPDX-License-Identifier: MIT OR Apache-2.0
#include "shadow_stacks.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>

enum { THREADS = 1 << 12, PROBES = 8, USER_STACKS = 4, MOST_CALLS = 1 << 14, KERNEL_STACK_BITS = 14 };

#define NEAR_BYTES (256u << 10)

struct call {
    uint64_t address; /* of the return address */
    uint32_t path;    /* of the called function */
};

struct stack {
    struct call *calls; /* by descending addresses */
    uint32_t count, room;
    uint32_t base;      /* the path without calls */
    uint64_t low, high; /* addresses of all calls and returns; 0 if there were none */
};

struct thread {
    uint64_t key; /* of its kernel stack; 0 is no thread */
    struct stack kernel, user[USER_STACKS];
    unsigned current_user, oldest_user; /* numbers of user stacks */
};

static struct thread threads[THREADS], unknown;
static struct thread *thread = &unknown;
static bool in_kernel = true;
static struct stack *active = &unknown.kernel;
static uint32_t current; /* path */

/* ==== One stack ==== */

static uint32_t top(const struct stack *stack) {
    return stack->count ? stack->calls[stack->count - 1].path : stack->base;
}

static void forget(struct stack *stack) {
    stack->count = stack->base = 0;
    stack->low = stack->high = 0;
}

/* Ends the calls at an address and below it. */
static void drop(struct stack *stack, uint64_t address) {
    while (stack->count && stack->calls[stack->count - 1].address <= address)
        stack->count--;
}

static void push(struct stack *stack, uint64_t address, uint32_t path) {
    if (stack->count == stack->room) {
        uint32_t room = stack->room ? 2 * stack->room : 32;
        struct call *grown = room <= MOST_CALLS ? realloc(stack->calls, room * sizeof *grown) : NULL;
        if (!grown)
            return; /* its callees are shown as called by the last caller that had room */
        stack->calls = grown;
        stack->room = room;
    }
    stack->calls[stack->count++] = (struct call){address, path};
}

/* ==== Which stack ==== */

static void forget_user(struct thread *one) {
    for (size_t i = 0; i < USER_STACKS; i++)
        forget(&one->user[i]);
    one->current_user = one->oldest_user = 0;
}

/* Returns the thread with a kernel stack. If there is no room, another thread's callers are forgotten. */
static struct thread *find_thread(uint64_t key) {
    struct thread *place = &threads[key % THREADS];
    for (unsigned i = 0; i < PROBES; i++) {
        struct thread *one = &threads[(key + i) % THREADS];
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

static bool is_near(const struct stack *stack, uint64_t address) {
    return stack->high && address + NEAR_BYTES >= stack->low && address <= stack->high + NEAR_BYTES;
}

static struct stack *user_stack(uint64_t address) {
    struct stack *stack = &thread->user[thread->current_user];
    for (unsigned i = 0; i < USER_STACKS && !is_near(stack, address); i++)
        if (is_near(&thread->user[i], address)) {
            thread->current_user = i;
            stack = &thread->user[i];
        }
    if (!is_near(stack, address)) {
        thread->current_user = thread->oldest_user++ % USER_STACKS;
        stack = &thread->user[thread->current_user];
        forget(stack);
        stack->low = stack->high = address;
    }
    stack->low = address < stack->low ? address : stack->low;
    stack->high = address > stack->high ? address : stack->high;
    return stack;
}

/* Returns the stack that contains an address, and sets whether it is another one than before. */
static struct stack *switch_to(uint64_t address, bool *changed) {
    if (!in_kernel) {
        const struct stack *before = &thread->user[thread->current_user];
        struct stack *stack = user_stack(address);
        *changed = stack != before;
        return stack;
    }
    uint64_t key = address >> KERNEL_STACK_BITS;
    *changed = key != thread->key;
    if (*changed)
        thread = find_thread(key);
    return &thread->kernel;
}

/* ==== Events ==== */

uint32_t stacks_called(uint64_t address, uint32_t site, extend_path extend) {
    bool changed;
    struct stack *stack = switch_to(address, &changed);
    drop(stack, address);
    if (changed && !stack->count)
        stack->base =
            current; /* the code that switched stacks, such as to that of interrupts, is the caller */
    current = extend(top(stack), site);
    push(stack, address, current);
    active = stack;
    return current;
}

uint32_t stacks_returned(uint64_t address, bool *known) {
    bool changed;
    struct stack *stack = switch_to(address, &changed);
    *known = stack->count && stack->calls[stack->count - 1].address == address;
    if (changed && in_kernel && !*known) { /* a thread that was switched to for the first time */
        forget(stack);
        forget_user(thread);
    } else if (changed && !stack->count) {
        stack->base = 0;
    }
    while (stack->count && stack->calls[stack->count - 1].address <= address) {
        *known |= stack->calls[--stack->count].address == address;
    }
    active = stack;
    return current = top(stack);
}

uint32_t stacks_leave(void) {
    active->count -= active->count != 0;
    return current = top(active);
}

uint32_t stacks_enter_kernel(uint32_t site, extend_path extend) {
    uint32_t base = extend(current, site);
    in_kernel = true;
    thread->kernel.count = 0; /* user code has no functions on its kernel stack */
    thread->kernel.base = base;
    active = &thread->kernel;
    return current = base;
}

uint32_t stacks_leave_kernel(void) {
    in_kernel = false;
    active = &thread->user[thread->current_user];
    return current = top(active);
}

void stacks_execute(void) {
    forget_user(thread);
}
