/* A process replaces itself 25 times by its own program, started anew. It is told how often it still has to,
 * and how often it has. */
#include "tasks.h"

#include <stdio.h>
#include <stdlib.h>

enum { STARTS = 25, COUNT_TEXT = 16, COULD_NOT_START = 127 };

static char path[4096];

static void prepare(void) {
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0)
        fail("readlink /proc/self/exe: %s", strerror(errno));
    path[length] = 0;
}

static void start_anew(char *program, int left, int done) {
    char option[] = "-", left_text[COUNT_TEXT], done_text[COUNT_TEXT];
    char *arguments[] = {program, option, left_text, done_text, NULL};
    snprintf(left_text, sizeof left_text, "%d", left);
    snprintf(done_text, sizeof done_text, "%d", done);
    execv(program, arguments);
    _exit(COULD_NOT_START);
}

/* The program, started anew. The last one's status is the number of starts. */
static int started_anew(int count, char **arguments) {
    if (count != 4)
        return COULD_NOT_START;
    int left = atoi(arguments[2]), done = atoi(arguments[3]);
    if (left > 0)
        start_anew(arguments[0], left - 1, done + 1);
    return done;
}

static uint64_t work(unsigned task) {
    (void)task;
    pid_t child = start_child();
    if (child == 0)
        start_anew(path, STARTS - 1, 1);
    await_child(child, STARTS);
    return STARTS;
}

static uint64_t pass(void) {
    return in_tasks(work);
}

static const struct parameter tasks[] = {ONE_AND_EIGHT("exec", STARTS)};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = tasks, .started_anew = started_anew);
