// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the workloads of the suite `os` that use TCP and UDP: sockets on the loopback device, which a
 * virtual machine starts without. */
#ifndef SWAPSTONE_LOOPBACK_H
#define SWAPSTONE_LOOPBACK_H

#include "harness.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

/* Connections that may wait for accept(). With a short queue the kernel drops SYN segments, and connect()
 * measures their retransmission. */
enum { BACKLOG = 128 };

/* Sets the device up unless it is; the kernel then gives it 127.0.0.1. */
static inline void set_loopback_up(void) {
    struct ifreq request = {0};
    int any = socket(AF_INET, SOCK_DGRAM, 0);
    if (any < 0)
        fail("socket: %s", strerror(errno));
    strcpy(request.ifr_name, "lo");
    require(ioctl(any, SIOCGIFFLAGS, &request) == 0, "the loopback device can't be read");
    if (!(request.ifr_flags & IFF_UP)) {
        request.ifr_flags |= IFF_UP;
        require(ioctl(any, SIOCSIFFLAGS, &request) == 0, "the loopback device is down and can't be set up");
    }
    close(any);
}

/* Returns a socket with a port of 127.0.0.1 that the kernel chooses, and its address. */
static inline int bound_socket(int type, struct sockaddr_in *address) {
    socklen_t size = sizeof *address;
    set_loopback_up();
    int bound = socket(AF_INET, type, 0);
    *address = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    require(bound >= 0 && bind(bound, (struct sockaddr *)address, sizeof *address) == 0 &&
                getsockname(bound, (struct sockaddr *)address, &size) == 0,
            "bind to the loopback device");
    return bound;
}

static inline int listening_socket(struct sockaddr_in *address) {
    int bound = bound_socket(SOCK_STREAM, address);
    require(listen(bound, BACKLOG) == 0, "listen");
    return bound;
}

static inline void connect_to(int any, const struct sockaddr_in *address) {
    if (connect(any, (const struct sockaddr *)address, sizeof *address) != 0)
        fail("connect: %s", strerror(errno));
}

static inline int connected_socket(const struct sockaddr_in *address) {
    int any = socket(AF_INET, SOCK_STREAM, 0);
    if (any < 0)
        fail("socket: %s", strerror(errno));
    connect_to(any, address);
    return any;
}

static inline int accepted_socket(int listener) {
    int any = accept(listener, NULL, NULL);
    if (any < 0)
        fail("accept: %s", strerror(errno));
    return any;
}

/* Sends each message at once, without waiting for more of them. */
static inline void set_no_delay(int any) {
    int on = 1;
    require(setsockopt(any, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0, "setsockopt");
}

/* Two connected TCP sockets. */
static inline void tcp_pair(int ends[2]) {
    struct sockaddr_in address;
    int listener = listening_socket(&address);
    ends[0] = connected_socket(&address);
    ends[1] = accepted_socket(listener);
    close(listener);
}

/* Two UDP sockets: a client's, which is connected, and a server's, which answers each sender. */
static inline void udp_pair(int ends[2]) {
    struct sockaddr_in server;
    ends[1] = bound_socket(SOCK_DGRAM, &server);
    ends[0] = socket(AF_INET, SOCK_DGRAM, 0);
    if (ends[0] < 0)
        fail("socket: %s", strerror(errno));
    connect_to(ends[0], &server);
}

#endif
