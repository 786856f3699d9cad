/* What the two threaded malloc workloads share: a table of slots, and a thread that fills and empties them at
 * random. */
#ifndef SWAPSTONE_SLOTS_H
#define SWAPSTONE_SLOTS_H

#include "threads.h"

#include <stdlib.h>

enum { SLOTS = 300, LARGEST = 500, ROUNDS = 100000 };

struct slot {
    pthread_mutex_t lock;
    void *block;
};

struct actor {
    struct slot *slots;
    uint32_t random;
};

/*
 * Where the two generators start. Constant, so that every run does the same work; even, because the generator
 * alternates between even and odd: two even starts send both threads to the same half of an even number of
 * slots, as starts taken from thread identities do (those are addresses of aligned blocks). The distance is
 * that of two thread blocks beside each other.
 */
#define FIRST_START 0x77a006c0u
#define SECOND_START (FIRST_START - 0x801000u)

static inline void prepare_slots(struct slot *slots) {
    for (int i = 0; i < SLOTS; i++) {
        slots[i].block = NULL;
        if (pthread_mutex_init(&slots[i].lock, NULL) != 0)
            fail("pthread_mutex_init failed");
    }
}

static inline void *empty_slot(struct slot *slot) {
    pthread_mutex_lock(&slot->lock);
    void *block = slot->block;
    slot->block = NULL;
    pthread_mutex_unlock(&slot->lock);
    return block;
}

/* Returns the block again where somebody else has filled the slot meanwhile, else NULL. */
static inline void *fill_slot(struct slot *slot, void *block) {
    pthread_mutex_lock(&slot->lock);
    if (!slot->block) {
        slot->block = block;
        block = NULL;
    }
    pthread_mutex_unlock(&slot->lock);
    return block;
}

static inline void *act(void *argument) {
    struct actor *actor = argument;
    for (int round = 0; round < ROUNDS; round++) {
        struct slot *slot = &actor->slots[next_random(&actor->random) % SLOTS];
        size_t size = next_random(&actor->random) % LARGEST;
        void *block = empty_slot(slot);
        free(block);
        if (!block)
            free(fill_slot(slot, malloc(size)));
    }
    return NULL;
}

/* Run two threads to their end. The checksum is where their generators came to. */
static inline uint64_t act_twice(struct slot *first, struct slot *second) {
    struct actor actors[2] = {{first, FIRST_START}, {second, SECOND_START}};
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        start_thread(&threads[i], NULL, act, &actors[i]);
    for (int i = 0; i < 2; i++)
        join_thread(threads[i]);
    return (uint64_t)actors[0].random << 32 | actors[1].random;
}

#endif
