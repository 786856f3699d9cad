/* Several processes that do the same work at once. The parameter's `size` says how many; one is this process
 * itself. */
#ifndef SWAPSTONE_TASKS_H
#define SWAPSTONE_TASKS_H

#include "harness.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_TASKS = 8 };

/* Start a child of this process; it is told from its parent by 0. */
static inline pid_t start_child(void) {
    pid_t child = fork();
    if (child < 0)
        fail("fork: %s", strerror(errno));
    return child;
}

/* Wait for a child, which must end with this status. One that gave up has said why. */
static inline void await_child(pid_t child, int expected) {
    int status;
    if (waitpid(child, &status, 0) != child)
        fail("waitpid: %s", strerror(errno));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != expected)
        fail("a process that should end with %d ended with status %d", expected, status);
}

/* Do the work, in as many tasks as the parameter says; each is told its number. What they find comes through
 * a pipe, which holds it all; all do the same work, so it must be the same. */
static inline uint64_t in_tasks(uint64_t (*work)(unsigned task)) {
    pid_t tasks[MOST_TASKS];
    uint64_t found[MOST_TASKS];
    int results[2];
    unsigned count = (unsigned)parameter->size;
    if (count == 1)
        return work(0);
    if (pipe(results) != 0)
        fail("pipe: %s", strerror(errno));
    for (unsigned task = 0; task < count; task++) {
        tasks[task] = start_child();
        if (tasks[task] == 0) {
            uint64_t mine = work(task);
            _exit(write(results[1], &mine, sizeof mine) != sizeof mine);
        }
    }
    for (unsigned task = 0; task < count; task++)
        await_child(tasks[task], 0);
    if (read(results[0], found, count * sizeof *found) != (ssize_t)(count * sizeof *found))
        fail("a task did not say what it found");
    for (unsigned task = 1; task < count; task++)
        if (found[task] != found[0])
            fail("two tasks did different work");
    close(results[0]);
    close(results[1]);
    return found[0];
}

/* The two parameters of a work that has no other: once alone, and in eight tasks at once. */
#define ONE_AND_EIGHT(title, rounds)                                                                         \
    {.argument = "1", .name = title, .ops = (rounds), .size = 1},                                            \
        {.argument = "8", .name = title " (8 tasks)", .ops = MOST_TASKS * (rounds), .size = MOST_TASKS}, {   \
        0                                                                                                    \
    }

#endif
