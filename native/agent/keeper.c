// SPDX-License-Identifier: MIT OR Apache-2.0
#include "keeper.h"

#include "../port/port.h"
#include "kill.h"
#include "observe.h"

enum { STANDARD_OUTPUT = 1, KILLED = 5 };
static const int64_t KILL_TIMEOUT_NS = 10 * 1000000000LL;
static const int64_t STOPPED_TIMEOUT_NS = 1000000000LL; /* for a worker that is stopped, to continue */
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

/* Waits for a signal, and forwards SIGTERM, SIGINT and SIGHUP to the worker as SIGTERM. Returns whether the
 * agent is to end: after these signals, or because the reader of `output`, which may be negative, is gone. */
static bool wait_for_end(int signal_fd, int output, int worker, int64_t wait_ns) {
    struct port_pollfd polled[] = {{signal_fd, PORT_POLL_IN, 0}, {output, 0, 0}};
    int signal;

    port_poll(polled, 2, wait_ns);
    bool ends = polled[1].revents & (PORT_POLL_ERR | PORT_POLL_HUP | PORT_POLL_NVAL);
    while ((signal = port_read_signal(signal_fd)) > 0) {
        if (signal == PORT_SIG_TERM || signal == PORT_SIG_INT || signal == PORT_SIG_HUP) {
            if (worker > 0)
                port_kill(worker, PORT_SIG_TERM);
            ends = true;
        }
    }
    return ends;
}

/* Whether a process does not run: a signal or a debugger has stopped it, or it has ended. */
static bool is_halted(int pid) {
    char stat[512];
    const char *name_end = stat;

    if (!read_text(open_proc_file(pid, "stat"), stat, sizeof stat))
        return false;
    for (const char *at = stat; *at; at++)
        name_end = *at == ')' ? at : name_end;
    return text_after(name_end, ") T") || text_after(name_end, ") t") || text_after(name_end, ") Z");
}

/* Lets a worker that is to end continue, and kills it if it does not end in time: a program under test may
 * have stopped it, or be its debugger. Then the worker can't be reaped before its debugger ends, which is a
 * child of the keeper by then. */
static void end_worker(int worker, int64_t asked_ns) {
    int64_t waited_ns = port_now_ns() - asked_ns;

    if (waited_ns >= (is_halted(worker) ? STOPPED_TIMEOUT_NS : KILL_TIMEOUT_NS))
        for_each_child(port_getpid(), kill_with_group);
    else
        port_kill(worker, PORT_SIG_CONT);
}

static _Noreturn void run_keeper(int worker, int signal_fd) {
    int status = KILLED, null = port_open_null();
    int64_t asked_ns = -1; /* when the worker was to end; negative if it is not */
    bool ended = false;

    port_set_parent_death_signal(PORT_SIG_CONT); /* so that a keeper that is stopped notices it */
    for (int fd = 0; fd <= 2 && null >= 0; fd++) /* only the worker reads the plan */
        if (fd != STANDARD_OUTPUT)
            port_dup2(null, fd);
    for (;;) {
        reap(worker, &ended, &status);
        if (ended)
            break;
        if (asked_ns >= 0)
            end_worker(worker, asked_ns);
        if (wait_for_end(signal_fd, asked_ns < 0 ? STANDARD_OUTPUT : -1, worker,
                         asked_ns < 0 ? -1 : SHORT_WAIT) &&
            asked_ns < 0)
            asked_ns = port_now_ns();
    }
    if (null >= 0) /* the reader of the answers notices the end of the worker */
        port_dup2(null, STANDARD_OUTPUT);
    int64_t give_up_ns = port_now_ns() + KILL_TIMEOUT_NS;
    while (reap(worker, &ended, &status) && port_now_ns() < give_up_ns) {
        for_each_child(port_getpid(), kill_with_group);
        wait_for_end(signal_fd, -1, 0, SHORT_WAIT);
    }
    port_exit(status);
}

int split_from_keeper(void) {
    int keeper = port_getpid(), result = port_become_subreaper();
    int signal_fd = port_block_signals(); /* before the worker can write its first byte */
    int worker = result < 0 ? result : signal_fd < 0 ? signal_fd : port_fork();

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
