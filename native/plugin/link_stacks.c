// SPDX-License-Identifier: MIT OR Apache-2.0
#include "link_stacks.h"

#include <stddef.h>
#include <stdlib.h>

enum { THREADS = 1 << 12, PROBES = 8, MOST_CALLS = 1 << 14, KEY_BITS = 6 };

#define NEAR_BYTES (256u << 10)

/* A call, or an exception, which returns to address 0. */
struct call {
    uint64_t returns_to;
    uint64_t stored; /* where the called function stored that; 0 if it did not */
    uint32_t site, path;
    bool was_returning; /* of an exception: whether it came before a return had arrived */
};

struct stack {
    struct call *calls;
    uint32_t count, room;
    uint32_t without_room; /* calls that are not in `calls` */
    uint32_t base;         /* the path without calls */
    bool returning;        /* a return has not arrived */
};

struct thread {
    uint64_t key; /* 0 is no thread */
    struct stack kernel, user;
};

static struct thread threads[THREADS], unknown;
static struct thread *thread = &unknown;
static uint64_t next_key; /* of the thread that the next return is in; 0 if it is the same */
static bool in_kernel = true;
static uint32_t current; /* path */

/* ==== One stack ==== */

static struct stack *active(void) {
    return in_kernel ? &thread->kernel : &thread->user;
}

static uint32_t top(const struct stack *stack) {
    return stack->count ? stack->calls[stack->count - 1].path : stack->base;
}

static void forget(struct stack *stack) {
    stack->count = stack->without_room = stack->base = 0;
    stack->returning = false;
}

static void push(struct stack *stack, struct call call) {
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

/* Ends the last call that returns to an address since the last exception. Returns whether there is one. */
static bool end_call(struct stack *stack, uint64_t address) {
    if (stack->without_room) {
        stack->without_room--;
        return true;
    }
    for (uint32_t i = stack->count; i-- && stack->calls[i].returns_to;)
        if (stack->calls[i].returns_to == address) {
            stack->count = i;
            return true;
        }
    return false;
}

/* ==== Threads ==== */

/* Returns the thread with a key. If there is no room, another thread's calls are forgotten. */
static struct thread *find_thread(uint64_t key) {
    size_t home = key >> KEY_BITS;
    struct thread *place = &threads[home % THREADS];
    for (size_t i = 0; i < PROBES; i++) {
        struct thread *one = &threads[(home + i) % THREADS];
        if (one->key == key)
            return one;
        if (!one->key) {
            place = one;
            break;
        }
    }
    forget(&place->kernel);
    forget(&place->user);
    place->key = key;
    return place;
}

void links_leave_thread(uint64_t address) {
    if (thread->key || !address)
        return;
    struct thread *one = find_thread(address), replaced = *one;
    *one = unknown;
    one->key = address;
    unknown = replaced;
    unknown.key = 0;
    thread = one;
}

void links_enter_thread(uint64_t address) {
    next_key = address;
}

void links_execute(void) {
    forget(&thread->user);
}

/* ==== Flow of control ==== */

uint32_t links_called(uint64_t returns_to, uint32_t site, extend_path extend) {
    struct stack *stack = active();
    current = extend(top(stack), site);
    push(stack, (struct call){.returns_to = returns_to, .site = site, .path = current});
    return current = top(stack);
}

void links_returning(void) {
    active()->returning = true;
}

uint32_t links_arrived(uint64_t address) {
    struct stack *stack = active();
    if (stack->returning) {
        stack->returning = false;
        if (next_key) {
            thread = find_thread(next_key);
            next_key = 0;
            stack = active();
            if (!end_call(stack, address)) { /* a thread that runs for the first time */
                forget(stack);
                forget(&thread->user);
            }
        } else {
            end_call(stack, address);
        }
    }
    return current = top(stack);
}

uint32_t links_stored(uint64_t address, extend_path extend) {
    struct stack *stack = &thread->user;
    struct call *last = stack->count ? &stack->calls[stack->count - 1] : NULL;
    if (!last || last->stored || stack->without_room)
        return current;
    last->stored = address;
    uint32_t kept = stack->count - 1;
    for (uint32_t i = kept; i--;) {
        uint64_t stored = stack->calls[i].stored;
        if (stored > address || (stored && address - stored >= NEAR_BYTES))
            break;
        if (stored)
            kept = i;
    }
    if (kept < stack->count - 1) {
        stack->calls[kept] = *last;
        stack->count = kept;
        uint32_t path = extend(top(stack), stack->calls[kept].site);
        stack->calls[kept].path = path;
        stack->count = kept + 1;
    }
    return current = top(stack);
}

/* ==== The kernel ==== */

void links_enter_kernel(uint32_t path) {
    in_kernel = true;
    forget(&thread->kernel); /* user code has no functions on its kernel stack */
    thread->kernel.base = path;
}

void links_leave_kernel(void) {
    in_kernel = false;
}

void links_begin_exception(void) {
    struct stack *stack = active();
    push(stack, (struct call){.path = top(stack), .was_returning = stack->returning});
    stack->returning = false;
}

void links_end_exception(void) {
    struct stack *stack = active();
    stack->without_room = 0;
    for (uint32_t i = stack->count; i--;)
        if (!stack->calls[i].returns_to) {
            stack->count = i;
            stack->returning = stack->calls[i].was_returning;
            return;
        }
}
