// SPDX-License-Identifier: MIT OR Apache-2.0
/* A child process replaces itself by its own program with execv(), 25 times. UnixBench: Execl Throughput.
 *
 * The parameter is the number of tasks, or of copies (suite `unix`). The program's own arguments are "-", the
 * number of starts that remain and the number of starts so far. */
#include "tasks.h"

#include <stdio.h>
#include <stdlib.h>

enum { STARTS = 25, COUNT_TEXT = 16, EXEC_FAILED = 127 };

static char path[4096];

static void prepare(void) {
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        fail("readlink /proc/self/exe: %s", strerror(errno));
    path[length] = 0;
}

static void reexec(char *program, int remaining, int started) {
    char option[] = "-", remaining_text[COUNT_TEXT], started_text[COUNT_TEXT];
    char *arguments[] = {program, option, remaining_text, started_text, NULL};
    snprintf(remaining_text, sizeof remaining_text, "%d", remaining);
    snprintf(started_text, sizeof started_text, "%d", started);
    execv(program, arguments);
    _exit(EXEC_FAILED);
}

/* main() of the program after execv(). The exit status of the last start is the number of starts. */
static int reexec_main(int count, char **arguments) {
    if (count != 4)
        return EXEC_FAILED;
    int remaining = atoi(arguments[2]), started = atoi(arguments[3]);
    if (remaining > 0)
        reexec(arguments[0], remaining - 1, started + 1);
    return started;
}

static uint64_t work(unsigned task) {
    (void)task;
    pid_t child = fork_or_fail();
    if (child == 0)
        reexec(path, STARTS - 1, 1);
    wait_for_exit(child, STARTS);
    return STARTS;
}

static uint64_t pass(void) {
    return run_in_tasks(work);
}

static const struct parameter tasks[] = {ONE_AND_EIGHT_TASKS("exec", "execl", STARTS)};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = tasks, .reexec_main = reexec_main);
