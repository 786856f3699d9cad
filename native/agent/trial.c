// SPDX-License-Identifier: MIT OR Apache-2.0
#include "trial.h"

#include "conditions.h"
#include "kill.h"
#include "root.h"
#include "server.h"
#include "start.h"

enum { STANDARD_OUTPUT = 1, MILLION = 1000000 };
static const int64_t SECOND = 1000000000;
static const int64_t KILL_TIMEOUT_NS = 10 * 1000000000LL; /* for killed processes to end */
/* A note reports a main thread that ends this long before the other threads of its process. */
static const int64_t EARLY_EXIT_NS = 100 * 1000000LL;
/* After the exit stop, the agent does not sleep for this time: a process that ends takes less, unless its
 * memory is large, and to wake up the agent would take as long as that end. */
static const int64_t AWAKE_NS = 300000;

static struct trial {
    const struct request *request;
    int signal_fd;
    enum agent_state agent;
    bool ended;          /* the process was reaped */
    bool stopped;        /* the agent killed it; `answer.outcome` says why */
    bool observed;       /* `observe_task` was called */
    bool replaced;       /* another thread executed a program after the image was observed */
    bool zombie_handled; /* the zombie was observed before it was reaped */
    bool outlived;       /* its other threads ran on, long after its main thread had ended */
    int64_t exit_stop_ns, paused_ns, ended_ns;
    int64_t outlived_ns;                     /* when to examine that */
    int64_t asleep_ns;                       /* from when on the agent may sleep */
    int64_t free_bytes;                      /* in its folder, before the start; negative if unknown */
    int64_t stops;                           /* of its first process or of the agent, by a signal */
    int64_t late_ns;                         /* the longest time that a timer woke the agent too late */
    int64_t suspended_ns;                    /* of the machine before the start: an upper bound */
    int64_t offset_least_ns, offset_most_ns; /* of CLOCK_REALTIME before the start */
    int killed;                              /* processes that were killed after its end */
    int64_t cpu_us;                          /* of the processes that were reaped */
    int64_t agent_cpu_ns;                    /* of the agent, before the trial; negative if unknown */
} trial;

/* What outlives a trial: memory, and a process that waits for the next one. */
static struct {
    struct started started;
    struct server server; /* if the program is a server */
    struct answer answer;
} kept = {
    .started = NOT_STARTED,
    .server = {.generator = NOT_STARTED},
    .answer = {.outputs = {{.fd = -1}, {.fd = -1}, {.fd = -1}, {.fd = -1}}},
};

static struct machine_files machine_files;

void begin_trials(void) {
    open_machine_files(&machine_files);
}

static void stop(enum outcome outcome) {
    if (trial.stopped || trial.ended)
        return;
    trial.stopped = true;
    kept.answer.outcome = outcome;
    server_abandon(&kept.server);
    kill_with_group(kept.started.pid, kept.started.pid);
}

/* Reads the available output of a process. One byte more than the limit is kept, to detect an overflow. */
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
            close_file(&output->fd);
        } else if (full) {
            return; /* the next call reads the rest */
        } else {
            output->used += (size_t)size;
        }
    }
}

static void drain_outputs(void) {
    for (int i = 0; i < OUTPUTS; i++)
        drain(&kept.answer.outputs[i]);
}

static bool overflowed(void) {
    for (int i = 0; i < OUTPUTS; i++)
        if (kept.answer.outputs[i].used > kept.answer.outputs[i].limit)
            return true;
    return false;
}

/* Whether exec succeeded. */
static bool has_run(void) {
    return kept.started.launch->released_ns != 0 && kept.started.launch->failed == 0;
}

static void observe_end(void) {
    if (trial.observed || !has_run())
        return;
    trial.observed = true;
    observe_task(&kept.answer.facts, &kept.started.files, kept.started.pid, kept.started.launch->times);
}

/* The process is a zombie: its name can still be read. */
static void handle_zombie(void) {
    trial.zombie_handled = true;
    observe_end();
    if (kept.answer.has_image && !is_same_program(&kept.answer.image, &kept.started.files)) {
        kept.answer.has_image = false;
        trial.replaced = true;
    }
}

/* Reads what exists only as long as the process has its memory. */
static void observe_memory(void) {
    observe_image(&kept.answer.image, &kept.started.files, kept.started.pid);
    observe_values(&kept.answer.observations, kept.started.pid, trial.request->observations,
                   trial.request->observation_count);
}

