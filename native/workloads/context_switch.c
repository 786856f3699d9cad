/* Two processes hand a number to and fro 2000 times through two pipes; each waits for the other's. */
#include "tasks.h"

enum { ROUND_TRIPS = 2000 };

static void send_number(int pipe, uint32_t number) {
    if (write(pipe, &number, sizeof number) != sizeof number)
        fail("write to a pipe: %s", strerror(errno));
}

static void expect_number(int pipe, uint32_t number) {
    uint32_t came;
    ssize_t size = read(pipe, &came, sizeof came);
    if (size != sizeof came)
        fail("read from a pipe: %s", size < 0 ? strerror(errno) : "its other end is closed");
    if (came != number)
        fail("another number came than was due");
}

static void answer(int from, int to) {
    for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
        expect_number(from, 2 * i);
        send_number(to, 2 * i + 1);
    }
    _exit(0);
}

static uint64_t work(unsigned task) {
    int there[2], back[2];
    uint64_t handed = 0;
    (void)task;
    if (pipe(there) != 0 || pipe(back) != 0)
        fail("pipe: %s", strerror(errno));
    pid_t partner = start_child();
    if (partner == 0) {
        close(there[1]); /* so that either sees the other's end */
        close(back[0]);
        answer(there[0], back[1]);
    }
    close(there[0]);
    close(back[1]);
    for (uint32_t i = 0; i < ROUND_TRIPS; i++) {
        send_number(there[1], 2 * i);
        expect_number(back[0], 2 * i + 1);
        handed += 2;
    }
    await_child(partner, 0);
    close(there[1]);
    close(back[0]);
    return handed;
}

static uint64_t pass(void) {
    return in_tasks(work);
}

static const struct parameter tasks[] = {ONE_AND_EIGHT("context_switch", ROUND_TRIPS)};

WORKLOAD(.mode = WARM, .pass = pass, .parameters = tasks);
