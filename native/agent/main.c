/* The agent: starts the trials of a plan one after another and answers each with what it saw (docs/wire.md).
 *
 *     agent -         reads the plan from its standard input
 *     agent FILE      reads it from a file
 *
 * Ends with 0 after the plan, 1 when it can't begin, 2 after a malformed plan, 3 when nobody reads its
 * answers, and 4 when a signal asked it to end. It kills the trial in flight in any case.
 */
#include "answer.h"
#include "keeper.h"
#include "plan.h"
#include "trial.h"

enum { DONE, NOT_BEGUN, MALFORMED, UNHEARD, ASKED_TO_END };

static int signal_fd;

/* Waits until there is more of the plan; false when a signal asks the agent to end. */
static bool wait_for_plan(int fd) {
    struct port_pollfd polled[] = {{fd, PORT_POLL_IN, 0}, {signal_fd, PORT_POLL_IN, 0}};

    for (;;) {
        if (port_poll(polled, 2, -1) < 0)
            continue;
        if (polled[1].revents)
            for (int signal; (signal = port_read_signal(signal_fd)) > 0;)
                if (signal == PORT_SIG_TERM || signal == PORT_SIG_INT || signal == PORT_SIG_HUP)
                    return false;
        if (polled[0].revents)
            return true;
    }
}

/* Makes the agent ready: no file is open but the first three, orphans come to it, signals wait until they are
 * asked for. */
static bool begin(void) {
    int fd;
    do
        fd = port_open_null();
    while (fd >= 0 && fd <= 2);
    port_close_from(
        3); /* an older kernel hasn't got this call; then the agent's starter must not leak files */
    if (fd < 0 || split_from_keeper() < 0 || port_become_subreaper() < 0)
        return false;
    signal_fd = port_block_signals();
    return signal_fd >= 0;
}

static int run_plan(struct plan *plan) {
    static struct request request;
    const struct answer *answer;
    enum plan_result result = plan_open(plan);

    if (result == PLAN_TRIAL && !say_header())
        return UNHEARD;
    while (result == PLAN_TRIAL && (result = plan_next(plan, &request)) == PLAN_TRIAL) {
        enum agent_state state = run_trial(&request, signal_fd, &answer);
        if (state == AGENT_ASKED_TO_END) /* what it had to kill has no answer */
            return ASKED_TO_END;
        if (state == AGENT_UNHEARD || !say_answer(answer))
            return UNHEARD;
    }
    if (result == PLAN_MALFORMED) {
        say_complaint(plan->line, plan->complaint);
        return MALFORMED;
    }
    return result == PLAN_STOPPED ? ASKED_TO_END : DONE;
}

int port_main(int count, char **arguments) {
    static char room[PLAN_LINE];
    static struct plan plan = {.lines = {.bytes = room, .room = sizeof room, .wait = wait_for_plan}};

    if (count != 2 || !begin())
        return NOT_BEGUN;
    if (!text_equal(arguments[1], "-"))
        plan.lines.fd = port_open_read(arguments[1]);
    if (plan.lines.fd < 0)
        return NOT_BEGUN;
    return run_plan(&plan);
}