/* Whether the agent is on a processor that the trial may not use. */
static bool is_beside_trial(void) {
    enum { BITS = 8 * sizeof(unsigned long) };
    const struct request *request = trial.request;
    int cpu = request->program.pinned && !request->server.port ? port_current_cpu() : -1;

    return cpu >= 0 && cpu < PORT_MAX_CPUS && !(request->program.cpus.bits[cpu / BITS] >> (cpu % BITS) & 1);
}

static void handle_exit_stop(void) {
    trial.exit_stop_ns = port_now_ns();
    if (trial.request->root)
        root_keep(kept.started.pid);
    if (has_run()) {
        if (!kept.answer.has_image) /* a server's is observed at the end of the window */
            observe_memory();
        kept.answer.has_image = true;
        observe_end();
    }
    port_trace_continue(kept.started.pid, 0);
    int64_t now_ns = port_now_ns();
    trial.paused_ns = now_ns - trial.exit_stop_ns;
    trial.outlived_ns = now_ns + EARLY_EXIT_NS;
    if (is_beside_trial())
        trial.asleep_ns = now_ns + AWAKE_NS;
}

static void handle_end(const struct port_event *event) {
    static const enum fact used[PORT_USAGES] = {
        [PORT_USER_US] = FACT_USER_US,
        [PORT_SYSTEM_US] = FACT_SYSTEM_US,
        [PORT_MAXRSS_BYTES] = FACT_MAXRSS_BYTES,
        [PORT_MINFLT] = FACT_MINFLT,
        [PORT_MAJFLT] = FACT_MAJFLT,
        [PORT_NVCSW] = FACT_NVCSW,
        [PORT_NIVCSW] = FACT_NIVCSW,
        [PORT_READ_BYTES] = FACT_READ_BYTES,
        [PORT_WRITE_BYTES] = FACT_WRITE_BYTES,
    };
    struct facts *facts = &kept.answer.facts;

    trial.ended = true;
    trial.ended_ns = port_now_ns();
    trial.asleep_ns = 0;
    if (!trial.stopped)
        set_outcome(&kept.answer, event->change == PORT_EXITED ? OUTCOME_EXITED : OUTCOME_SIGNALED,
                    event->value);
    for (int i = 0; i < PORT_USAGES; i++)
        fact_set(facts, used[i], event->usage[i]);
    int64_t switches = event->usage[PORT_NVCSW] + event->usage[PORT_NIVCSW];
    int64_t counted = kept.server.after.sums[COUNT_NVCSW] + kept.server.after.sums[COUNT_NIVCSW];
    if (facts->known[FACT_SERVER_NVCSW] && switches >= counted)
        fact_set(facts, FACT_SERVER_UNSEEN_SWITCHES, switches - counted);
}

static void handle_event(const struct port_event *event) {
    bool gone = event->change == PORT_EXITED || event->change == PORT_SIGNALED;

    bool good = true;

    if (gone)
        trial.cpu_us += event->usage[PORT_USER_US] + event->usage[PORT_SYSTEM_US];
    if (server_handle_event(&kept.server, event, &good)) {
        if (!good)
            stop(kept.answer.outcome);
        return;
    }
    if (event->pid != kept.started.pid || trial.ended) {
        if (gone && trial.ended && event->change == PORT_SIGNALED && event->value == PORT_SIG_KILL)
            trial.killed++;
    } else if (gone) {
        handle_end(event);
    } else if (event->change == PORT_EXIT_STOP) {
        handle_exit_stop();
    } else if (event->change == PORT_GROUP_STOP) {
        trial.stops++;
        port_trace_listen(event->pid);
    } else {
        port_trace_continue(event->pid, event->change == PORT_SIGNAL_STOP ? event->value : 0);
    }
}

/* Handles the events of all children. Returns false if there are no children. */
static bool handle_children(void) {
    struct port_event event;
    int result;

    do {
        result = port_wait(trial.zombie_handled ? 0 : kept.started.pid, &event);
        if (result > 0 && event.change == PORT_EXITED_UNREAPED)
            handle_zombie();
        else if (result > 0)
            handle_event(&event);
    } while (result > 0);
    return result != -PORT_E_CHILD;
}

static void handle_signals(void) {
    int signal;
    while ((signal = port_read_signal(trial.signal_fd)) > 0) {
        trial.stops += signal == PORT_SIG_CONT; /* it was stopped before */
        if (signal == PORT_SIG_TERM || signal == PORT_SIG_INT || signal == PORT_SIG_HUP)
            trial.agent = AGENT_TERMINATED;
    }
}

static void check_disk(void) {
    struct port_file_system now = {0};
    if (trial.free_bytes >= 0 && port_statfs(trial.request->folder, &now) == 0 &&
        trial.free_bytes - now.available_bytes > trial.request->disk_bytes)
        stop(OUTCOME_DISK);
}

