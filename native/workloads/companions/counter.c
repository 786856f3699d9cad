/*
 * A shared object for the workload tls_access. A thread-local variable of an object that is loaded while the
 * program runs is found through the C library; one of the program itself would be found by the compiler
 * alone.
 */
#include <stdint.h>

static _Thread_local uint64_t counter;

uint64_t counter_step(void);

uint64_t counter_step(void) {
    return ++counter;
}
