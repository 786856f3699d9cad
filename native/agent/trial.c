#include "trial.h"

#include "drive.h"
#include "start.h"

enum { STANDARD_OUTPUT = 1, MILLION = 1000000 };
static const int64_t SECOND = 1000000000;
static const int64_t PATIENCE = 10 * 1000000000LL; /* for what was killed to be gone */
static const int64_t LATE = 100 * 1000000LL; /* a main thread that ends so long before its process is noted */

static struct {
    const struct request *request;
    struct started started;
    int signal_fd;
    enum agent_state agent;
    bool ended;     /* the process was waited for */
    bool stopped;   /* the agent killed it; `answer.how` says why */
    bool seen;      /* its task was observed */
    bool replaced;  /* what was seen of its image was not its last one */
    bool looked_at; /* the process had ended and was looked at before it was waited for */
    int64_t exit_stop_ns, paused_ns, ended_ns;
    int64_t free_bytes; /* in its folder, before it started; negative if unknown */
    int killed;         /* processes that were killed after it had ended */
    struct drive drive; /* where the program is a server */
    struct answer answer;
} trial;

static void kill_all(int pid, int group) {
    port_killpg(group, PORT_SIG_KILL);
    port_kill(pid, PORT_SIG_KILL);
}

static void stop(enum how how) {
    if (trial.stopped || trial.ended)
        return;
    trial.stopped = true;
    trial.answer.how = how;
    drive_abandon(&trial.drive);
    kill_all(trial.started.pid, trial.started.pid);
}

/* Reads what a process printed, as much as there is. One byte more than the limit is kept to know that there
 * is more. */
static void drain(struct output *output) {
    static char rest[4096];

    while (output->fd >= 0) {
        bool full = output->used > output->limit;
        long size =
            full ? port_read(output->fd, rest, sizeof rest)
                 : port_read(output->fd, output->bytes + output->used, output->limit + 1 - output->used);
        if (size == -PORT_E_AGAIN)
            return;
        if (size <= 0) {
            port_close(output->fd);
            output->fd = -1;
        } else if (full) {
            return; /* it goes on flooding: leave it to the next look */
        } else {
            output->used += (size_t)size;
        }
    }
}

static bool overflowed(void) {
    const struct answer *answer = &trial.answer;
    return answer->out.used > answer->out.limit || answer->err.used > answer->err.limit ||
           answer->driver_out.used > answer->driver_out.limit ||
           answer->driver_err.used > answer->driver_err.limit;
}

/* Whether the process got as far as the program that was asked for. */
static bool has_run(void) {
    return trial.started.launch->released_ns != 0 && trial.started.launch->failed == 0;
}

static void observe_end(void) {
    if (trial.seen || !has_run())
        return;
    trial.seen = true;
    observe_task(&trial.answer.facts, trial.started.pid);
}

/* The process has ended and not been waited for: its name can still be read. */
static void see_zombie(void) {
    trial.looked_at = true;
    observe_end();
    if (trial.answer.has_image && !is_same_program(&trial.answer.image, trial.started.pid)) {
        trial.answer.has_image = false;
        trial.replaced = true;
    }
}

static void see_exit_stop(void) {
    trial.exit_stop_ns = port_now_ns();
    if (has_run()) {
        if (!trial.answer.has_image) /* a server's was looked at when it had been driven */
            observe_image(&trial.answer.image, trial.started.pid);
        trial.answer.has_image = true;
        observe_end();
    }
    port_trace_continue(trial.started.pid, 0);
    trial.paused_ns += port_now_ns() - trial.exit_stop_ns;
}

static void see_end(const struct port_event *event) {
    struct facts *facts = &trial.answer.facts;

    trial.ended = true;
    trial.ended_ns = port_now_ns();
    if (!trial.stopped) {
        trial.answer.how = event->change == PORT_EXITED ? EXITED : SIGNALED;
        trial.answer.code = event->value;
    }
    fact_set(facts, FACT_USER, event->usage.user_us);
    fact_set(facts, FACT_SYSTEM, event->usage.system_us);
    fact_set(facts, FACT_MAXRSS, event->usage.maxrss_bytes);
    fact_set(facts, FACT_MINFLT, event->usage.minflt);
    fact_set(facts, FACT_MAJFLT, event->usage.majflt);
    fact_set(facts, FACT_NVCSW, event->usage.nvcsw);
    fact_set(facts, FACT_NIVCSW, event->usage.nivcsw);
    int64_t counted = trial.drive.after.nvcsw + trial.drive.after.nivcsw;
    if (facts->known[FACT_SERVER_NVCSW] && event->usage.nvcsw + event->usage.nivcsw >= counted)
        fact_set(facts, FACT_SERVER_UNSEEN, event->usage.nvcsw + event->usage.nivcsw - counted);
}