/* A process that has only its main thread can take long to end, too: its processor is busy, or its memory
 * large. */
static void examine_outlived(int64_t now_ns) {
    if (now_ns < trial.outlived_ns)
        return;
    trial.outlived_ns = INT64_MAX;
    trial.outlived = !trial.ended && has_more_threads(kept.started.pid);
}

static int64_t earlier(int64_t one_ns, int64_t other_ns) {
    return one_ns < other_ns ? one_ns : other_ns;
}

static void sleep_until(int64_t until_ns, struct port_pollfd *polled, unsigned count) {
    int64_t wait_ns = until_ns - port_now_ns();
    port_poll(polled, count, wait_ns > 0 ? wait_ns : 0);
    int64_t late_ns = port_now_ns() - until_ns;
    trial.late_ns = wait_ns > 0 && late_ns > trial.late_ns ? late_ns : trial.late_ns;
}

/* Waits for events of the trial or of the agent, at most until `until_ns`, and handles them. Returns false if
 * there are no children. */
static bool wait_for_events(int64_t until_ns) {
    struct port_pollfd polled[] = {
        {trial.signal_fd, PORT_POLL_IN, 0},
        {kept.answer.outputs[PROGRAM_OUT].fd, PORT_POLL_IN, 0},
        {kept.answer.outputs[PROGRAM_ERR].fd, PORT_POLL_IN, 0},
        {kept.answer.outputs[GENERATOR_OUT].fd, PORT_POLL_IN, 0},
        {kept.answer.outputs[GENERATOR_ERR].fd, PORT_POLL_IN, 0},
        {trial.agent == AGENT_OUTPUT_CLOSED ? -1 : STANDARD_OUTPUT, 0, 0},
    };
    enum { POLLED = sizeof polled / sizeof *polled };
    int64_t awake_ns = earlier(trial.asleep_ns, until_ns);
    int ready = 0;
    while (ready == 0 && port_now_ns() < awake_ns) {
        port_relax();
        ready = port_poll(polled, POLLED, 0);
    }
    if (ready == 0)
        sleep_until(until_ns, polled, POLLED);
    handle_signals();
    bool children = handle_children();
    drain_outputs();
    if (polled[5].revents & (PORT_POLL_ERR | PORT_POLL_HUP | PORT_POLL_NVAL))
        trial.agent = AGENT_OUTPUT_CLOSED;
    return children;
}

/* Runs from the release to the end of the process, or until a killed process has not ended in time. */
static void watch(void) {
    int64_t start_ns = port_now_ns(), disk_ns = start_ns + SECOND, gone_ns = INT64_MAX;
    int64_t deadline_ns = start_ns + trial.request->timeout_ms * MILLION;

    while (!trial.ended) {
        int64_t until_ns = trial.stopped ? gone_ns : earlier(disk_ns, deadline_ns);
        until_ns = earlier(until_ns, trial.outlived_ns);
        wait_for_events(earlier(until_ns, server_next_ns(&kept.server)));
        if (!trial.stopped && !trial.ended && !server_step(&kept.server))
            stop(kept.answer.outcome);
        int64_t now_ns = port_now_ns();
        examine_outlived(now_ns);
        if (trial.stopped && now_ns >= gone_ns)
            return;
        if (overflowed())
            stop(OUTCOME_OVERFLOW);
        if (trial.agent != AGENT_CONTINUES || now_ns >= deadline_ns)
            stop(OUTCOME_TIMEOUT);
        if (now_ns >= disk_ns) {
            check_disk();
            disk_ns = now_ns + SECOND;
        }
        if (trial.stopped && gone_ns == INT64_MAX)
            gone_ns = now_ns + KILL_TIMEOUT_NS;
    }
}

/* Kills the remaining processes until the agent has no children. Orphans become children of the agent. */
static void clean_up(void) {
    int self = port_getpid(), left = 0;
    int64_t give_up_ns = port_now_ns() + KILL_TIMEOUT_NS;

    while (handle_children() && port_now_ns() < give_up_ns) {
        left = for_each_child(self, kill_with_group);
        wait_for_events(port_now_ns() + SECOND / 20);
    }
    if (handle_children() && left > 0)
        note(&kept.answer, "%d processes could not be killed and are still there", left);
}

static void add_observation_notes(struct answer *answer) {
    for (unsigned i = 0; i < answer->observations.count; i++) {
        const struct observation *one = &answer->observations.list[i];
        const char *kind = observation_names[one->what.kind];
        if (one->result == OBSERVATION_FAILED && one->error)
            note(answer, "observe %s %s: errno %d", kind, one->what.name, -one->error);
        else if (one->result == OBSERVATION_FAILED)
            note(answer, "observe %s %s: the value is longer than the agent reads", kind, one->what.name);
    }
}

