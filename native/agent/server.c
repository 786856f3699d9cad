// SPDX-License-Identifier: MIT OR Apache-2.0
#include "server.h"

#include "kill.h"

enum { MILLION = 1000000 };
static const int64_t CONNECT_RETRY_NS = 2 * 1000000LL;    /* until the server accepts */
static const int64_t CONNECT_TIMEOUT_NS = 50 * 1000000LL; /* of one attempt */

static void enter(struct server *server, enum server_phase phase, int64_t ms) {
    server->phase = phase;
    server->begun_ns = port_now_ns();
    server->until_ns = ms < 0 ? INT64_MAX : server->begun_ns + ms * MILLION;
}

static bool fail(struct server *server, enum outcome outcome, int64_t code, const char *why) {
    set_outcome(server->answer, outcome, code);
    note(server->answer, "%s", why);
    return false;
}

void server_begin(struct server *server, const struct request *request, struct answer *answer,
                  const struct started *program) {
    *server = (struct server){.request = request,
                              .answer = answer,
                              .pid = program->pid,
                              .files = &program->files,
                              .generator = NOT_STARTED};
    if (request->server.port)
        enter(server, PHASE_CONNECT, request->server.ready_ms);
}

static void reopen(struct output *output, int fd) {
    close_file(&output->fd);
    output->fd = fd;
    output->used = 0;
}

static bool start_generator(struct server *server, enum server_phase phase, int64_t ms) {
    static struct request
        *request; /* the fields that `start` reads, and zeros, in memory that the child has */

    if (!request)
        request = port_mmap(sizeof *request, true);
    if (!request)
        return fail(server, OUTCOME_UNDRIVEN, PORT_E_NOMEM, "the load generator: no memory");
    request->folder = server->request->folder;
    if (server->request->root) /* it runs outside of it */
        request->folder = server->request->files ? server->request->files : "/";
    request->program = server->request->generator;
    request->disk_bytes = server->request->disk_bytes;
    enter(server, phase, ms);
    if (start(&server->generator, request, false) != 0)
        return fail(server, OUTCOME_UNDRIVEN, PORT_E_AGAIN, "the load generator: fork failed");
    server->running = true;
    server->killed = false;
    reopen(&server->answer->outputs[GENERATOR_OUT], server->generator.out);
    reopen(&server->answer->outputs[GENERATOR_ERR], server->generator.err);
    return true;
}

/* The window ends with the load generator. */
static void end_window(struct server *server, const struct port_event *event) {
    struct facts *facts = &server->answer->facts;

    fact_set(facts, FACT_DRIVEN_NS, port_now_ns() - server->generator.launch->released_ns);
    count_server(&server->after);
    set_window_facts(facts, &server->before, &server->after);
    fact_set(facts, FACT_DRIVER_USER_US, event->usage[PORT_USER_US]);
    fact_set(facts, FACT_DRIVER_SYSTEM_US, event->usage[PORT_SYSTEM_US]);
    observe_image(&server->answer->image, server->files, server->pid);
    observe_values(&server->answer->observations, server->pid, server->request->observations,
                   server->request->observation_count);
    server->answer->has_image = true;
}

static bool begin_window(struct server *server) {
    count_server(&server->before);
    return start_generator(server, PHASE_WINDOW, -1);
}

static void kill_generator(const struct server *server) {
    kill_with_group(server->generator.pid, server->generator.pid);
}

/* Whether the warm-up is over. It is counted from the load generator's exec, which a busy machine may delay.
 */
static bool has_warmed(const struct server *server, int64_t now_ns) {
    int64_t released_ns = server->generator.launch->released_ns;
    return released_ns != 0 && now_ns - released_ns >= server->request->server.warm_ms * MILLION;
}

bool server_step(struct server *server) {
    const struct server_request *wanted = &server->request->server;
    int64_t now_ns = port_now_ns();
    bool due = now_ns >= server->until_ns;

    switch (server->phase) {
    case PHASE_CONNECT:
        if (port_try_connect((int)wanted->port, CONNECT_TIMEOUT_NS) == 0) {
            fact_set(&server->answer->facts, FACT_READY_NS, port_now_ns() - server->begun_ns);
            return wanted->warm_ms ? start_generator(server, PHASE_WARM_UP, wanted->warm_ms)
                                   : begin_window(server);
        }
        return !due ||
               fail(server, OUTCOME_UNREADY, 0, "the server accepted no connection on its port in time");
    case PHASE_WARM_UP:
        if (due && !has_warmed(server, now_ns)) {
            server->until_ns = now_ns + CONNECT_RETRY_NS;
        } else if (due) {
            server->killed = true;
            kill_generator(server);
            server->until_ns = INT64_MAX;
        }
        return true;
    case PHASE_PAUSE:
        return !due || begin_window(server);
    case PHASE_DRAIN:
        if (due) {
            enter(server, PHASE_STOP, wanted->stop_ms);
            port_kill(server->pid, PORT_SIG_TERM);
        }
        return true;
    case PHASE_STOP:
        if (due) {
            note(server->answer, "the server did not end after SIGTERM and was killed");
            kill_with_group(server->pid, server->pid);
            server->until_ns = INT64_MAX;
        }
        return true;
    case PHASE_NONE:
    case PHASE_WINDOW:
        break;
    }
    return true;
}

int64_t server_next_ns(const struct server *server) {
    if (server->phase == PHASE_NONE)
        return INT64_MAX;
    return server->phase == PHASE_CONNECT ? port_now_ns() + CONNECT_RETRY_NS : server->until_ns;
}

/* Returns whether the load generator succeeded. If not, the answer says why. */
static bool judge_generator(struct server *server, const struct port_event *event) {
    struct launch *launch = server->generator.launch;

    if (launch->failed || launch->released_ns == 0) {
        note(server->answer, "the load generator: could not %s", start_step(launch->step));
        set_outcome(server->answer, OUTCOME_UNDRIVEN, launch->failed ? -launch->failed : PORT_E_INTR);
        return false;
    }
    if (server->killed || (event->change == PORT_EXITED && event->value == 0))
        return true;
    note(server->answer, "the load generator: it %s %d",
         event->change == PORT_EXITED ? "ended with status" : "was killed by signal", event->value);
    server->answer->outcome = OUTCOME_UNDRIVEN;
    return false;
}

static void take_end(struct server *server, const struct port_event *event, bool *good) {
    *good = judge_generator(server, event);
    if (*good && server->phase == PHASE_WINDOW) {
        end_window(server, event);
        enter(server, PHASE_DRAIN, server->request->server.drain_ms);
    } else if (*good) {
        enter(server, PHASE_PAUSE, server->request->server.drain_ms);
    }
}

bool server_handle_event(struct server *server, const struct port_event *event, bool *good) {
    if (!server->running || event->pid != server->generator.pid)
        return false;
    if (event->change != PORT_EXITED && event->change != PORT_SIGNALED)
        return true;
    server->running = false;
    kill_with_group(0, server->generator.pid); /* children of a load generator that is a shell script */
    if (!server->finished)
        take_end(server, event, good);
    return true;
}

void server_abandon(struct server *server) {
    server->finished = true;
    if (server->running)
        kill_generator(server);
}