static void see(const struct port_event *event) {
    bool gone = event->change == PORT_EXITED || event->change == PORT_SIGNALED;

    bool good = true;

    if (drive_see(&trial.drive, event, &good)) {
        if (!good)
            stop(trial.answer.how);
        return;
    }
    if (event->pid != trial.started.pid || trial.ended) {
        if (gone && trial.ended && event->change == PORT_SIGNALED && event->value == PORT_SIG_KILL)
            trial.killed++;
    } else if (gone) {
        see_end(event);
    } else if (event->change == PORT_EXIT_STOP) {
        see_exit_stop();
    } else if (event->change == PORT_GROUP_STOP) {
        port_trace_listen(event->pid);
    } else {
        port_trace_continue(event->pid, event->change == PORT_SIGNAL_STOP ? event->value : 0);
    }
}

/* Takes note of every child that has changed; false when there are no children at all. */
static bool look_at_children(void) {
    struct port_event event;
    int result;

    do {
        result = port_wait(trial.looked_at ? 0 : trial.started.pid, &event);
        if (result > 0 && event.change == PORT_EXITED_UNREAPED)
            see_zombie();
        else if (result > 0)
            see(&event);
    } while (result > 0);
    return result != -PORT_E_CHILD;
}

static void look_at_signals(void) {
    int signal;
    while ((signal = port_read_signal(trial.signal_fd)) > 0)
        if (signal == PORT_SIG_TERM || signal == PORT_SIG_INT || signal == PORT_SIG_HUP)
            trial.agent = AGENT_ASKED_TO_END;
}

static void look_at_disk(void) {
    int64_t bytes;
    if (trial.free_bytes >= 0 && port_available_bytes(trial.request->folder, &bytes) == 0 &&
        trial.free_bytes - bytes > trial.request->disk_bytes)
        stop(DISK);
}

/* Waits until something happens to the trial or to the agent, at most until `until_ns`, and takes note of it.
 * Returns false when no child is left. */
static bool wait_and_look(int64_t until_ns) {
    struct port_pollfd polled[] = {
        {trial.signal_fd, PORT_POLL_IN, 0},
        {trial.answer.out.fd, PORT_POLL_IN, 0},
        {trial.answer.err.fd, PORT_POLL_IN, 0},
        {trial.answer.driver_out.fd, PORT_POLL_IN, 0},
        {trial.answer.driver_err.fd, PORT_POLL_IN, 0},
        {trial.agent == AGENT_UNHEARD ? -1 : STANDARD_OUTPUT, 0, 0},
    };
    int64_t wait_ns = until_ns - port_now_ns();
    port_poll(polled, sizeof polled / sizeof *polled, wait_ns > 0 ? wait_ns : 0);
    look_at_signals();
    bool children = look_at_children();
    drain(&trial.answer.out);
    drain(&trial.answer.err);
    drain(&trial.answer.driver_out);
    drain(&trial.answer.driver_err);
    if (polled[5].revents & (PORT_POLL_ERR | PORT_POLL_HUP | PORT_POLL_NVAL))
        trial.agent = AGENT_UNHEARD;
    return children;
}

/* From the release to the end of the process, whichever way it comes. */
static void watch(void) {
    int64_t start_ns = port_now_ns(), disk_ns = start_ns + SECOND, gone_ns = INT64_MAX;
    int64_t deadline_ns = start_ns + trial.request->timeout_ms * MILLION;

    while (!trial.ended) {
        int64_t until_ns = trial.stopped ? gone_ns : disk_ns < deadline_ns ? disk_ns : deadline_ns;
        int64_t drive_ns = drive_next_ns(&trial.drive);
        wait_and_look(drive_ns < until_ns ? drive_ns : until_ns);
        if (!trial.stopped && !trial.ended && !drive_step(&trial.drive))
            stop(trial.answer.how);
        int64_t now_ns = port_now_ns();
        if (trial.stopped && now_ns >= gone_ns)
            return;
        if (overflowed())
            stop(OVERFLOW);
        if (trial.agent != AGENT_GOES_ON || now_ns >= deadline_ns)
            stop(TIMEOUT);
        if (now_ns >= disk_ns) {
            look_at_disk();
            disk_ns = now_ns + SECOND;
        }
        if (trial.stopped && gone_ns == INT64_MAX)
            gone_ns = now_ns + PATIENCE;
    }
}

