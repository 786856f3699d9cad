/* Several processes that do the same work at once. The parameter's `size` says how many; one is this process
 * itself. */
#ifndef SWAPSTONE_TASKS_H
#define SWAPSTONE_TASKS_H

#include "harness.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_TASKS = 8 };

/* What each task found; shared, so that the parent can read it. */
static uint64_t *found;

static inline void prepare_tasks(void) {
    found = mmap(NULL, MOST_TASKS * sizeof *found, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (found == MAP_FAILED)
        fail("mmap: %s", strerror(errno));
}

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

/* Do the work, in as many tasks as the parameter says; each is told its number. All do the same work, so what
 * they find must be the same. */
static inline uint64_t in_tasks(uint64_t (*work)(unsigned task)) {
    pid_t tasks[MOST_TASKS];
    unsigned count = (unsigned)parameter->size;
    if (count == 1)
        return work(0);
    for (unsigned task = 0; task < count; task++) {
        tasks[task] = start_child();
        if (tasks[task] == 0) {
            found[task] = work(task);
            _exit(0);
        }
    }
    for (unsigned task = 0; task < count; task++)
        await_child(tasks[task], 0);
    for (unsigned task = 1; task < count; task++)
        if (found[task] != found[0])
            fail("two tasks did different work");
    return found[0];
}

/* The two parameters of a work that has no other: once alone, and in eight tasks at once. */
#define ONE_AND_EIGHT(title, rounds)                                                                         \
    {.argument = "1", .name = title, .ops = (rounds), .size = 1},                                            \
        {.argument = "8", .name = title " (8 tasks)", .ops = MOST_TASKS * (rounds), .size = MOST_TASKS}, {   \
        0                                                                                                    \
    }

#endif
