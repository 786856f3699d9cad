// SPDX-License-Identifier: MIT OR Apache-2.0
/* Writes 512 bytes to a pipe and reads them back, in one process, 4000 times. UnixBench: Pipe Throughput.
 *
 * The parameter is the number of tasks, or of copies (suite `unix`). */
#include "tasks.h"

enum { ROUNDS = 4000, BLOCK = 512 };

static uint64_t work(unsigned task) {
    union {
        uint64_t number;
        char bytes[BLOCK];
    } block = {0};
    uint64_t sum = 0;
    int ends[2];
    (void)task;
    require(pipe(ends) == 0, "pipe");
    for (uint64_t i = 1; i <= ROUNDS; i++) {
        block.number = i;
        if (write(ends[1], block.bytes, BLOCK) != BLOCK)
            fail("write to a pipe: %s", strerror(errno));
        block.number = 0;
        if (read(ends[0], block.bytes, BLOCK) != BLOCK)
            fail("read from a pipe: %s", strerror(errno));
        sum += block.number;
    }
    close(ends[0]);
    close(ends[1]);
    return sum;
}

static const struct parameter tasks[] = {ONE_AND_EIGHT_TASKS("pipe", "pipe", ROUNDS)};

WORKLOAD(.mode = WARM, .pass = run_in_tasks, .parameters = tasks);
