// SPDX-License-Identifier: MIT OR Apache-2.0
/* A process sends 8 MiB in blocks of 64 KiB to another, which reads them. lmbench: bw_pipe, bw_unix, bw_tcp;
 * the summary's rows Pipe, AF UNIX and TCP in MB/s.
 *
 * The parameter is the channel: a pipe, a pair of stream sockets, or a TCP connection on the loopback device.
 * An operation is one block. A byte on a pipe of its own starts the sender in each pass. */
#include "loopback.h"
#include "partner.h"

enum { BLOCK = 65536, BLOCKS = 128, FILL = 5 };

static char block[BLOCK];
static pid_t sender;
static int from, start;

static void write_all(int file, const char *bytes, size_t size) {
    while (size) {
        ssize_t wrote = write(file, bytes, size);
        if (wrote <= 0)
            fail("write: %s", strerror(errno));
        bytes += wrote;
        size -= (size_t)wrote;
    }
}

static void send_blocks(int orders, int to) {
    char byte;
    memset(block, FILL, sizeof block);
    for (;;) {
        read_whole(orders, &byte, 1);
        for (int i = 0; i < BLOCKS; i++)
            write_all(to, block, sizeof block);
    }
}

static void prepare(void) {
    int orders[2], ends[2];
    if (pipe(orders) != 0)
        fail("pipe: %s", strerror(errno));
    if (strcmp(parameter->argument, "tcp") == 0)
        tcp_pair(ends);
    else if (strcmp(parameter->argument, "pipe") == 0 ? pipe(ends)
                                                      : socketpair(AF_UNIX, SOCK_STREAM, 0, ends))
        fail("pipe or socketpair: %s", strerror(errno));
    sender = fork_partner();
    if (sender == 0)
        send_blocks(orders[0], ends[1]);
    close(ends[1]);
    from = ends[0];
    start = orders[1];
}

static uint64_t pass(void) {
    uint64_t received = 0;
    write_whole(start, "", 1);
    while (received < (uint64_t)BLOCK * BLOCKS) {
        ssize_t got = read(from, block, sizeof block);
        if (got <= 0 || block[0] != FILL || block[got - 1] != FILL)
            fail("read: %s", got < 0 ? strerror(errno) : "other bytes than were sent");
        received += (uint64_t)got;
    }
    return received;
}

static void finish(void) {
    end_partner(sender);
}

#define CHANNEL(channel)                                                                                     \
    { .argument = channel, .name = "bw_" channel, .ops = BLOCKS }

static const struct parameter channels[] = {CHANNEL("pipe"), CHANNEL("unix"), CHANNEL("tcp"), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .finish = finish, .parameters = channels);
