// SPDX-License-Identifier: MIT OR Apache-2.0
/* A child process replaces itself by its own program with execl(), 25 times. UnixBench: Execl Throughput.
 *
 * The parameter is the number of tasks, or of copies (suite `unix`). The program's own arguments are "-", the
 * number of starts that remain, the number of starts so far and the time of the first one in seconds. As the
 * original does, each start converts two numbers with atoi() and one with sscanf(), reads the time, and
 * prints two numbers for the next one, here three. */
#include "tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { STARTS = 25, NUMBER_TEXT = 24, EXEC_FAILED = 127 };

static char path[4096];

static void prepare(void) {
    program_path(path, sizeof path);
}

static void reexec(const char *program, int remaining, int started, unsigned long begun) {
    char remaining_text[NUMBER_TEXT], started_text[NUMBER_TEXT], begun_text[NUMBER_TEXT];
    snprintf(remaining_text, sizeof remaining_text, "%d", remaining);
    snprintf(started_text, sizeof started_text, "%d", started);
    snprintf(begun_text, sizeof begun_text, "%lu", begun);
    execl(program, program, "-", remaining_text, started_text, begun_text, (char *)NULL);
    _exit(EXEC_FAILED);
}

/* main() of the program after execl(). The exit status of the last start is the number of starts. */
static int reexec_main(int count, char **arguments) {
    unsigned long begun;
    if (count != 5)
        return EXEC_FAILED;
    int remaining = atoi(arguments[2]), started = atoi(arguments[3]);
    if (sscanf(arguments[4], "%lu", &begun) != 1 || time(NULL) == (time_t)-1)
        return EXEC_FAILED;
    if (remaining > 0)
        reexec(arguments[0], remaining - 1, started + 1, begun);
    return started;
}

static uint64_t work(unsigned task) {
    (void)task;
    pid_t child = fork_or_fail();
    if (child == 0)
        reexec(path, STARTS - 1, 1, (unsigned long)time(NULL));
    wait_for_exit(child, STARTS);
    return STARTS;
}

static const struct parameter tasks[] = {ONE_AND_EIGHT_TASKS("exec", "execl", STARTS)};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = run_in_tasks, .parameters = tasks,
         .reexec_main = reexec_main);
