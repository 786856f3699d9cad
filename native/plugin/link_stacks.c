// SPDX-License-Identifier: MIT OR Apache-2.0
#include "link_stacks.h"

#include "threads.h"

#include <stddef.h>

enum { KEY_BITS = 6 };

static uint64_t next_key; /* of the thread that the next return is in; 0 if it is the same */
static bool in_kernel = true;
static uint32_t current; /* path */

/* ==== One stack ==== */

static struct stack *active(void) {
    return in_kernel ? &thread->kernel : thread->user;
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

void links_leave_thread(uint64_t address) {
    if (thread->key || !address)
        return;
    struct thread *one = find_thread(address, address >> KEY_BITS), replaced = *one;
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
    forget(thread->user);
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
            thread = find_thread(next_key, next_key >> KEY_BITS);
            next_key = 0;
            stack = active();
            if (!end_call(stack, address)) { /* a thread that runs for the first time */
                forget(stack);
                forget(thread->user);
            }
        } else {
            end_call(stack, address);
        }
    }
    return current = top(stack);
}

uint32_t links_stored(uint64_t address, extend_path extend) {
    struct stack *stack = thread->user;
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
