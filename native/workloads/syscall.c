/* Five cheap system calls in turn, 4000 times: duplicate a descriptor, close it, ask for the process, ask for
 * the user, set the file mask. */
#include "tasks.h"

#include <sys/stat.h>

enum { ROUNDS = 4000, MASK = 022 };

static uint64_t work(unsigned task) {
    uint64_t good = 0;
    pid_t process = getpid();
    uid_t user = getuid();
    (void)task;
    umask(MASK);
    for (int i = 0; i < ROUNDS; i++) {
        int copy = dup(STDOUT_FILENO);
        good += copy >= 0;
        good += close(copy) == 0;
        good += getpid() == process;
        good += getuid() == user;
        good += umask(MASK) == MASK;
    }
    return good;
}

static uint64_t pass(void) {
    return in_tasks(work);
}

static const struct parameter tasks[] = {ONE_AND_EIGHT("syscall", ROUNDS)};

WORKLOAD(.mode = WARM, .pass = pass, .parameters = tasks);
