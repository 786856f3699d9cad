// SPDX-License-Identifier: MIT OR Apache-2.0
/* Passes a token of four bytes around a ring of processes that are connected by pipes. Each process that gets
 * it sums an array of its own and passes it on. lmbench: lat_ctx; the summary's rows 2p/0K to 16p/64K ctxsw.
 *
 * The parameter is PROCESSES:KIB, the number of processes and the size of each array in KiB. `size` is the
 * number of processes. With one process, the token goes through its own pipe: the same calls and the same
 * sum without a switch. lmbench's figure is the time of a ring less that time. An operation is one transfer,
 * i.e. read(), the sum and write(). */
#include "partner.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_PROCESSES = 16, MOST_WORDS = 64 * 1024 / 4, TRANSFERS = 1600 };

static uint32_t array[MOST_WORDS];
static size_t words;
static pid_t others[MOST_PROCESSES];
static int from, to;

static uint32_t sum_of_array(void) {
    uint32_t sum = 0;
    for (size_t i = 0; i < words; i++)
        sum += array[i];
    compiler_barrier();
    return sum;
}

/* Adds the sum to the token, so that no process can leave it out. */
static void pass_on(int source, int target) {
    uint32_t token;
    read_whole(source, &token, sizeof token);
    token += sum_of_array();
    write_whole(target, &token, sizeof token);
}

static void prepare(void) {
    unsigned processes, kib;
    int ring[MOST_PROCESSES][2];
    if (sscanf(parameter->argument, "%u:%u", &processes, &kib) != 2 || processes != parameter->size)
        fail("the parameter is not PROCESSES:KIB of the table");
    words = kib * 1024 / sizeof *array;
    for (size_t i = 0; i < words; i++)
        array[i] = 1;
    for (unsigned i = 0; i < processes; i++)
        if (pipe(ring[i]) != 0)
            fail("pipe: %s", strerror(errno));
    for (unsigned i = 1; i < processes; i++) {
        others[i] = fork_partner();
        if (others[i] == 0) {
            array[0] = 1; /* a copy of its own of every page */
            for (size_t at = 0; at < words; at += 1024)
                array[at] = 1;
            for (;;)
                pass_on(ring[i - 1][0], ring[i][1]);
        }
    }
    from = ring[processes - 1][0];
    to = ring[0][1];
}

static uint64_t pass(void) {
    uint32_t token = 0;
    unsigned rounds = TRANSFERS / (unsigned)parameter->size;
    write_whole(to, &token, sizeof token);
    for (unsigned i = 1; i < rounds; i++)
        pass_on(from, to);
    read_whole(from, &token, sizeof token);
    token += sum_of_array();
    if (token != TRANSFERS * (uint32_t)words)
        fail("a process did not add its sum to the token");
    return token;
}

static void finish(void) {
    for (size_t i = 1; i < parameter->size; i++)
        end_partner(others[i]);
}

#define RING(processes, kib)                                                                                 \
    {                                                                                                        \
        .argument = #processes ":" #kib, .name = "lat_ctx(" #processes "," #kib ")", .ops = TRANSFERS,       \
        .size = processes                                                                                    \
    }

static const struct parameter rings[] = {RING(1, 0),  RING(2, 0),   RING(1, 16), RING(2, 16),
                                         RING(8, 16), RING(16, 16), RING(1, 64), RING(2, 64),
                                         RING(8, 64), RING(16, 64), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .finish = finish, .parameters = rings);
