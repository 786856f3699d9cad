// SPDX-License-Identifier: MIT OR Apache-2.0
/* Two processes pass a message to and fro, 1000 times. Each blocks in read() until the other has written.
 * lmbench: lat_pipe, lat_unix, lat_tcp, lat_udp; the summary's rows Pipe, AF UNIX, TCP and UDP.
 *
 * The parameter is the channel: two pipes, a pair of stream sockets, a TCP connection without Nagle's delay,
 * or UDP sockets, both on the loopback device. `size` is the size of the message in bytes. An operation is
 * one round trip. */
#include "loopback.h"
#include "partner.h"

enum { ROUND_TRIPS = 1000, MOST_BYTES = 4 };

static pid_t other;
static int from, to;

static void echo(int source, int target) {
    char message[MOST_BYTES];
    for (;;) {
        read_whole(source, message, parameter->size);
        write_whole(target, message, parameter->size);
    }
}

static void prepare(void) {
    int there[2], back[2];
    if (strcmp(parameter->argument, "pipe") == 0) {
        if (pipe(there) != 0 || pipe(back) != 0)
            fail("pipe: %s", strerror(errno));
        from = back[0];
        to = there[1];
        other = fork_partner();
        if (other == 0)
            echo(there[0], back[1]);
        return;
    }
    if (strcmp(parameter->argument, "tcp") == 0)
        tcp_pair(there);
    else if (strcmp(parameter->argument, "udp") == 0)
        udp_pair(there);
    else if (socketpair(AF_UNIX, SOCK_STREAM, 0, there) != 0)
        fail("socketpair: %s", strerror(errno));
    from = to = there[0];
    other = fork_partner();
    if (other == 0)
        echo(there[1], there[1]);
}

static uint64_t pass(void) {
    uint64_t sum = 0;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        char message[MOST_BYTES] = {(char)(i & 63)};
        write_whole(to, message, parameter->size);
        read_whole(from, message, parameter->size);
        if (message[0] != (i & 63))
            fail("another message came back");
        sum += (uint64_t)message[0];
    }
    return sum;
}

static void finish(void) {
    end_partner(other);
}

#define CHANNEL(channel, bytes)                                                                              \
    { .argument = channel, .name = "lat_" channel, .ops = ROUND_TRIPS, .size = bytes }

static const struct parameter channels[] = {
    CHANNEL("pipe", 1), CHANNEL("unix", 1), CHANNEL("tcp", 1), CHANNEL("udp", 4), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .finish = finish, .parameters = channels);
