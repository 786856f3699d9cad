/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sleeps and the time-outs of poll end at once. */
#include "intercept.h"
#include <poll.h>
#include <sched.h>
#include <time.h>

static int skip(void) {
    count();
    sched_yield();
    return 0;
}

int nanosleep(const struct timespec *length, struct timespec *left) {
    (void)length, (void)left;
    return skip();
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *when, struct timespec *left) {
    (void)clock, (void)flags, (void)when, (void)left;
    return skip();
}

int usleep(useconds_t length) {
    (void)length;
    return skip();
}

unsigned sleep(unsigned length) {
    (void)length;
    return (unsigned)skip();
}

int poll(struct pollfd *all, nfds_t number, int timeout_ms) {
    return NEXT(poll)(all, number, timeout_ms > 0 ? skip() : timeout_ms);
}