/* Kills whatever the process left, until no child is left: each one's children become the agent's when it
 * dies. */
static void clean_up(void) {
    int self = port_getpid(), left = 0;
    int64_t give_up_ns = port_now_ns() + PATIENCE;

    while (look_at_children() && port_now_ns() < give_up_ns) {
        left = observe_children(self, kill_all);
        wait_and_look(port_now_ns() + SECOND / 20);
    }
    if (look_at_children() && left > 0) {
        struct text *note = note_start(&trial.answer);
        text_add_number(note, left);
        text_add(note, " processes could not be killed and are still there");
        note_end(&trial.answer);
    }
}

static void note_what_surprises(void) {
    struct answer *answer = &trial.answer;
    int64_t early_ns = trial.ended_ns - trial.exit_stop_ns - trial.paused_ns;

    if (trial.killed > 0) {
        struct text *note = note_start(answer);
        text_add(note, "left ");
        text_add_number(note, trial.killed);
        text_add(note, trial.killed == 1 ? " process" : " processes");
        text_add(note, " running, killed by the agent; its own end was ");
        text_add(note, trial.stopped ? "by the agent" : answer->how == EXITED ? "exit status " : "signal ");
        if (!trial.stopped)
            text_add_number(note, answer->code);
        note_end(answer);
    }
    if (trial.started.trace_failed) {
        struct text *note = note_start(answer);
        text_add(note, "loader and objects are unknown: tracing is forbidden here, errno ");
        text_add_number(note, -trial.started.trace_failed);
        note_end(answer);
    } else if (trial.replaced) {
        text_add(note_start(answer),
                 "loader and objects are unknown: one of its threads executed another program");
        note_end(answer);
    } else if (answer->has_image && answer->image.failed) {
        struct text *note = note_start(answer);
        text_add(note, "loader or objects are unknown: /proc could not be read, errno ");
        text_add_number(note, -answer->image.failed);
        note_end(answer);
    } else if (answer->has_image && trial.ended && early_ns > LATE) {
        struct text *note = note_start(answer);
        text_add(note, "its main thread ended ");
        text_add_number(note, early_ns / MILLION);
        text_add(note, " ms before it: loader and objects are as they were then");
        note_end(answer);
    }
    if (answer->has_image && answer->image.objects.full) {
        text_add(note_start(answer), "more objects were mapped than are listed");
        note_end(answer);
    }
}

/* The last word on how it ended, once everything is gone. */
static void judge(void) {
    struct answer *answer = &trial.answer;
    struct launch *launch = trial.started.launch;

    if (!has_run() && !trial.stopped) {
        answer->how = UNSTARTED;
        answer->code = launch->failed ? -launch->failed : PORT_E_INTR;
        struct text *note = note_start(answer);
        text_add(note, "could not ");
        text_add(note, start_step(launch->step));
        note_end(answer);
        return;
    }
    note_what_surprises();
    if (trial.drive.phase != NO_SERVER && trial.drive.phase != ENDING && !trial.stopped) {
        text_add(note_start(answer), trial.drive.phase == AWAITED
                                         ? "the server ended before it accepted connections"
                                         : "the server ended though nobody had told it to");
        note_end(answer);
    }
    if (trial.stopped) {
        answer->code = answer->how == UNDRIVEN ? answer->code : 0;
    } else if (overflowed()) {
        answer->how = OVERFLOW;
        answer->code = 0;
    } else if (trial.drive.phase == ENDING) {
        answer->how = DRIVEN;
        answer->code = 0;
    } else if (answer->how == SIGNALED && answer->code == PORT_SIG_XFSZ) {
        answer->how = DISK;
        answer->code = 0;
    } else if (answer->how == EXITED && trial.killed > 0) {
        answer->how = ORPHANS;
        answer->code = trial.killed;
    }
}

