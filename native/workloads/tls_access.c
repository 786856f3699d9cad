// SPDX-License-Identifier: MIT OR Apache-2.0
/* Increments a thread-local variable of a shared object that dlopen() loaded, 200000 times and once to read
 * it. Not from a published benchmark. */
#include "harness.h"

#include <dlfcn.h>

enum { STEPS = 200000 };

static uint64_t (*step)(void);

static void prepare(void) {
    char path[4096];
    path_beside_program(path, sizeof path, "counter.so");
    void *object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!object)
        fail("dlopen: %s", dlerror());
    step = (uint64_t(*)(void))dlsym(object, "counter_step");
    if (!step)
        fail("dlsym: %s", dlerror());
}

static uint64_t pass(void) {
    uint64_t before = step();
    for (int i = 1; i < STEPS; i++)
        step();
    return step() - before;
}

WORKLOAD(.name = "tls_access", .mode = WARM, .ops = STEPS + 1, .prepare = prepare, .pass = pass);
