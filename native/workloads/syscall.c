// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls dup(), close(), getpid(), getuid() and umask() in turn, 4000 times. UnixBench: System Call Overhead.
 *
 * The parameter is the number of tasks, or of copies (suite `unix`). */
#include "tasks.h"

#include <sys/stat.h>

enum { ROUNDS = 4000, MASK = 022 };

static uint64_t work(unsigned task) {
    uint64_t succeeded = 0;
    pid_t process = getpid();
    uid_t user = getuid();
    (void)task;
    umask(MASK);
    for (int i = 0; i < ROUNDS; i++) {
        int copy = dup(STDOUT_FILENO);
        succeeded += copy >= 0;
        succeeded += close(copy) == 0;
        succeeded += getpid() == process;
        succeeded += getuid() == user;
        succeeded += umask(MASK) == MASK;
    }
    return succeeded;
}

static const struct parameter tasks[] = {ONE_AND_EIGHT_TASKS("syscall", "syscall", ROUNDS)};

WORKLOAD(.mode = WARM, .pass = run_in_tasks, .parameters = tasks);
