// SPDX-License-Identifier: MIT OR Apache-2.0
/* Threads with the calls that have not returned; shadow_stacks.c and link_stacks.c follow them. */
#ifndef SWAPSTONE_THREADS_H
#define SWAPSTONE_THREADS_H

#include <stdbool.h>
#include <stdint.h>

enum { USER_STACKS = 4 };

#define NEAR_BYTES (256u << 10)

/* A call, or an exception, which returns to address 0. */
struct call {
    uint64_t stored;     /* where its return address is stored; 0 if that is not known */
    uint64_t returns_to; /* if that is known */
    uint32_t site, path; /* the block that called, and the path of the called function */
    bool was_returning;  /* of an exception: whether it came before a return had arrived */
};

struct stack {
    struct call *calls;
    uint32_t count, room;
    uint32_t without_room; /* calls that are not in `calls` */
    uint32_t base;         /* the path without calls */
    uint64_t low, high;    /* addresses of all calls and returns; 0 if there were none */
    bool returning;        /* a return has not arrived */
};

struct thread {
    uint64_t key; /* 0 is no thread */
    struct stack kernel, user[USER_STACKS];
    unsigned current_user, oldest_user; /* numbers of user stacks */
};

extern struct thread unknown, *thread; /* `unknown` until a thread is recognised */

/* Returns the path of the code that is executed. */
uint32_t top(const struct stack *stack);
void forget(struct stack *stack);
void forget_user(struct thread *one);
void push(struct stack *stack, struct call call);

/* Returns the thread with a key, whose hash is given. If there is no room, another thread's calls are
 * forgotten. */
struct thread *find_thread(uint64_t key, uint64_t hash);

#endif
