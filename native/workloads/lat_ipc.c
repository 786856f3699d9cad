// SPDX-License-Identifier: MIT OR Apache-2.0
/* Two processes pass a message to and fro, 1000 times. Each waits until the other has written. lmbench:
 * lat_pipe, lat_unix, lat_tcp, lat_udp; the summary's rows Pipe, AF UNIX, TCP and UDP.
 *
 * The parameter is the channel: two pipes, a pair of stream sockets, a TCP connection, or UDP sockets, both
 * on the loopback device. `size` is the size of the message in bytes. Over UDP the calls are send() and
 * recv(), and those of the server sendto() and recvfrom() with the client's address; otherwise write() and
 * read(). An operation is one round trip. */
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

static void echo_datagrams(int server) {
    char message[MOST_BYTES];
    for (;;) {
        struct sockaddr_in client;
        socklen_t length = sizeof client;
        ssize_t got = recvfrom(server, message, sizeof message, 0, (struct sockaddr *)&client, &length);
        if (got < 0 || sendto(server, message, (size_t)got, 0, (struct sockaddr *)&client, length) != got)
            fail("recvfrom or sendto: %s", strerror(errno));
    }
}

static void prepare(void) {
    int there[2], back[2];
    if (strcmp(parameter->argument, "pipe") == 0) {
        require(pipe(there) == 0 && pipe(back) == 0, "pipe");
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
    else
        require(socketpair(AF_UNIX, SOCK_STREAM, 0, there) == 0, "socketpair");
    from = to = there[0];
    other = fork_partner();
    if (other == 0 && parameter->pass)
        echo_datagrams(there[1]);
    if (other == 0)
        echo(there[1], there[1]);
}

static uint64_t checked(const char *message, int number) {
    if (message[0] != (number & 63))
        fail("another message came back");
    return (uint64_t)message[0];
}

static uint64_t pass(void) {
    uint64_t sum = 0;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        char message[MOST_BYTES] = {(char)(i & 63)};
        write_whole(to, message, parameter->size);
        read_whole(from, message, parameter->size);
        sum += checked(message, i);
    }
    return sum;
}

static uint64_t datagram_pass(void) {
    uint64_t sum = 0;
    for (int i = 0; i < ROUND_TRIPS; i++) {
        char message[MOST_BYTES] = {(char)(i & 63)};
        if (send(to, message, parameter->size, 0) != (ssize_t)parameter->size ||
            recv(from, message, parameter->size, 0) != (ssize_t)parameter->size)
            fail("send or recv: %s", strerror(errno));
        sum += checked(message, i);
    }
    return sum;
}

static void finish(void) {
    end_partner(other);
}

#define CHANNEL(channel, bytes, own_pass)                                                                    \
    { .argument = channel, .name = "lat_" channel, .ops = ROUND_TRIPS, .size = bytes, .pass = own_pass }

static const struct parameter channels[] = {CHANNEL("pipe", 1, NULL),
                                            CHANNEL("unix", 1, NULL),
                                            CHANNEL("tcp", 1, NULL),
                                            CHANNEL("udp", 4, datagram_pass),
                                            {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .finish = finish, .parameters = channels);
