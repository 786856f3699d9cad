// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the workloads of the suite `throughput`: runs the same work in one process, or in eight at once.
 * The parameter's `size` is the number of tasks (processes). */
#ifndef SWAPSTONE_TASKS_H
#define SWAPSTONE_TASKS_H

#include "harness.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MAX_TASKS = 8 };

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

/* Calls work(task) in parameter->size processes, or in this one if that is 1, and returns its checksum. Calls
 * fail() if two tasks return different checksums. The checksums are sent through a pipe, whose buffer holds
 * them all. */
static inline uint64_t run_in_tasks(uint64_t (*work)(unsigned task)) {
    pid_t tasks[MAX_TASKS];
    uint64_t checks[MAX_TASKS];
    int results[2];
    unsigned count = (unsigned)parameter->size;
    if (count == 1)
        return work(0);
    if (pipe(results) != 0)
        fail("pipe: %s", strerror(errno));
    for (unsigned task = 0; task < count; task++) {
        tasks[task] = fork_or_fail();
        if (tasks[task] == 0) {
            uint64_t check = work(task);
            _exit(write(results[1], &check, sizeof check) != sizeof check);
        }
    }
    for (unsigned task = 0; task < count; task++)
        wait_for_exit(tasks[task], 0);
    if (read(results[0], checks, count * sizeof *checks) != (ssize_t)(count * sizeof *checks))
        fail("a task sent no checksum");
    for (unsigned task = 1; task < count; task++)
        if (checks[task] != checks[0])
            fail("the checksums of two tasks differ");
    close(results[0]);
    close(results[1]);
    return checks[0];
}

/* The parameter table of a workload whose only parameter is the number of tasks. `rounds` is the number of
 * operations of one task. */
#define ONE_AND_EIGHT_TASKS(title, rounds)                                                                   \
    {.argument = "1", .name = title, .ops = (rounds), .size = 1},                                            \
        {.argument = "8", .name = title " (8 tasks)", .ops = MAX_TASKS * (rounds), .size = MAX_TASKS}, {     \
        0                                                                                                    \
    }

#endif
