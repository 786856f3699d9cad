// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by workloads that start processes. */
#ifndef SWAPSTONE_CHILDREN_H
#define SWAPSTONE_CHILDREN_H

#include "harness.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* fork() that calls fail() on an error. */
static inline pid_t fork_or_fail(void) {
    pid_t child = fork();
    if (child < 0)
        fail("fork: %s", strerror(errno));
    return child;
}

/* Waits for a child. Calls fail() unless its exit status is `expected`. If the child called fail() itself,
 * the report has the child's text. */
static inline void wait_for_exit(pid_t child, int expected) {
    int status;
    if (waitpid(child, &status, 0) != child)
        fail("waitpid: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected)
        fail("a process should exit with status %d, but its wait status is %d", expected, status);
}

#endif
