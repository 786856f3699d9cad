/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program does not limit its threads to some processors (sched_setaffinity(2)). */
#include "intercept.h"
#include <pthread.h>
#include <sched.h>

int sched_setaffinity(pid_t pid, size_t size, const cpu_set_t *set) {
    (void)pid, (void)size, (void)set;
    count();
    return 0;
}

int pthread_setaffinity_np(pthread_t thread, size_t size, const cpu_set_t *set) {
    (void)thread;
    return sched_setaffinity(0, size, set);
}
