// SPDX-License-Identifier: MIT OR Apache-2.0
/* Runs one trial of the agent by a script, on a clock that only waiting moves: events come at exact times,
 * files have the wanted content, and every signal that the agent sends is printed. Implements port.h, start.h
 * and root.h.
 *
 *     fake_trial SCRIPT
 *
 * Lines of the script: "set NAME VALUE" (see `settings`); "file PATH CONTENT" (the last character "\" stands
 * for a newline); "fail PATH OFFSET ERRNO" (the read at this offset fails); "observe KIND NAME"; "child PID
 * PARENT" (a process that is left at the end); and "at MS WHAT A B C", MS after the start in order, which may
 * have decimals. "next MS WHAT A B C" is the same after the start of the second trial, which "set trials 2"
 * makes:
 *
 *     event PID CHANGE VALUE    what wait reports (enum port_change)
 *     signal NUMBER             for the agent
 *     out OUTPUT BYTES          0 to 3: standard output, standard error, and those of the load generator
 *     closed                    the reading end of the agent's standard output is closed
 *     free BYTES                free space from now on
 *     accept                    the server accepts connections from now on
 *     executed                the load generator, which "set generator_waits 1" made wait, is executed
 *
 * "set pinned 1" pins the trial to processor 1; the agent is on processor "cpu". A poll that may not wait
 * takes "poll_ns". With "shows_polls", each poll is printed with its longest time.
 *
 * Each read of the file "/slow" takes 500 ms. SIGKILL ends a process unless "immortal" is its number. The
 * answer is written in pieces of at most "write_bytes"; the write with the number "write_again" finds a full
 * pipe, and from the number "write_fails" on each fails. With "set tasks 1" the process has one thread, whose
 * file is its /proc/100/status. Prints the answer to standard output, and each call that has an effect
 * outside the agent to standard error as "MS NAME ARGUMENTS". A byte beyond mapped memory is a fault, and
 * what is not shared must be kept from children.
 */
#include "../../../native/agent/answer.h"
#include "../../../native/agent/conditions.h"
#include "../../../native/agent/kill.h"
#include "../../../native/agent/root.h"
#include "../../../native/agent/start.h"
#include "../../../native/agent/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { MOST = 256, SELF = 10, PROGRAM = 100, GENERATOR = 200, FOLDER = 900, TASKS = 901 };
#define FILES ((int)*setting("files"))     /* descriptor of the first file */
#define OUTPUTS ((int)*setting("outputs")) /* of the first output */
static const int64_t BEGIN_NS = 1000000000000;

static int64_t now_ns = 1000000000000;
static struct action {
    long long at_ns;
    char what[16];
    long long a, b, c;
    bool done;
} actions[MOST], later[MOST];
static struct {
    char path[128], *content;
    size_t size;
    long offset, fails_at;
    int error;
    bool open;
} files[MOST];
static struct {
    int pid, parent;
    bool gone;
} processes[MOST];
static int action_count, later_count, file_count, process_count, listed, writes;
static int64_t pending[4];
static struct launch launches[2]; /* of the program, and of the load generator */
static bool accepts, closed, tasks_listed;

static struct {
    const char *name;
    long long value;
} settings[] = {{"timeout_ms", 10000},
                {"output_bytes", 1000},
                {"disk_bytes", 1000},
                {"free", 5000},
                {"failed", 0},
                {"step", 0},
                {"released", 1},
                {"trace_failed", 0},
                {"immortal", 0},
                {"chunk", 4096},
                {"port", 0},
                {"ready_ms", 100},
                {"warm_ms", 0},
                {"drain_ms", 0},
                {"stop_ms", 100},
                {"start_error", 0},
                {"mmap_fails", 0},
                {"late_ns", 0},
                {"suspended", 0},
                {"clock_step", 0},
                {"clock_doubt", 0},
                {"root", 0},
                {"generator_error", 0},
                {"delay_ns", 0},
                {"generator_failed", 0},
                {"generator_waits", 0},
                {"term_ends", 1},
                {"cpu_ns", 0},
                {"trials", 1},
                {"files", 1000},
                {"outputs", 500},
                {"second_port", -1},
                {"second_root", 0},
                {"second_output_bytes", 0},
                {"tasks", 0},
                {"write_bytes", 1 << 20},
                {"write_again", 0},
                {"write_fails", 0},
                {"policy_counts_writes", 0},
                {"pinned", 0},
                {"cpu", 0},
                {"poll_ns", 0},
                {"shows_polls", 0}};

