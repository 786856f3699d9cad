// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the workloads of the suite `os` that exchange messages with other processes: processes that live
 * from prepare() to finish(), so that starting them is no part of a pass, and whole reads and writes. */
#ifndef SWAPSTONE_PARTNER_H
#define SWAPSTONE_PARTNER_H

#include "children.h"

#include <signal.h>
#include <sys/prctl.h>

/* Forks a process that the kernel kills when the measured process ends, however that happens. */
static inline pid_t fork_partner(void) {
    pid_t parent = getpid(), child = fork_or_fail();
    if (child == 0 && (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent))
        _exit(1);
    return child;
}

static inline void end_partner(pid_t child) {
    require(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child, "kill or waitpid");
}

static inline void write_whole(int file, const void *bytes, size_t size) {
    if (write(file, bytes, size) != (ssize_t)size)
        fail("write of %zu bytes: %s", size, strerror(errno));
}

/* Reads a message that arrives in one piece. */
static inline void read_whole(int file, void *bytes, size_t size) {
    ssize_t got = read(file, bytes, size);
    if (got != (ssize_t)size)
        fail("read of %zu bytes: %s", size, got < 0 ? strerror(errno) : "too few");
}

#endif
