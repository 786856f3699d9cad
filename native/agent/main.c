// SPDX-License-Identifier: MIT OR Apache-2.0
/* The agent: runs the trials of a plan one after another and writes an answer to each (docs/wire.md).
 *
 *     agent -         reads the plan from its standard input
 *     agent FILE      reads it from a file
 *
 * Exit status: 0 after the plan, 1 when it can't begin, 2 after a malformed plan, 3 when standard output is
 * closed at the other end, 4 after SIGTERM, SIGINT or SIGHUP. It kills the trial in flight first.
 */
#include "answer.h"
#include "child.h"
#include "conditions.h"
#include "keeper.h"
#include "plan.h"
#include "trial.h"

enum { DONE, NOT_BEGUN, MALFORMED, OUTPUT_CLOSED, TERMINATED };

static int signal_fd;
static struct request
    *request;         /* in memory that children share: a waiting one reads it when it is released */
static bool answered; /* since the last trial, nothing was prepared for the next one */

/* After an answer, the agent does not sleep for this time, because to wake it up often takes longer than the
 * next request does. Nothing is measured then. */
static const int64_t AWAKE_NS = 300000;

/* Waits for more of the plan. Returns false after SIGTERM, SIGINT or SIGHUP. */
static bool wait_for_plan(int fd) {
    struct port_pollfd polled[] = {{fd, PORT_POLL_IN, 0}, {signal_fd, PORT_POLL_IN, 0}};
    int64_t asleep_ns = 0; /* from when on it may sleep */

    if (answered && port_poll(polled, 1, 0) == 0) {
        if (port_count_allowed_cpus(0) > 1) /* else the reader of the answer needs the processor */
            asleep_ns = port_now_ns() + AWAKE_NS;
        prepare_trial(request);
    }
    answered = false;
    for (;;) {
        bool awake = port_now_ns() < asleep_ns;
        if (port_poll(polled, 2, awake ? 0 : -1) <= 0) {
            if (awake) /* the reader of the answer may be on the same core */
                port_relax();
            continue;
        }
        if (polled[1].revents)
            for (int signal; (signal = port_read_signal(signal_fd)) > 0;)
                if (signal == PORT_SIG_TERM || signal == PORT_SIG_INT || signal == PORT_SIG_HUP)
                    return false;
        if (polled[0].revents)
            return true;
    }
}

/* Closes all files but the first three, becomes the subreaper, and blocks signals. Other processes of the
 * same user can't open the agent's pipes through /proc, unless they have CAP_SYS_PTRACE. */
static bool begin(void) {
    int fd;
    port_set_dumpable(false);
    do
        fd = port_open_null();
    while (fd >= 0 && fd <= 2);
    port_close_from(3); /* fails before Linux 5.9; the parent must then leak no files */
    if (fd < 0 || split_from_keeper() < 0 || port_become_subreaper() < 0)
        return false;
    keep_memory_from_children();
    begin_conditions();
    begin_trials();
    signal_fd = port_block_signals();
    return signal_fd >= 0;
}

static int run_plan(struct plan *plan) {
    const struct answer *answer;
    enum plan_result result = plan_open(plan);

    if (result == PLAN_TRIAL && !write_header())
        return OUTPUT_CLOSED;
    while (result == PLAN_TRIAL && (result = plan_next(plan, request)) == PLAN_TRIAL) {
        enum agent_state state = run_trial(request, signal_fd, &answer);
        if (state == AGENT_TERMINATED) /* a killed trial has no answer */
            return TERMINATED;
        if (state == AGENT_OUTPUT_CLOSED || !write_answer(answer))
            return OUTPUT_CLOSED;
        answered = true;
    }
    if (result == PLAN_MALFORMED) {
        write_plan_error(plan->line, plan->error);
        return MALFORMED;
    }
    return result == PLAN_STOPPED ? TERMINATED : DONE;
}

int port_main(int count, char **arguments) {
    static char room[PLAN_LINE];
    static struct plan plan = {.lines = {.bytes = room, .room = sizeof room, .wait = wait_for_plan}};

    if (count != 2 || !begin())
        return NOT_BEGUN;
    request = port_mmap(sizeof *request, true);
    if (!text_equal(arguments[1], "-"))
        plan.lines.fd = port_open_read(arguments[1]);
    if (plan.lines.fd < 0 || !request)
        return NOT_BEGUN;
    return run_plan(&plan);
}
