/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* TCP sockets send small segments at once (tcp(7), TCP_NODELAY). */
#include "intercept.h"
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static int set(int fd) {
    int on = 1;

    if (fd >= 0 && setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0)
        count();
    return fd;
}

int socket(int domain, int type, int protocol) {
    return set(NEXT(socket)(domain, type, protocol));
}

int accept(int fd, struct sockaddr *name, socklen_t *length) {
    return set(NEXT(accept)(fd, name, length));
}

int accept4(int fd, struct sockaddr *name, socklen_t *length, int flags) {
    return set(NEXT(accept4)(fd, name, length, flags));
}
