// SPDX-License-Identifier: MIT OR Apache-2.0
#include "shadow_stacks.h"
#include "threads.h"

#include <stddef.h>

enum { KERNEL_STACK_BITS = 14 }; /* the key of a thread is the number of its kernel stack */

static bool in_kernel = true;
static struct stack *active = &unknown.kernel;
static uint32_t current; /* path */

/* ==== Which stack ==== */

/* Ends the calls at an address and below it. */
static void drop(struct stack *stack, uint64_t address) {
    while (stack->count && stack->calls[stack->count - 1].stored <= address)
        stack->count--;
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
        thread = find_thread(key, key);
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
    push(stack, (struct call){.stored = address, .path = current});
    active = stack;
    return current;
}

uint32_t stacks_returned(uint64_t address, bool *known) {
    bool changed;
    struct stack *stack = switch_to(address, &changed);
    *known = stack->count && stack->calls[stack->count - 1].stored == address;
    if (changed && in_kernel && !*known) { /* a thread that was switched to for the first time */
        forget(stack);
        forget_user(thread);
    } else if (changed && !stack->count) {
        stack->base = 0;
    }
    while (stack->count && stack->calls[stack->count - 1].stored <= address) {
        *known |= stack->calls[--stack->count].stored == address;
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