static void add_notes(void) {
    struct answer *answer = &kept.answer;
    int64_t early_ns = trial.ended_ns - trial.exit_stop_ns - trial.paused_ns;

    if (trial.killed > 0) {
        char bytes[40] = "by the agent";
        struct text end = {bytes, sizeof bytes, 0, false};
        if (!trial.stopped)
            text_format(&end, answer->outcome == OUTCOME_EXITED ? "exit status %lld" : "signal %lld",
                        (long long)answer->code);
        note(answer, "left %d process%s running, killed by the agent; its own end was %s", trial.killed,
             trial.killed == 1 ? "" : "es", trial.stopped ? bytes : text_end(&end));
    }
    if (kept.started.trace_failed)
        note(answer, "loader, objects and observations are unknown: tracing is forbidden here, errno %d",
             -kept.started.trace_failed);
    else if (trial.replaced)
        note(answer, "loader, objects and observations are unknown: a thread executed another program");
    else if (answer->has_image && answer->image.failed)
        note(answer, "loader or objects are unknown: /proc could not be read, errno %d",
             -answer->image.failed);
    else if (answer->has_image && trial.ended && trial.outlived)
        note(
            answer,
            "its main thread ended %lld ms before it: loader, objects and observations are as they were then",
            (long long)early_ns / MILLION);
    if (answer->has_image)
        add_observation_notes(answer);
    if (answer->has_image && answer->image.objects.full)
        note(answer, "more objects are mapped than are listed");
}

/* Sets the outcome, after all processes have ended. */
static void decide_outcome(void) {
    struct answer *answer = &kept.answer;
    struct launch *launch = kept.started.launch;

    if (!has_run() && !trial.stopped) {
        set_outcome(answer, OUTCOME_UNSTARTED, launch->failed ? -launch->failed : PORT_E_INTR);
        note(answer, "could not %s", start_step(launch->step));
        return;
    }
    add_notes();
    if (kept.server.phase != PHASE_NONE && kept.server.phase != PHASE_STOP && !trial.stopped)
        note(answer, "the server ended before %s",
             kept.server.phase == PHASE_CONNECT ? "it accepted connections" : "SIGTERM");
    if (trial.stopped)
        answer->code = answer->outcome == OUTCOME_UNDRIVEN ? answer->code : 0;
    else if (overflowed())
        set_outcome(answer, OUTCOME_OVERFLOW, 0);
    else if (kept.server.phase == PHASE_STOP)
        set_outcome(answer, OUTCOME_DRIVEN, 0);
    else if (answer->outcome == OUTCOME_SIGNALED && answer->code == PORT_SIG_XFSZ)
        set_outcome(answer, OUTCOME_DISK, 0);
    else if (answer->outcome == OUTCOME_EXITED && trial.killed > 0)
        set_outcome(answer, OUTCOME_ORPHANS, trial.killed);
}

/* Keeps the facts of the machine and of the trial only: the program never ran. Those of the agent follow. */
static void clear_process_facts(struct facts *facts) {
    for (int fact = 0; fact < FACT_COUNT; fact++)
        facts->known[fact] = facts->known[fact] && fact >= FACT_PSI_CPU_US && fact <= FACT_LATE_NS;
}

/* By how much CLOCK_REALTIME was set since the start, at least; 0 if that can't be distinguished from the
 * time of the readings. */
static int64_t clock_step_ns(void) {
    int64_t least_ns, most_ns;

    port_clock_offset_ns(&least_ns, &most_ns);
    if (least_ns > trial.offset_most_ns)
        return least_ns - trial.offset_most_ns;
    return most_ns < trial.offset_least_ns ? most_ns - trial.offset_least_ns : 0;
}