static long long *setting(const char *name) {
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++)
        if (strcmp(settings[i].name, name) == 0)
            return &settings[i].value;
    fprintf(stderr, "no setting %s\n", name);
    exit(2);
}

static void log_time(void) {
    long long ns = now_ns - BEGIN_NS;
    fprintf(stderr, "%lld", ns / 1000000);
    if (ns % 1000000)
        fprintf(stderr, ".%06lld", ns % 1000000);
}

#define log(...) (log_time(), fprintf(stderr, " " __VA_ARGS__))

static void advance(int64_t to_ns) {
    now_ns = to_ns > now_ns ? to_ns : now_ns;
    for (int i = 0; i < action_count; i++) {
        if (actions[i].done || actions[i].at_ns > now_ns)
            continue;
        const char *what = actions[i].what;
        if (strcmp(what, "out") == 0)
            pending[actions[i].a] += actions[i].b;
        else if (strcmp(what, "closed") == 0)
            closed = true;
        else if (strcmp(what, "free") == 0)
            *setting("free") = actions[i].a;
        else if (strcmp(what, "accept") == 0)
            accepts = true;
        else if (strcmp(what, "executed") == 0)
            launches[1].released_ns = now_ns;
        else
            continue; /* events and signals are taken by the agent */
        actions[i].done = true;
    }
}

static void add_event(int pid, enum port_change change, int value) {
    if (action_count == MOST)
        abort();
    actions[action_count].at_ns = now_ns;
    strcpy(actions[action_count].what, "event");
    actions[action_count].a = pid;
    actions[action_count].b = change;
    actions[action_count++].c = value;
}

static void end(int pid, int signal) {
    for (int i = 0; i < process_count; i++)
        if (processes[i].pid == pid && !processes[i].gone && pid != *setting("immortal")) {
            processes[i].gone = true;
            add_event(pid, PORT_SIGNALED, signal);
        }
}

static void add_process(int pid, int parent) {
    processes[process_count].pid = pid;
    processes[process_count++].parent = parent;
}

/* Time */

int64_t port_now_ns(void) {
    return now_ns;
}

int port_poll(struct port_pollfd *polled, unsigned count, int64_t wait_ns) {
    if (count == 1 && polled->events == PORT_POLL_OUT) {
        log("writable %d %lld\n", polled->fd, (long long)wait_ns);
        return 1;
    }
    if (count == 6 && polled[5].events)
        exit(4); /* of standard output only its end is of interest */
    if (*setting("shows_polls"))
        log("poll %lld\n", (long long)wait_ns);
    if (wait_ns == 0)
        wait_ns = *setting("poll_ns");
    int64_t until_ns = wait_ns < 0 || wait_ns > INT64_MAX - now_ns ? INT64_MAX : now_ns + wait_ns;
    bool woken = false;
    for (int i = 0; i < action_count; i++)
        if (!actions[i].done && actions[i].at_ns <= until_ns)
            until_ns = actions[i].at_ns, woken = true;
    if (until_ns == INT64_MAX) {
        log("endless\n");
        exit(3);
    }
    advance(woken ? until_ns : until_ns + *setting("late_ns"));
    for (unsigned i = 0; i < count; i++)
        polled[i].revents = closed && polled[i].fd == 1 ? PORT_POLL_ERR : 0;
    return woken;
}

void port_relax(void) {}

void port_suspended_ns(int64_t *least, int64_t *most) {
    static int64_t before = 0;
    *least = before;
    *most = before;
    before += *setting("suspended");
}

/* The clock was set by `clock_step` between two readings; each takes `clock_doubt`. */
void port_clock_offset_ns(int64_t *least, int64_t *most) {
    static int64_t before = 0;
    *least = before;
    *most = before + *setting("clock_doubt");
    before += *setting("clock_step");
}

/* Files */

int port_open_read(const char *path) {
    if (strcmp(path, "/proc") == 0) {
        listed = 0;
        return FOLDER;
    }
    if (*setting("tasks") && strcmp(path, "/proc/100/task") == 0) {
        tasks_listed = false;
        return TASKS;
    }
    for (int i = 0; i < file_count; i++)
        if (strcmp(files[i].path, path) == 0) {
            files[i].offset = 0;
            files[i].open = true;
            return FILES + i;
        }
    return -PORT_E_NOENT;
}

