// SPDX-License-Identifier: MIT OR Apache-2.0
#include "keeper.h"

#include "../port/port.h"
#include "kill.h"
#include "observe.h"

enum { KILLED = 5 };
static const int64_t KILL_TIMEOUT_NS = 10 * 1000000000LL;
static const int64_t SHORT_WAIT = 50 * 1000000LL;

/* Reaps children that have ended. Returns true while there are others. */
static bool reap(int worker, bool *ended, int *status) {
    struct port_event event;
    int result;

    while ((result = port_wait(0, &event)) > 0) {
        if (event.pid == worker) {
            *ended = true;
            *status = event.change == PORT_EXITED ? event.value : KILLED;
        }
    }
    return result != -PORT_E_CHILD;
}

/* Waits for a signal, and forwards SIGTERM, SIGINT and SIGHUP to the worker as SIGTERM. */
static void wait_for_signal(int signal_fd, int worker, int64_t wait_ns) {
    struct port_pollfd polled = {signal_fd, PORT_POLL_IN, 0};
    int signal;

    port_poll(&polled, 1, wait_ns);
    while ((signal = port_read_signal(signal_fd)) > 0)
        if (worker > 0 && (signal == PORT_SIG_TERM || signal == PORT_SIG_INT || signal == PORT_SIG_HUP))
            port_kill(worker, PORT_SIG_TERM);
}

static _Noreturn void run_keeper(int worker, int signal_fd) {
    int status = KILLED, null = port_open_null();
    bool ended = false;

    for (int fd = 0; fd <= 2 && null >= 0; fd++) /* only the worker holds the agent's pipes open */
        port_dup2(null, fd);
    for (;;) {
        reap(worker, &ended, &status);
        if (ended)
            break;
        wait_for_signal(signal_fd, worker, -1);
    }
    int64_t give_up_ns = port_now_ns() + KILL_TIMEOUT_NS;
    while (reap(worker, &ended, &status) && port_now_ns() < give_up_ns) {
        for_each_child(port_getpid(), kill_with_group);
        wait_for_signal(signal_fd, 0, SHORT_WAIT);
    }
    port_exit(status);
}

int split_from_keeper(void) {
    int keeper = port_getpid(), result = port_become_subreaper();
    int signal_fd = port_block_signals(); /* before the worker can write its first byte */
    int worker = result < 0 ? result : port_fork();

    if (worker > 0)
        run_keeper(worker, signal_fd);
    if (worker < 0)
        return worker;
    port_close(signal_fd); /* the keeper's; the worker opens its own */
    result = port_set_parent_death_signal(PORT_SIG_TERM);
    if (port_getppid() != keeper) /* the keeper died before the call */
        port_exit(KILLED);
    return result;
}
