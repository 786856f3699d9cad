// SPDX-License-Identifier: MIT OR Apache-2.0
/* Implements layout.h: a seeded number of processes and mappings, made and removed in a seeded order.
 *
 * Half of the mappings are shared. The kernel makes a file of its own for such a mapping, so the slab caches
 * of files, inodes and directory entries change as well. A mapping has at most 8 pages, so all of them occupy
 * at most 3 MiB, for a few milliseconds. About one in four stays until the machine ends. */
#include "layout.h"

#include "../port/port.h"
#include "../port/virtual_machine.h"

enum { PAGE_BYTES = 4096, FEWEST_MAPPINGS = 32, MOST_MAPPINGS = 96, MOST_PAGES = 8, MOST_PROCESSES = 12 };

struct mapping {
    char *memory;
    size_t size;
};

/* SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014. */
static uint64_t next_random(uint64_t *state) {
    uint64_t mixed = *state += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

/* A number below `limit`, a small number. */
static unsigned random_below(uint64_t *state, unsigned limit) {
    return (unsigned)(next_random(state) >> 32) % limit;
}

static int reseed(uint64_t *state) {
    char seed[PORT_SEED_BYTES];

    for (int i = 0; i < PORT_SEED_BYTES; i++)
        seed[i] = (char)next_random(state);
    int result = port_seed_random(seed);
    return result < 0 ? result : port_reseed_random();
}

/* Starts some processes that end at once, and waits for them. */
static int start_processes(unsigned count) {
    struct port_event event;
    int result;

    for (unsigned i = 0; i < count; i++) {
        int pid = port_fork();
        if (pid < 0)
            return pid;
        if (pid == 0)
            port_exit(0);
    }
    while ((result = port_wait(0, &event)) >= 0)
        if (result == 0)
            port_poll(NULL, 0, 50000);
    return result == -PORT_E_CHILD ? 0 : result;
}

static void shuffle(struct mapping *mappings, unsigned count, uint64_t *state) {
    for (unsigned i = count; i > 1; i--) {
        unsigned other = random_below(state, i);
        struct mapping swapped = mappings[i - 1];
        mappings[i - 1] = mappings[other];
        mappings[other] = swapped;
    }
}

int vary_layout(uint64_t seed) {
    struct mapping mappings[MOST_MAPPINGS];
    uint64_t state = seed;
    int result = reseed(&state);

    if (result >= 0)
        result = start_processes(random_below(&state, MOST_PROCESSES + 1));
    if (result < 0)
        return result;
    unsigned count = FEWEST_MAPPINGS + random_below(&state, MOST_MAPPINGS - FEWEST_MAPPINGS + 1);
    for (unsigned i = 0; i < count; i++) {
        mappings[i].size = PAGE_BYTES * (1 + random_below(&state, MOST_PAGES));
        mappings[i].memory = port_mmap(mappings[i].size, random_below(&state, 2));
        if (!mappings[i].memory)
            return -PORT_E_NOMEM;
    }
    shuffle(mappings, count, &state);
    for (unsigned i = 0; i < count; i++)
        for (size_t at = 0; at < mappings[i].size; at += PAGE_BYTES)
            mappings[i].memory[at] = 1; /* the page is allocated now */
    shuffle(mappings, count, &state);
    for (unsigned i = 0; i < count; i++) {
        if (random_below(&state, 4))
            port_munmap(mappings[i].memory, mappings[i].size);
        else if ((result = port_keep_from_children(mappings[i].memory, mappings[i].size)) < 0)
            return result;
    }
    return 0;
}
