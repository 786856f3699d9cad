// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A shared object for the workload tls_access. The C library resolves a thread-local variable of an object
 * that dlopen() loads (the general dynamic TLS model). The linker alone resolves one of the program (local
 * exec).
 */
#include <stdint.h>

static _Thread_local uint64_t counter;

uint64_t counter_step(void);

uint64_t counter_step(void) {
    return ++counter;
}
