// SPDX-License-Identifier: MIT OR Apache-2.0
/* Two processes send an increasing number, an unsigned long, back and forth through two pipes, 2000 times.
 * Each blocks in read() until the other writes. UnixBench: Pipe-based Context Switching.
 *
 * The parameter is the number of tasks, or of copies (suite `unix`): pairs of processes. */
#include "tasks.h"

enum { ROUND_TRIPS = 2000 };

static void send_number(int pipe, unsigned long number) {
    if (write(pipe, &number, sizeof number) != sizeof number)
        fail("write to a pipe: %s", strerror(errno));
}

static void receive_number(int pipe, unsigned long number) {
    unsigned long received;
    ssize_t size = read(pipe, &received, sizeof received);
    if (size != sizeof received)
        fail("read from a pipe: %s", size < 0 ? strerror(errno) : "end of file");
    if (received != number)
        fail("read from a pipe: an unexpected number");
}

static void run_partner(int from, int to) {
    for (unsigned long i = 0; i < ROUND_TRIPS; i++) {
        receive_number(from, i);
        send_number(to, i);
    }
    _exit(0);
}

static uint64_t work(unsigned task) {
    int request[2], reply[2];
    uint64_t transfers = 0;
    (void)task;
    require(pipe(request) == 0 && pipe(reply) == 0, "pipe");
    pid_t partner = fork_or_fail();
    if (partner == 0) {
        close(request[1]); /* a read() then returns 0 when the other process ends */
        close(reply[0]);
        run_partner(request[0], reply[1]);
    }
    close(request[0]);
    close(reply[1]);
    for (unsigned long i = 0; i < ROUND_TRIPS; i++) {
        send_number(request[1], i);
        receive_number(reply[0], i);
        transfers += 2;
    }
    wait_for_exit(partner, 0);
    close(request[1]);
    close(reply[0]);
    return transfers;
}

static const struct parameter tasks[] = {ONE_AND_EIGHT_TASKS("context_switch", "context1", ROUND_TRIPS)};

WORKLOAD(.mode = WARM, .pass = run_in_tasks, .parameters = tasks);