/* Only what a process that never ran leaves true. */
static void forget_process(struct facts *facts) {
    for (int fact = 0; fact < FACTS; fact++)
        facts->known[fact] = facts->known[fact] && fact >= FACT_PSI_CPU && fact <= FACT_LOAD;
}

static void measure(const struct facts *before) {
    struct facts *facts = &trial.answer.facts;
    int64_t released_ns = trial.started.launch->released_ns;

    observe_machine(facts);
    facts_grow(facts, before);
    if (!has_run()) {
        forget_process(facts);
        return;
    }
    if (trial.ended)
        fact_set(facts, FACT_WALL, trial.ended_ns - released_ns - trial.paused_ns);
    fact_set(facts, FACT_LAUNCH, released_ns - trial.request->read_ns);
    fact_set(facts, FACT_PID, trial.started.pid);
}

/* The room for an output comes after the fork, so that it is no part of the child's memory. */
static bool open_output(struct output *output, int fd) {
    output->fd = fd;
    output->used = 0;
    output->limit = (size_t)trial.request->output_bytes;
    output->bytes = port_mmap(output->limit + 1, false);
    if (!output->bytes && fd >= 0)
        port_close(fd);
    return output->bytes != NULL;
}

/* Without bytes it was never opened, and its descriptor means nothing. */
static void close_output(struct output *output) {
    if (!output->bytes) { /* none was opened: 0 would be standard input */
        output->fd = -1;
        return;
    }
    if (output->fd >= 0)
        port_close(output->fd);
    port_munmap(output->bytes, output->limit + 1);
    *output = (struct output){.fd = -1};
}

static void answer_unstarted(int error) {
    trial.answer.how = UNSTARTED;
    trial.answer.code = -error;
    struct text *note = note_start(&trial.answer);
    text_add(note, "the agent has no process or memory left for it");
    note_end(&trial.answer);
}

static void begin(const struct request *request, int signal_fd) {
    struct answer *answer = &trial.answer;

    close_output(&answer->out);
    close_output(&answer->err);
    close_output(&answer->driver_out);
    close_output(&answer->driver_err);
    trial.request = request;
    trial.signal_fd = signal_fd;
    trial.agent = AGENT_GOES_ON;
    trial.ended = trial.stopped = trial.seen = trial.replaced = trial.looked_at = false;
    trial.exit_stop_ns = trial.paused_ns = trial.ended_ns = 0;
    trial.killed = 0;
    trial.drive.phase = NO_SERVER;
    trial.drive.running = false;
    trial.drive.driver.launch = NULL;
    trial.drive.after = (struct counters){0};
    trial.free_bytes = -1;
    port_available_bytes(request->folder, &trial.free_bytes);
    answer->id = request->id;
    answer->how = EXITED;
    answer->code = 0;
    answer->has_image = false;
    answer->notes = (struct text){answer->note_bytes, sizeof answer->note_bytes, 0, false};
    __builtin_memset(&answer->facts, 0, sizeof answer->facts);
}

enum agent_state run_trial(const struct request *request, int signal_fd, const struct answer **answer) {
    struct facts before = {0};
    int error;

    *answer = &trial.answer;
    begin(request, signal_fd);
    observe_machine(&before);
    error = start(&trial.started, request);
    if (error) {
        answer_unstarted(error);
        return AGENT_GOES_ON;
    }
    bool room = open_output(&trial.answer.out, trial.started.out);
    room &= open_output(&trial.answer.err, trial.started.err);
    if (request->drive.port) { /* its pipes come with the driver */
        room &= open_output(&trial.answer.driver_out, -1);
        room &= open_output(&trial.answer.driver_err, -1);
    }
    if (!room) {
        kill_all(trial.started.pid, trial.started.pid);
        clean_up();
        answer_unstarted(-PORT_E_NOMEM);
        start_forget(&trial.started);
        return AGENT_GOES_ON;
    }
    drive_begin(&trial.drive, request, &trial.answer, trial.started.pid);
    watch();
    drive_abandon(&trial.drive);
    clean_up();
    drain(&trial.answer.out);
    drain(&trial.answer.err);
    drain(&trial.answer.driver_out);
    drain(&trial.answer.driver_err);
    judge();
    measure(&before);
    start_forget(&trial.started);
    if (trial.drive.driver.launch)
        start_forget(&trial.drive.driver);
    return trial.agent;
}