int port_close(int fd) {
    if (fd >= FILES && fd < FILES + file_count)
        files[fd - FILES].open = false;
    return 0;
}

static long read_output(int output, char *buffer, size_t size) {
    if (pending[output] == 0)
        return -PORT_E_AGAIN;
    if ((long long)size > pending[output])
        size = (size_t)pending[output];
    memset(buffer, 'x', size);
    pending[output] -= (int64_t)size;
    return (long)size;
}

long port_read(int fd, void *buffer, size_t size) {
    if (fd >= OUTPUTS && fd < OUTPUTS + 4)
        return read_output(fd - OUTPUTS, buffer, size);
    if (fd < FILES || fd >= FILES + file_count)
        abort();
    int at = fd - FILES;
    if (strcmp(files[at].path, "/slow") == 0)
        advance(now_ns + 500000000);
    size_t left = files[at].size - (size_t)files[at].offset;
    size = size < (size_t)*setting("chunk") ? size : (size_t)*setting("chunk");
    size = size < left ? size : left;
    if (files[at].error && files[at].offset >= files[at].fails_at)
        return -files[at].error;
    memcpy(buffer, files[at].content + files[at].offset, size);
    files[at].offset += (long)size;
    return (long)size;
}

long port_lseek(int fd, long offset) {
    log("rewind %s\n", files[fd - FILES].path);
    return files[fd - FILES].offset = offset;
}

/* The offset of the next entry is that of its end. */
long port_getdents(int fd, void *buffer, size_t size) {
    char *to = buffer;
    if (fd == TASKS && !tasks_listed) {
        tasks_listed = true;
        return sprintf(to, "%d", PROGRAM) + 1;
    }
    if (fd == TASKS)
        return 0;
    if (fd != FOLDER || size < 4096)
        abort();
    for (; listed < process_count; listed++)
        if (!processes[listed].gone) {
            char path[64];
            to += sprintf(to, "%d", processes[listed].pid) + 1;
            sprintf(path, "/proc/%d/stat", processes[listed].pid);
            if (port_open_read(path) < 0) {
                strcpy(files[file_count].path, path);
                files[file_count].content = malloc(64);
                files[file_count].size =
                    (size_t)sprintf(files[file_count].content, "%d (x) S %d %d\n", processes[listed].pid,
                                    processes[listed].parent, processes[listed].pid);
                file_count++;
            }
        }
    return to - (char *)buffer;
}

const char *port_next_dirent(const void *buffer, size_t *offset) {
    const char *name = (const char *)buffer + *offset;
    *offset += strlen(name) + 1;
    return name;
}

long port_write(int fd, const void *data, size_t size) {
    writes++;
    if (writes == *setting("write_again"))
        return -PORT_E_AGAIN;
    if (*setting("write_fails") && writes >= *setting("write_fails"))
        return -32;
    return write(fd, data, size < (size_t)*setting("write_bytes") ? size : (size_t)*setting("write_bytes"));
}

int port_statfs(const char *path, struct port_file_system *found) {
    (void)path;
    found->available_bytes = *setting("free");
    return found->available_bytes < 0 ? -PORT_E_NOENT : 0;
}

static struct {
    char *start, *memory;
    size_t room, size;
    bool kept; /* from children */
} mapped[MOST];
static int mapped_count;

void *port_mmap(size_t size, bool shared) {
    if (*setting("mmap_fails") && --*setting("mmap_fails") == 0)
        return NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), room = (size + page - 1) / page * page;
    char *start = mmap(NULL, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (start == MAP_FAILED || mprotect(start + room, page, PROT_NONE) || mapped_count == MOST)
        abort();
    mapped[mapped_count].start = start;
    mapped[mapped_count].memory = start + room - size;
    mapped[mapped_count].room = room;
    mapped[mapped_count].size = size;
    mapped[mapped_count].kept = shared; /* what is shared is for children */
    return mapped[mapped_count++].memory;
}

static int find_mapped(const void *memory, size_t size) {
    for (int i = 0; i < mapped_count; i++)
        if (mapped[i].memory == memory && mapped[i].size == size)
            return i;
    abort();
}

void port_munmap(void *memory, size_t size) {
    int i = find_mapped(memory, size);
    munmap(mapped[i].start, mapped[i].room);
    mapped[i].memory = NULL;
    log("munmap %zu\n", size);
}

