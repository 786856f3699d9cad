// SPDX-License-Identifier: MIT OR Apache-2.0
/* A process sends 10 MiB to another, which reads them. lmbench: bw_pipe, bw_unix, bw_tcp; the summary's rows
 * Pipe, AF UNIX and TCP in MB/s.
 *
 * The parameter is the channel: a pipe, a pair of stream sockets, or a TCP connection on the loopback device
 * whose buffers are set to 1 MiB. `size` is the size of a block in bytes, of which each write() sends one and
 * each read() asks for one: 64 KiB, over TCP 10 MiB, the largest message of lmbench's summary, which the
 * summary prints. What is read from the pipe is stored 128 bytes behind the start of a page, as in bw_pipe.
 * An operation is one block. A word on a pipe of its own starts the sender in each pass. */
#include "loopback.h"
#include "partner.h"

enum { BYTES = 10 << 20, BLOCK = 64 << 10, PAGE = 4096, OFFSET = 128, SOCKET_BUFFER = 1 << 20, FILL = 5 };

static char space[BYTES + PAGE] __attribute__((aligned(PAGE))), *block = space;
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
    size_t wanted;
    memset(space, FILL, parameter->size);
    for (;;) {
        read_whole(orders, &wanted, sizeof wanted);
        for (size_t sent = 0; sent < wanted; sent += parameter->size)
            write_all(to, space, parameter->size);
    }
}

static void set_buffer(int any, int which) {
    int size = SOCKET_BUFFER;
    require(setsockopt(any, SOL_SOCKET, which, &size, sizeof size) == 0, "setsockopt");
}

/* Without Nagle's algorithm: the last bytes of a pass would wait for the acknowledgement of those before. */
static void connect_with_buffers(int ends[2]) {
    tcp_pair(ends);
    set_buffer(ends[0], SO_RCVBUF);
    set_buffer(ends[0], SO_SNDBUF);
    set_buffer(ends[1], SO_SNDBUF);
    set_no_delay(ends[1]);
}

static void prepare(void) {
    int orders[2], ends[2];
    require(pipe(orders) == 0, "pipe");
    if (strcmp(parameter->argument, "tcp") == 0)
        connect_with_buffers(ends);
    else if (strcmp(parameter->argument, "pipe") == 0)
        require(pipe(ends) == 0, "pipe");
    else
        require(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0, "socketpair");
    sender = fork_partner();
    if (sender == 0)
        send_blocks(orders[0], ends[1]);
    if (strcmp(parameter->argument, "pipe") == 0)
        block = space + OFFSET;
    close(ends[1]);
    from = ends[0];
    start = orders[1];
}

static uint64_t pass(void) {
    uint64_t received = 0;
    size_t wanted = BYTES;
    write_whole(start, &wanted, sizeof wanted);
    while (received < wanted) {
        ssize_t got = read(from, block, parameter->size);
        if (got <= 0 || block[0] != FILL || block[got - 1] != FILL)
            fail("read: %s", got < 0 ? strerror(errno) : "other bytes than were sent");
        received += (uint64_t)got;
    }
    return received;
}

static void finish(void) {
    end_partner(sender);
}

#define CHANNEL(channel, bytes)                                                                              \
    { .argument = channel, .name = "bw_" channel, .ops = BYTES / (bytes), .size = bytes }

static const struct parameter channels[] = {
    CHANNEL("pipe", BLOCK), CHANNEL("unix", BLOCK), CHANNEL("tcp", BYTES), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .finish = finish, .parameters = channels);
