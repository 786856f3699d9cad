// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the workloads of the suites `throughput` and `unix`: runs the same work in one process, or in
 * several at once. The parameter's `size` is the number of tasks (processes) of `throughput`, `copies` that
 * of `unix`. */
#ifndef SWAPSTONE_TASKS_H
#define SWAPSTONE_TASKS_H

#include "children.h"

#include <unistd.h>

enum { EIGHT_TASKS = 8, MAX_TASKS = 64 };

/* The number of tasks of the parameter: `copies`, or `size` if that is 0. */
static inline unsigned tasks_of_parameter(void) {
    unsigned count = parameter->copies ? task_count(parameter->copies) : (unsigned)parameter->size;
    if (count > MAX_TASKS)
        fail("there are more than %d processors", MAX_TASKS);
    return count;
}

/* The work of the task with this number, from 0. The workload defines it. */
static uint64_t work(unsigned task);

/* Calls work(task) in tasks_of_parameter() processes, or in this one if that is 1, and returns its checksum.
 * Calls fail() if two tasks return different checksums. The checksums are sent through a pipe, whose buffer
 * holds them all. */
static inline uint64_t run_in_tasks(void) {
    pid_t tasks[MAX_TASKS];
    uint64_t checks[MAX_TASKS];
    int results[2];
    unsigned count = tasks_of_parameter();
    if (count == 1)
        return work(0);
    require(pipe(results) == 0, "pipe");
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
 * operations of one task. `test` is the name of the test in the suite `unix`. */
#define ONE_AND_EIGHT_TASKS(title, test, rounds)                                                             \
    {.argument = "1", .name = title, .ops = (rounds), .size = 1},                                            \
        {.argument = "8", .name = title " (8 tasks)", .ops = EIGHT_TASKS * (rounds), .size = EIGHT_TASKS},   \
        ONE_AND_ALL_COPIES(test, "", rounds), {                                                              \
        0                                                                                                    \
    }

/* The two rows of the suite `unix`. `prefix` stands before the argument's `one` and `all`. */
#define ONE_AND_ALL_COPIES(test, prefix, rounds)                                                             \
    {.argument = prefix "one", .name = test " (1 copy)", .ops = (rounds), .copies = 1}, {                    \
        .argument = prefix "all", .name = test " (n copies)", .ops = (rounds), .copies = ALL_PROCESSORS      \
    }

#endif
