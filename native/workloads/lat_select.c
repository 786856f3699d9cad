// SPDX-License-Identifier: MIT OR Apache-2.0
/* select() of 100 descriptors for writing, without waiting, 1000 times. lmbench: lat_select file, tcp; the
 * summary's rows 100fd selct and slct TCP.
 *
 * The parameter is the kind of the descriptors: an open regular file, or connected TCP sockets. All of them
 * are ready. `size` is their number. */
#include "loopback.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/select.h>

enum { CALLS = 1000, DESCRIPTORS = 100, OTHERS = 400 };

static fd_set all;
static int limit;

static void add(int descriptor) {
    if (descriptor < 0 || descriptor >= OTHERS)
        fail("a descriptor can't be created: %s", strerror(errno));
    FD_SET(descriptor, &all);
    if (descriptor >= limit)
        limit = descriptor + 1;
}

static void add_files(void) {
    char path[] = "./swapstone-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || unlink(path) != 0)
        fail("can't create a file in the working directory: %s", strerror(errno));
    add(file);
    for (size_t i = 1; i < parameter->size; i++)
        add(dup(file));
}

/* The other end of each connection gets a number outside the set. */
static void add_connections(void) {
    struct sockaddr_in address;
    int listener = listening_socket(&address);
    for (size_t i = 0; i < parameter->size; i++) {
        add(connected_socket(&address));
        int other = accepted_socket(listener);
        if (fcntl(other, F_DUPFD, OTHERS) < 0)
            fail("fcntl: %s", strerror(errno));
        close(other);
    }
}

static void prepare(void) {
    if (strcmp(parameter->text, "tcp") == 0)
        add_connections();
    else
        add_files();
}

static uint64_t pass(void) {
    uint64_t ready = 0;
    for (int i = 0; i < CALLS; i++) {
        fd_set wanted = all;
        struct timeval none = {0, 0};
        ready += (uint64_t)select(limit, NULL, &wanted, NULL, &none);
    }
    return ready;
}

#define KIND(kind)                                                                                           \
    {                                                                                                        \
        .argument = kind ":100", .name = "lat_select(" kind ",100)", .ops = CALLS, .size = DESCRIPTORS,      \
        .text = kind                                                                                         \
    }

static const struct parameter kinds[] = {KIND("file"), KIND("tcp"), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = kinds);
