/* Start a process that ends at once, and wait for its end, 100 times. */
#include "tasks.h"

enum { PROCESSES = 100, STATUS = 7 };

static uint64_t work(unsigned task) {
    uint64_t ended = 0;
    (void)task;
    for (int i = 0; i < PROCESSES; i++) {
        pid_t child = start_child();
        if (child == 0)
            _exit(STATUS);
        await_child(child, STATUS);
        ended++;
    }
    return ended;
}

static uint64_t pass(void) {
    return in_tasks(work);
}

static const struct parameter tasks[] = {ONE_AND_EIGHT("process_creation", PROCESSES)};

WORKLOAD(.mode = WARM, .pass = pass, .parameters = tasks);
