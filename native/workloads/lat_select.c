// SPDX-License-Identifier: MIT OR Apache-2.0
/* select() of 100 descriptors for writing, without waiting, 1000 times. lmbench: lat_select file, tcp; the
 * summary's rows 100fd selct and slct TCP.
 *
 * The parameter is the kind of the descriptors: copies, made by dup(), of one open regular file or of one
 * connected TCP socket. All of them are ready. select() gets their number, 100, as its first argument, so it
 * examines the descriptors below 100 only. `size` is how many of the set those are: in lmbench, the process
 * has eight other descriptors below 100 (files) or nine (a listening socket more). */
#include "loopback.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/select.h>

enum { CALLS = 1000, DESCRIPTORS = 100, OTHERS = 400 };

static fd_set all;

/* The other end of the connection gets a number outside the set. */
static int connection(void) {
    struct sockaddr_in address;
    int listener = listening_socket(&address), connected = connected_socket(&address);
    int other = accepted_socket(listener);
    require(fcntl(other, F_DUPFD, OTHERS) >= 0, "fcntl");
    close(other);
    close(listener);
    return connected;
}

/* The highest number of a descriptor is OTHERS. The process may raise its soft limit up to the hard one. */
static void allow_descriptors(void) {
    const rlim_t needed = OTHERS + 1;
    struct rlimit files;
    require(getrlimit(RLIMIT_NOFILE, &files) == 0, "getrlimit");
    if (files.rlim_cur >= needed)
        return;
    if (files.rlim_max < needed)
        fail("it needs %u open files, and the limit is %u: raise it with 'ulimit -n %u', then start "
             "swapstone again",
             (unsigned)needed, (unsigned)files.rlim_max, (unsigned)needed);
    files.rlim_cur = needed;
    require(setrlimit(RLIMIT_NOFILE, &files) == 0, "setrlimit");
}

static void prepare(void) {
    allow_descriptors();
    int original = strcmp(parameter->text, "tcp") == 0 ? connection() : unnamed_file();
    for (size_t i = 0; i < DESCRIPTORS; i++) {
        int copy = i < parameter->size ? dup(original) : fcntl(original, F_DUPFD, DESCRIPTORS);
        if (copy < 0 || copy >= OTHERS || (i < parameter->size && copy >= DESCRIPTORS))
            fail("a descriptor can't be created, or too many are open");
        FD_SET(copy, &all);
    }
}

static uint64_t pass(void) {
    uint64_t ready = 0;
    for (int i = 0; i < CALLS; i++) {
        fd_set wanted = all;
        struct timeval none = {0, 0};
        ready += (uint64_t)select(DESCRIPTORS, NULL, &wanted, NULL, &none);
    }
    return ready;
}

#define KIND(kind, examined)                                                                                 \
    {                                                                                                        \
        .argument = kind ":100", .name = "lat_select(" kind ",100)", .ops = CALLS, .size = examined,         \
        .text = kind                                                                                         \
    }

static const struct parameter kinds[] = {KIND("file", 92), KIND("tcp", 91), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = kinds);
