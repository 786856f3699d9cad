// SPDX-License-Identifier: MIT OR Apache-2.0
/* Passes a token of four bytes around a ring of processes that are connected by pipes. Each process that gets
 * it sums an array of its own and passes it on. lmbench: lat_ctx; the summary's rows 2p/0K to 16p/64K ctxsw.
 *
 * The parameter is PROCESSES:KIB, the number of processes and the size of each array in KiB. `size` is the
 * number of processes. With one process, the token goes through 96 pipes of its own in turn, as many as
 * lmbench's summary has processes at most: the same calls and the same sum without a switch. lmbench's figure
 * is the time of a ring less that time. An operation is one transfer, i.e. read(), the sum and write(). */
#include "mapped_file.h"
#include "partner.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_PROCESSES = 16, OWN_PIPES = 96, MOST_WORDS = 64 * 1024 / sizeof(long), TRANSFERS = 1600 };

static unsigned long array[MOST_WORDS];
static size_t words;
static pid_t others[MOST_PROCESSES];
static int pipes[OWN_PIPES][2], from, to;

/* The size of the array in bytes: the sum of its words times their size, which differs between processors. */
static uint32_t sum_of_array(void) {
    unsigned long sum = sum_of_longs(array, words * sizeof *array);
    compiler_barrier();
    return (uint32_t)(sum * sizeof *array);
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
    if (sscanf(parameter->argument, "%u:%u", &processes, &kib) != 2 || processes != parameter->size)
        fail("the parameter is not PROCESSES:KIB of the table");
    words = kib * 1024 / sizeof *array;
    for (size_t i = 0; i < words; i++)
        array[i] = 1;
    for (unsigned i = 0; i < (processes == 1 ? OWN_PIPES : processes); i++)
        require(pipe(pipes[i]) == 0, "pipe");
    for (unsigned i = 1; i < processes; i++) {
        others[i] = fork_partner();
        if (others[i] == 0) {
            array[0] = 1; /* a copy of its own of every page */
            for (size_t at = 0; at < words; at += 4096 / sizeof *array)
                array[at] = 1;
            for (;;)
                pass_on(pipes[i - 1][0], pipes[i][1]);
        }
    }
    from = pipes[processes - 1][0];
    to = pipes[0][1];
}

/* Passes the token to itself. */
static uint32_t pass_alone(void) {
    uint32_t token = 0;
    for (unsigned i = 0; i < TRANSFERS; i++) {
        const int *own = pipes[i % OWN_PIPES];
        write_whole(own[1], &token, sizeof token);
        read_whole(own[0], &token, sizeof token);
        token += sum_of_array();
    }
    return token;
}

static uint32_t pass_around(void) {
    uint32_t token = 0;
    unsigned rounds = TRANSFERS / (unsigned)parameter->size;
    write_whole(to, &token, sizeof token);
    for (unsigned i = 1; i < rounds; i++)
        pass_on(from, to);
    read_whole(from, &token, sizeof token);
    return token + sum_of_array();
}

static uint64_t pass(void) {
    uint32_t token = parameter->size == 1 ? pass_alone() : pass_around();
    if (token != TRANSFERS * (uint32_t)(words * sizeof *array))
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
