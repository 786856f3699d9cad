// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the two b_malloc_thread_* workloads: a table of slots, and a thread that allocates a block for an
 * empty slot and frees the block of a full one. */
#ifndef SWAPSTONE_MALLOC_SLOTS_H
#define SWAPSTONE_MALLOC_SLOTS_H

#include "threads.h"

#include <stdlib.h>

enum { SLOTS = 300, SIZE_LIMIT = 500, ROUNDS = 100000 }; /* blocks have 0 to SIZE_LIMIT - 1 bytes */

struct slot {
    pthread_mutex_t lock;
    void *block;
};

struct slot_thread {
    struct slot *slots;
    uint32_t random;
};

/*
 * The seeds of the two threads' random sequences. libc-bench takes the value of pthread_self(), the address
 * of an aligned block. Here they are constants, so that each run does the same work. Both are even, as
 * addresses are. The generator's numbers are even and odd in turn, so both threads then use the same half of
 * the slots. The difference of the seeds is that of two neighbouring thread blocks: a stack of 8 MiB and a
 * guard page.
 */
#define FIRST_SEED 0x77a006c0u
#define SECOND_SEED (FIRST_SEED - 0x801000u)

static inline void init_slots(struct slot *slots) {
    for (int i = 0; i < SLOTS; i++) {
        slots[i].block = NULL;
        if (pthread_mutex_init(&slots[i].lock, NULL) != 0)
            fail("pthread_mutex_init failed");
    }
}

/* Empties the slot. Returns its block, or NULL if it was empty. */
static inline void *empty_slot(struct slot *slot) {
    pthread_mutex_lock(&slot->lock);
    void *block = slot->block;
    slot->block = NULL;
    pthread_mutex_unlock(&slot->lock);
    return block;
}

/* Puts a block into an empty slot and returns NULL. Returns the block if the other thread filled the slot. */
static inline void *fill_slot(struct slot *slot, void *block) {
    pthread_mutex_lock(&slot->lock);
    if (!slot->block) {
        slot->block = block;
        block = NULL;
    }
    pthread_mutex_unlock(&slot->lock);
    return block;
}

static inline void *use_random_slots(void *argument) {
    struct slot_thread *thread = argument;
    for (int round = 0; round < ROUNDS; round++) {
        struct slot *slot = &thread->slots[next_random(&thread->random) % SLOTS];
        size_t size = next_random(&thread->random) % SIZE_LIMIT;
        void *block = empty_slot(slot);
        free(block);
        if (!block)
            free(fill_slot(slot, malloc(size)));
    }
    return NULL;
}

/* Runs two threads on the two tables, which may be the same. Returns the final states of their generators. */
static inline uint64_t run_two_threads(struct slot *first, struct slot *second) {
    struct slot_thread contexts[2] = {{first, FIRST_SEED}, {second, SECOND_SEED}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        start_thread(&threads[i], NULL, use_random_slots, &contexts[i]);
    for (int i = 0; i < 2; i++)
        join_thread(threads[i]);
    return (uint64_t)contexts[0].random << 32 | contexts[1].random;
}

#endif
