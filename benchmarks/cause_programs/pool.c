/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that makes its own threads. It is built without symbols but those it exports. */
#include <pthread.h>
#include <stdint.h>

#define EXPORTED __attribute__((visibility("default")))

enum { WORKERS = 2 };

static pthread_t workers[WORKERS];
static unsigned passes;
static volatile uint64_t sums[64];

static void pass(uint64_t state) {
    for (unsigned i = 0; i < 80000000; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
    }
    sums[state % 64] += state;
}

static void *work(void *given) {
    for (unsigned i = 0; i < passes; i++)
        pass((uintptr_t)given + i + 1);
    return given;
}

EXPORTED void pool_start(unsigned quality) {
    passes = quality;
    for (uintptr_t i = 0; i < WORKERS; i++)
        pthread_create(&workers[i], 0, work, (void *)i);
}

EXPORTED void pool_wait(void) {
    for (int i = 0; i < WORKERS; i++)
        pthread_join(workers[i], 0);
}
