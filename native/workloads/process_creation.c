// SPDX-License-Identifier: MIT OR Apache-2.0
/* Forks a child that exits at once, and waits for it, 100 times. UnixBench: Process Creation.
 *
 * The parameter is the number of tasks, or of copies (suite `unix`). */
#include "tasks.h"

enum { PROCESSES = 100, STATUS = 7 };

static uint64_t work(unsigned task) {
    uint64_t exited = 0;
    (void)task;
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = fork_or_fail();
        if (child == 0)
            _exit(STATUS);
        wait_for_exit(child, STATUS);
        exited++;
    }
    return exited;
}

static const struct parameter tasks[] = {ONE_AND_EIGHT_TASKS("process_creation", "spawn", PROCESSES)};

WORKLOAD(.mode = WARM, .pass = run_in_tasks, .parameters = tasks);
