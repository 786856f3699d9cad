// SPDX-License-Identifier: MIT OR Apache-2.0
/* Starts a program that returns from main() at once, and waits for it, 20 times. The program is the
 * workload's own with the argument "-". Not from a published benchmark. */
#include "harness.h"

#include <errno.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { STARTS = 20 };

static char path[4096];

static void prepare(void) {
    program_path(path, sizeof path);
}

static uint64_t pass(void) {
    char *arguments[] = {path, "-", NULL};
    for (int i = 0; i < STARTS; i++) {
        int status;
        pid_t child = fork();
        if (child == 0) {
            execv(path, arguments);
            _exit(127);
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            fail("fork or waitpid: %s", strerror(errno));
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
            fail("the started program ended with wait status %d", status);
    }
    return STARTS;
}

WORKLOAD(.name = "startup", .mode = WARM, .ops = STARTS, .prepare = prepare, .pass = pass);