int port_keep_from_children(void *memory, size_t size) {
    mapped[find_mapped(memory, size)].kept = true;
    return 0;
}

/* Processes */

int port_wait(int kept, struct port_event *event) {
    bool children = false;
    for (int i = 0; i < process_count; i++)
        children |= !processes[i].gone;
    for (int i = 0; i < action_count; i++) {
        if (actions[i].done || strcmp(actions[i].what, "event") != 0)
            continue;
        children = true;
        if (actions[i].at_ns > now_ns)
            continue;
        bool gone = actions[i].b == PORT_EXITED || actions[i].b == PORT_SIGNALED;
        *event = (struct port_event){.pid = (int)actions[i].a, .change = PORT_EXITED_UNREAPED};
        if (gone && event->pid == kept)
            return event->pid;
        event->change = (enum port_change)actions[i].b;
        event->value = (int)actions[i].c;
        for (int field = 0; field < PORT_USAGES; field++)
            event->usage[field] = field + 1;
        actions[i].done = true;
        for (int j = 0; j < process_count; j++)
            if (gone && processes[j].pid == event->pid)
                processes[j].gone = true;
        return event->pid;
    }
    return children ? 0 : -PORT_E_CHILD;
}

int port_read_signal(int fd) {
    (void)fd;
    for (int i = 0; i < action_count; i++)
        if (!actions[i].done && actions[i].at_ns <= now_ns && strcmp(actions[i].what, "signal") == 0) {
            actions[i].done = true;
            return (int)actions[i].a;
        }
    return 0;
}

int port_kill(int pid, int signal) {
    log("kill %d %d\n", pid, signal);
    if (signal == PORT_SIG_KILL || *setting("term_ends"))
        end(pid, signal);
    return 0;
}

int port_killpg(int group, int signal) {
    log("killpg %d %d\n", group, signal);
    return 0;
}

int port_trace_continue(int pid, int signal) {
    log("continue %d %d\n", pid, signal);
    return 0;
}

int port_trace_listen(int pid) {
    log("listen %d\n", pid);
    return 0;
}

int port_try_connect(int port, int64_t wait_ns) {
    log("connect %d %lld\n", port, (long long)wait_ns);
    return accepts ? 0 : -111;
}

int port_getpid(void) {
    return SELF;
}

int port_getpgrp(void) {
    return SELF;
}

int64_t port_process_cpu_ns(int pid) {
    static int64_t used_ns;
    used_ns += pid == SELF ? *setting("cpu_ns") : 0;
    return pid == SELF && *setting("cpu_ns") < 0 ? -PORT_E_NOENT : used_ns;
}

int port_count_allowed_cpus(int pid) {
    log("count_cpus %d\n", pid);
    return 2;
}

int port_current_cpu(void) {
    return (int)*setting("cpu");
}

int port_get_nice(int pid, int *nice) {
    (void)pid;
    *nice = 3;
    return 0;
}

int port_get_affinity(int pid, struct port_cpu_set *cpus) {
    (void)pid;
    *cpus = (struct port_cpu_set){.bits = {3}};
    return 0;
}

int port_get_policy(void) {
    return *setting("policy_counts_writes") ? writes : 0;
}

int port_get_limit(int resource, uint64_t both[2]) {
    both[0] = both[1] = (uint64_t)resource;
    return 0;
}

/* start.h and root.h */

static int begin_process(struct started *started, int pid, int error, bool generator) {
    struct launch *launch = &launches[generator];
    *started = (struct started)NOT_STARTED;
    if (error)
        return -error;
    *launch = (struct launch){.times.delay_ns = *setting("delay_ns")};
    launch->failed = (int)-*setting(generator ? "generator_failed" : "failed");
    launch->released_ns = *setting("released") && !(generator && *setting("generator_waits")) ? now_ns : 0;
    launch->step = (int)*setting("step");
    started->launch = launch;
    started->pid = pid;
    started->out = OUTPUTS + 2 * generator;
    started->err = OUTPUTS + 2 * generator + 1;
    add_process(pid, SELF);
    log("start %d\n", pid);
    return 0;
}

int start(struct started *started, const struct request *request, bool traced) {
    static int generators;
    (void)request;
    if (!traced)
        return begin_process(started, GENERATOR + generators++, (int)*setting("generator_error"), true);
    int result = begin_process(started, PROGRAM, (int)*setting("start_error"), false);
    if (result)
        return result;
    started->trace_failed = (int)-*setting("trace_failed");
    open_task_files(&started->files, PROGRAM);
    return 0;
}