static void measure(const struct facts *before) {
    struct facts *facts = &kept.answer.facts;
    int64_t released_ns = kept.started.launch->released_ns, suspended_ns, most_ns;

    observe_machine(facts, &machine_files);
    facts_grow(facts, before);
    if (kept.started.pid > before->values[FACT_CREATED_TASKS] && facts->values[FACT_CREATED_TASKS] > 0)
        facts->values[FACT_CREATED_TASKS]--; /* its first process was not created earlier */
    port_suspended_ns(&suspended_ns, &most_ns);
    suspended_ns -= trial.suspended_ns;
    fact_set(facts, FACT_SUSPENDED_NS, suspended_ns > 0 ? suspended_ns : 0);
    fact_set(facts, FACT_CLOCK_STEP_NS, clock_step_ns());
    fact_set(facts, FACT_STOPS, trial.stops);
    fact_set(facts, FACT_LATE_NS, trial.late_ns);
    if (!has_run()) {
        clear_process_facts(facts);
        return;
    }
    if (trial.ended)
        fact_set(facts, FACT_WALL_NS, trial.ended_ns - released_ns - trial.paused_ns);
    if (trial.agent_cpu_ns >= 0)
        fact_set(facts, FACT_TRIAL_CPU_US,
                 trial.cpu_us + (port_process_cpu_ns(port_getpid()) - trial.agent_cpu_ns) / 1000);
    fact_set(facts, FACT_LAUNCH_NS, released_ns - trial.request->read_ns);
    fact_set(facts, FACT_PID, kept.started.pid);
}

static void close_output(struct output *output) {
    close_file(&output->fd);
    output->used = 0;
}

/* The memory of an output stays for later trials of the same limit. Children do not have it. */
static bool open_output(struct output *output, int fd) {
    size_t limit = (size_t)trial.request->output_bytes;

    if (output->bytes && output->limit != limit) {
        port_munmap(output->bytes, output->limit + 1);
        output->bytes = NULL;
    }
    if (!output->bytes) {
        output->bytes = port_mmap(limit + 1, false);
        if (output->bytes)
            port_keep_from_children(output->bytes, limit + 1);
    }
    output->fd = fd;
    output->used = 0;
    output->limit = limit;
    if (!output->bytes)
        close_output(output);
    return output->bytes != NULL;
}

/* Frees what the last trial still holds. */
static void end_trial(void) {
    for (int i = 0; i < OUTPUTS; i++)
        close_output(&kept.answer.outputs[i]);
    close_task_files(&kept.started.files);
}

static void answer_unstarted(int error) {
    set_outcome(&kept.answer, OUTCOME_UNSTARTED, -error);
    note(&kept.answer, "the agent could not fork or map memory");
}

static void begin(const struct request *request, int signal_fd) {
    struct answer *answer = &kept.answer;
    struct port_file_system before = {.available_bytes = -1};
    int64_t least_ns;

    end_trial();
    trial = (struct trial){
        .request = request, .signal_fd = signal_fd, .agent = AGENT_CONTINUES, .outlived_ns = INT64_MAX};
    port_suspended_ns(&least_ns, &trial.suspended_ns);
    port_clock_offset_ns(&trial.offset_least_ns, &trial.offset_most_ns);
    trial.agent_cpu_ns = port_process_cpu_ns(port_getpid());
    kept.server = (struct server){.generator = NOT_STARTED};
    if (!request->root) /* its folder is in the root */
        port_statfs(request->folder, &before);
    trial.free_bytes = before.available_bytes;
    answer->id = request->id;
    answer->nonce = request->nonce;
    set_outcome(answer, OUTCOME_EXITED, 0);
    answer->has_image = false;
    answer->notes = (struct text){answer->note_bytes, sizeof answer->note_bytes, 0, false};
    __builtin_memset(&answer->facts, 0, sizeof answer->facts);
}

void prepare_trial(const struct request *request) {
    end_trial();
    start_early(request);
}

enum agent_state run_trial(const struct request *request, int signal_fd, const struct answer **answer) {
    struct facts before = {0};
    int error;

    *answer = &kept.answer;
    begin(request, signal_fd);
    observe_machine(&before, &machine_files);
    error = start(&kept.started, request, true);
    if (error) {
        answer_unstarted(error);
        return AGENT_CONTINUES;
    }
    bool room = open_output(&kept.answer.outputs[PROGRAM_OUT], kept.started.out);
    room &= open_output(&kept.answer.outputs[PROGRAM_ERR], kept.started.err);
    if (request->server.port) { /* its pipes are created with the load generator */
        room &= open_output(&kept.answer.outputs[GENERATOR_OUT], -1);
        room &= open_output(&kept.answer.outputs[GENERATOR_ERR], -1);
    }
    if (!room) {
        kill_with_group(kept.started.pid, kept.started.pid);
        clean_up();
        root_drop();
        answer_unstarted(-PORT_E_NOMEM);
        return AGENT_CONTINUES;
    }
    server_begin(&kept.server, request, &kept.answer, &kept.started);
    watch();
    server_abandon(&kept.server);
    clean_up();
    drain_outputs();
    decide_outcome();
    measure(&before);
    if (trial.agent == AGENT_CONTINUES)
        begin_answer(&kept.answer);
    observe_conditions(&kept.answer.facts);
    root_drop();
    return trial.agent;
}