void start_early(const struct request *request) {
    (void)request;
}

const char *start_step(int step) {
    return step ? "do the step" : "do the first step";
}

void root_keep(int pid) {
    log("root_keep %d\n", pid);
}

void root_drop(void) {
    log("root_drop\n");
}

/* The script */

static void read_action(struct action *action, const char *text) {
    double ms;
    *action = (struct action){0};
    if (sscanf(text, "%lf %15s %lld %lld %lld", &ms, action->what, &action->a, &action->b, &action->c) < 2)
        exit(2);
    action->at_ns = (long long)(ms * 1000000 + 0.5);
}

static void read_script(const char *path, struct request *request) {
    static char line[400000];
    char word[128];
    long long a, b;
    FILE *script = fopen(path, "r");
    if (!script)
        exit(2);
    while (fgets(line, sizeof line, script)) {
        int used = 0;
        if (sscanf(line, "set %127s %lld", word, &a) == 2) {
            *setting(word) = a;
        } else if (sscanf(line, "file %127s %n", files[file_count].path, &used) == 1) {
            files[file_count].size = strlen(line + used) - 1;
            files[file_count].content = strdup(line + used);
            for (char *at = files[file_count].content; *at; at++)
                *at = *at == '\\' ? '\n' : *at == '|' ? 0 : *at;
            file_count++;
        } else if (sscanf(line, "fail %127s %lld %lld", word, &a, &b) == 3) {
            for (int i = 0; i < file_count; i++)
                if (strcmp(files[i].path, word) == 0)
                    files[i].fails_at = (long)a, files[i].error = (int)b;
        } else if (sscanf(line, "child %lld %lld", &a, &b) == 2) {
            add_process((int)a, (int)b);
        } else if (strncmp(line, "observe ", 8) == 0) {
            line[strlen(line) - 1] = 0;
            const char *error =
                parse_observation(&request->observations[request->observation_count], strdup(line + 8));
            if (error) {
                fprintf(stderr, "%s\n", error);
                exit(2);
            }
            request->observation_count++;
        } else if (strncmp(line, "at ", 3) == 0) {
            read_action(&actions[action_count++], line + 3);
        } else if (strncmp(line, "next ", 5) == 0) {
            read_action(&later[later_count++], line + 5);
        } else {
            fprintf(stderr, "%s", line);
            exit(2);
        }
    }
    fclose(script);
}

int main(int count, char **arguments) {
    static struct request request = {.id = "t", .folder = "/"};
    const struct answer *answer;

    if (count != 2)
        return 2;
    read_script(arguments[1], &request);
    request.timeout_ms = *setting("timeout_ms");
    request.output_bytes = *setting("output_bytes");
    request.disk_bytes = *setting("disk_bytes");
    request.root = *setting("root") ? "/root" : NULL;
    request.server.port = (int)*setting("port");
    request.server.ready_ms = *setting("ready_ms");
    request.server.warm_ms = *setting("warm_ms");
    request.server.drain_ms = *setting("drain_ms");
    request.server.stop_ms = *setting("stop_ms");
    request.program.pinned = *setting("pinned");
    request.program.cpus.bits[0] = 2;
    begin_conditions();
    begin_trials();
    if (!write_header())
        log("no header\n");
    for (int i = 0; i < action_count; i++)
        actions[i].at_ns += BEGIN_NS;
    for (int trial = 0; trial < *setting("trials"); trial++) {
        if (trial > 0) {
            for (int i = 0; i < later_count; i++) {
                actions[action_count] = later[i];
                actions[action_count++].at_ns += now_ns;
            }
            request.root = *setting("second_root") ? "/root" : request.root;
            if (*setting("second_output_bytes"))
                request.output_bytes = *setting("second_output_bytes");
            if (*setting("second_port") >= 0)
                request.server.port = (int)*setting("second_port");
        }
        request.read_ns = now_ns - 7;
        enum agent_state state = run_trial(&request, 0, &answer);
        if (!write_answer(answer))
            log("no answer\n");
        prepare_trial(&request);
        log("state %d\n", state);
    }
    for (int i = 0; i < file_count; i++)
        if (files[i].open)
            log("open %s\n", files[i].path);
    for (int i = 0; i < mapped_count; i++)
        if (mapped[i].memory && !mapped[i].kept)
            return 5;
    return 0;
}
