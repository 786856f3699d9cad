// SPDX-License-Identifier: MIT OR Apache-2.0
/* Runs the parts of the agent that fork, mount and wait, without an operating system: each call is printed,
 * and returns what the command line says. Implements port.h and root_file_system.h.
 *
 *     fake_calls MODE [SETTING]...
 *
 *     start        `start` once; the fork returns 100, then 101 and so on
 *     early        `start_early` twice, then `start` twice
 *     untraced     `start` without tracing
 *     keep         `root_keep` of 7 and 8, `root_drop` twice, and the same of 9
 *     keeper       `split_from_keeper`; the fork returns 100
 *     main         `port_main`, on "cpus=N" processors, with a plan from standard input; "+path" gives it a
 * file, "+none" no argument. Reading the plan and running trials are calls like others
 *
 * Settings: "NAME=RESULT" is the result of a call, "NAME@N=RESULT" that of the N-th call of this name;
 * "+NAME" or "+NAME:LENGTH" sets a field of the request, a path to one of this length; "value=N" is the exit
 * status of each child that ends. "fork=0" makes it a child. A positive result of `wait` is ten times the
 * process's number and an enum port_change. A call of `poll` that returns 0 lets its time pass, and each
 * call "poll_takes=N" nanoseconds; the result of "ready" says which of two descriptors are readable, in bits.
 * Descriptors are counted from 10, or from "first=N". At the end the program prints what the child left for
 * the agent or what the function returned, and the open descriptors.
 */
#include "../../../native/agent/answer.h"
#include "../../../native/agent/child.h"
#include "../../../native/agent/conditions.h"
#include "../../../native/agent/keeper.h"
#include "../../../native/agent/root.h"
#include "../../../native/agent/start.h"
#include "../../../native/agent/trial.h"
#include "../../../native/port/root_file_system.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1024, CALLS = 100000, SELF = 40, LEFT = 60 };
static int64_t now_ns = 1000000000;
static char **rules;
static int rule_count;
static struct {
    const char *name;
    int count;
} called[MOST];
static char *paths[MOST]; /* of open descriptors; NULL: not open */
static int next_fd = 10;
static bool listed;
static struct launch *launch;

static void print(const char *format, ...) {
    static int count;
    va_list list;
    va_start(list, format);
    vprintf(format, list);
    va_end(list);
    putchar('\n');
    if (++count > CALLS)
        exit(3); /* it never ends */
}

static bool find(const char *wanted, long *value) {
    size_t length = strlen(wanted);
    for (int i = 0; i < rule_count; i++)
        if (strncmp(rules[i], wanted, length) == 0 && rules[i][length] == '=') {
            *value = atol(rules[i] + length + 1);
            return true;
        }
    return false;
}

/* The result of this call. */
static long result(const char *name, long otherwise) {
    char numbered[64];
    int i = 0;
    while (called[i].name && strcmp(called[i].name, name) != 0)
        i++;
    called[i].name = name;
    snprintf(numbered, sizeof numbered, "%s@%d", name, ++called[i].count);
    long value = otherwise;
    if (!find(numbered, &value))
        find(name, &value);
    return value;
}

static int opened(int fd, const char *path) {
    if (fd >= 0) {
        if (fd >= MOST)
            abort();
        paths[fd] = strdup(path);
        next_fd += fd == next_fd;
    }
    return fd;
}

static void print_end(void) {
    if (launch)
        print("launch: step %d failed %d released %lld delay %lld", launch->step, launch->failed,
              (long long)launch->released_ns, (long long)launch->times.delay_ns);
    printf("open:");
    for (int fd = 0; fd < MOST; fd++)
        if (paths[fd])
            printf(" %d", fd);
    putchar('\n');
}

/* Files */

int port_open_read(const char *path) {
    listed &= strcmp(path, "/proc") != 0;
    int fd = opened((int)result("open_read", next_fd), path);
    print("open_read %s %d", path, fd);
    return fd;
}

int port_open_write(const char *path) {
    int fd = opened((int)result("open_write", next_fd), path);
    print("open_write %s %d", path, fd);
    return fd;
}

int port_open_null(void) {
    int fd = opened((int)result("open_null", next_fd), "null");
    print("open_null %d", fd);
    return fd;
}

int port_close(int fd) {
    if (fd < 0 || fd >= MOST || !paths[fd]) {
        print("close of a closed descriptor %d", fd);
        return -9;
    }
    print("close %d", fd);
    paths[fd] = NULL;
    return 0;
}

/* Memory that can be written below and above the memory of children and around it, memory of other kinds, and
 * this function's stack. */
static long read_maps(char *buffer, size_t size) {
    static bool whole;
    unsigned long room = (unsigned long)&child_room, end = room + sizeof child_room,
                  stack = (unsigned long)&room;

    if (whole)
        return 0;
    whole = true;
    return snprintf(
        buffer, size,
        "1000-3000 rw-p 0 fe:00 7 /agent\n4000-5000 r--p 0\n5000-6000 rw-s 0\n6000-7000 r-xp 0\nwrong\n"
        "%lx-%lx rw-p 0\n%lx-%lx rw-p 0 [stack]\nfedc00000000-fedc0000a000 rw-p 0\n",
        room - 0x2000, end + 0x3000, stack - 0x100000, stack + 0x100000);
}

long port_read(int fd, void *buffer, size_t size) {
    char text[64] = "";
    print("read %d", fd);
    if (strcmp(paths[fd], "/proc/self/maps") == 0)
        return read_maps(buffer, size);
    if (strcmp(paths[fd], "/proc/self/schedstat") == 0)
        strcpy(text, "111 222 333\n");
    else if (strncmp(paths[fd], "/proc/", 6) == 0)
        sprintf(text, "%d (x) S %d %d\n", LEFT, SELF, LEFT);
    else
        return result("read", 1);
    memcpy(buffer, text, size < strlen(text) ? size : strlen(text));
    return (long)strlen(text);
}

long port_write(int fd, const void *data, size_t size) {
    (void)data;
    print("write %d %zu", fd, size);
    return (long)size;
}

long port_lseek(int fd, long offset) {
    print("lseek %d %ld", fd, offset);
    return 0;
}

int port_write_file(const char *path, const char *text) {
    print("write_file %s %s", path, text);
    return (int)result("write_file", 0);
}

int port_pipe(int ends[2], bool reader_blocks) {
    int error = (int)result("pipe", 0);
    if (error == 0) {
        ends[0] = opened(next_fd, "pipe");
        ends[1] = opened(next_fd, "pipe");
    }
    print("pipe %d", reader_blocks);
    return error;
}

int port_dup2(int from, int to) {
    print("dup2 %d %d", from, to);
    return (int)result("dup2", to);
}

/* One process is left, until it is killed. */
long port_getdents(int fd, void *buffer, size_t size) {
    (void)fd, (void)size;
    if (listed)
        return 0;
    listed = true;
    return sprintf(buffer, "%d", LEFT) + 1;
}

const char *port_next_dirent(const void *buffer, size_t *offset) {
    const char *name = (const char *)buffer + *offset;
    *offset += strlen(name) + 1;
    return name;
}

int port_keep_from_children(void *memory, size_t size) {
    long from_room = (char *)memory - (char *)&child_room;
    if (labs(from_room) < 1 << 20)
        print("keep_from_children room%+ld %zu", from_room, size);
    else
        print("keep_from_children %lx %zu", (unsigned long)memory, size);
    return 0;
}

void *port_mmap(size_t size, bool shared) {
    print("mmap %d", shared);
    return result("mmap", 1) ? launch = calloc(1, size) : NULL;
}

/* Time */

int64_t port_now_ns(void) {
    return now_ns;
}

int port_poll(struct port_pollfd *polled, unsigned count, int64_t wait_ns) {
    long found = result("poll", count ? 1 : 0);
    print("poll %d %d %lld", count ? polled->fd : -1, count ? polled->events : 0, (long long)wait_ns);
    now_ns += result("poll_takes", 0);
    if (found == 0 && wait_ns > 0)
        now_ns += wait_ns;
    long ready = count == 2 ? result("ready", 1) : 0;
    for (unsigned i = 0; i < count; i++)
        polled[i].revents = ready >> i & 1 ? PORT_POLL_IN : 0;
    return (int)found;
}

void port_relax(void) {
    print("relax");
}

/* Signals and processes */

int port_block_signals(void) {
    int fd = opened((int)result("block_signals", next_fd), "signals");
    print("block_signals %d", fd);
    return fd;
}

int port_read_signal(int fd) {
    (void)fd;
    return (int)result("read_signal", 0);
}

void port_unblock_signals(void) {
    print("unblock_signals");
}

void port_exit(int status) {
    print("exit %d", status);
    print_end();
    exit(0);
}

int port_getpid(void) {
    return SELF;
}

int port_getppid(void) {
    return (int)result("getppid", SELF);
}

int port_getpgrp(void) {
    return SELF;
}

int port_fork(void) {
    static int pid = 100;
    print("fork");
    return (int)result("fork", pid++);
}

int port_exec(const char *path, char *const arguments[], char *const environment[]) {
    print("exec %s %s %s", path, arguments[0], environment[0]);
    return (int)result("exec", -2);
}

int port_kill(int pid, int signal) {
    print("kill %d %d", pid, signal);
    return 0;
}

int port_killpg(int group, int signal) {
    print("killpg %d %d", group, signal);
    return 0;
}

int port_setsid(void) {
    print("setsid");
    return (int)result("setsid", SELF);
}

int port_set_dumpable(bool dumpable) {
    print("set_dumpable %d", dumpable);
    return 0;
}

int port_chdir(const char *path) {
    print("chdir %s", path);
    return (int)result("chdir", 0);
}

void port_umask(int mask) {
    print("umask %o", (unsigned)mask);
}

int port_set_parent_death_signal(int signal) {
    print("set_parent_death_signal %d", signal);
    return (int)result("set_parent_death_signal", 0);
}

int port_become_subreaper(void) {
    print("become_subreaper");
    return (int)result("become_subreaper", 0);
}

int port_limit_file_size(int64_t bytes) {
    print("limit_file_size %lld", (long long)bytes);
    return (int)result("limit_file_size", 0);
}

int port_disable_core_dumps(void) {
    print("disable_core_dumps");
    return (int)result("disable_core_dumps", 0);
}

int port_set_affinity(int pid, const struct port_cpu_set *cpus) {
    print("set_affinity %d %lx", pid, cpus->bits[0]);
    return (int)result("set_affinity", 0);
}

int port_count_allowed_cpus(int pid) {
    return (int)result("cpus", pid);
}

int port_set_nice(int nice) {
    print("set_nice %d", nice);
    return (int)result("set_nice", 0);
}

int port_get_nice(int pid, int *nice) {
    return *nice = pid;
}

int port_wait(int kept, struct port_event *event) {
    long found = result("wait", 0), value = 0;
    print("wait %d", kept);
    if (found <= 0)
        return (int)found;
    find("value", &value);
    *event = (struct port_event){
        .pid = (int)found / 10, .change = (enum port_change)(found % 10), .value = (int)value};
    return event->pid;
}

int port_trace_exit(int pid) {
    print("trace_exit %d", pid);
    return (int)result("trace_exit", 0);
}

int port_trace_continue(int pid, int signal) {
    print("trace_continue %d %d", pid, signal);
    return 0;
}

int port_close_from(int first) {
    print("close_from %d", first);
    return 0;
}

/* The plan and its trials */

enum plan_result plan_open(struct plan *plan) {
    print("plan_open %d", plan->lines.fd);
    return (enum plan_result)result("plan_open", PLAN_TRIAL);
}

enum plan_result plan_next(struct plan *plan, struct request *request) {
    (void)request;
    if (!plan->lines.wait(plan->lines.fd))
        return PLAN_STOPPED;
    print("plan_next");
    plan->line = 7;
    plan->error = "why";
    return (enum plan_result)result("plan_next", PLAN_END);
}

enum agent_state run_trial(const struct request *request, int signal_fd, const struct answer **answer) {
    (void)request;
    *answer = NULL;
    print("run_trial %d", signal_fd);
    return (enum agent_state)result("run_trial", AGENT_CONTINUES);
}

void prepare_trial(const struct request *request) {
    print("prepare_trial %d", request != NULL);
}

void begin_trials(void) {
    print("begin_trials");
}

void begin_conditions(void) {
    print("begin_conditions");
}

bool write_header(void) {
    print("write_header");
    return result("write_header", 1);
}

bool write_answer(const struct answer *answer) {
    (void)answer;
    print("write_answer");
    return result("write_answer", 1);
}

bool write_plan_error(int64_t line, const char *error) {
    print("write_plan_error %lld %s", (long long)line, error);
    return true;
}

/* Mounts */

int port_unshare_mounts(void) {
    print("unshare_mounts");
    return (int)result("unshare_mounts", 0);
}

int port_mount_tmpfs(const char *where, const char *options) {
    print("mount_tmpfs %s %s", where, options);
    return (int)result("mount_tmpfs", 0);
}

int port_mount_overlay(const char *where, const char *options) {
    print("mount_overlay %s %s", where, options);
    return (int)result("mount_overlay", 0);
}

int port_bind(const char *from, const char *to, bool recursive) {
    print("bind %s %s %d", from, to, recursive);
    return (int)result("bind", 0);
}

int port_make_read_only(const char *where) {
    print("make_read_only %s", where);
    return (int)result("make_read_only", 0);
}

int port_mkdir(const char *path, int mode) {
    print("mkdir %s %o", path, (unsigned)mode);
    return (int)result("mkdir", 0);
}

const char *const port_stream_links[PORT_STREAM_LINKS][2] = {{"/proc/self/fd", "/dev/fd"},
                                                             {"/proc/self/fd/0", "/dev/stdin"},
                                                             {"/proc/self/fd/1", "/dev/stdout"},
                                                             {"/proc/self/fd/2", "/dev/stderr"}};

int port_symlink(const char *target, const char *path) {
    print("symlink %s %s", target, path);
    return (int)result("symlink", 0);
}

int port_enter_root(const char *mount_point) {
    print("enter_root %s", mount_point);
    return (int)result("enter_root", 0);
}

/* The request */

static const char *path_of(const char *name, const char *rule) {
    size_t length = strlen(name);
    const char *wanted = strchr(rule, ':');
    size_t size = wanted ? (size_t)atol(wanted + 1) : length + 1;
    char *path = malloc(size + 1);
    path[0] = '/';
    for (size_t i = 1; i < size; i++)
        path[i] = i <= length ? name[i - 1] : 'x';
    path[size] = 0;
    return path;
}

static void set(struct request *request, const char *rule) {
    struct {
        const char *name, **path;
    } fields[] = {{"root", &request->root},
                  {"layer", &request->layer},
                  {"files", &request->files},
                  {"in", &request->in},
                  {"out", &request->out}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strncmp(rule, fields[i].name, strlen(fields[i].name)) == 0)
            *fields[i].path = path_of(fields[i].name, rule);
    if (strcmp(rule, "pinned") == 0) {
        request->program.pinned = true;
        request->program.cpus.bits[0] = 0x15;
    }
    if (strcmp(rule, "nice") == 0) {
        request->has_nice = true;
        request->nice = -3;
    }
}

static bool has(const char *wanted) {
    bool found = false;
    for (int i = 0; i < rule_count; i++)
        found |= strcmp(rules[i], wanted) == 0;
    return found;
}

static void print_started(int returned, const struct started *started) {
    print("returned %d: pid %d trace_failed %d out %d err %d release %d files %d %d launch %d", returned,
          started->pid, started->trace_failed, started->out, started->err, started->release,
          started->files.comm, started->files.schedstat, started->launch != NULL);
}

int main(int count, char **arguments) {
    static struct request request = {.folder = "/work", .disk_bytes = 1000};
    static struct started started, second;
    static char program[] = "/bin/p", variable[] = "A=b";

    if (count < 2)
        return 2;
    rules = arguments + 2;
    rule_count = count - 2;
    long first = next_fd;
    find("first", &first);
    next_fd = (int)first;
    request.program.arguments[0] = program;
    request.program.environment[0] = variable;
    for (int i = 0; i < rule_count; i++)
        if (rules[i][0] == '+')
            set(&request, rules[i] + 1);
    if (strcmp(arguments[1], "start") == 0) {
        print_started(start(&started, &request, true), &started);
        close_task_files(&started.files);
    } else if (strcmp(arguments[1], "untraced") == 0) {
        print_started(start(&started, &request, false), &started);
    } else if (strcmp(arguments[1], "early") == 0) {
        start_early(&request);
        start_early(&request);
        print("start");
        print_started(start(&started, &request, true), &started);
        print_started(start(&second, &request, true), &second);
    } else if (strcmp(arguments[1], "keep") == 0) {
        root_keep(7);
        root_keep(8);
        root_drop();
        root_drop();
        root_keep(9);
        root_drop();
    } else if (strcmp(arguments[1], "keeper") == 0) {
        print("returned %d", split_from_keeper());
    } else if (strcmp(arguments[1], "main") == 0) {
        static char name[] = "agent", dash[] = "-", path[] = "/plan";
        bool of_path = has("+path");
        char *given[] = {name, of_path ? path : dash, NULL};
        print("returned %d", port_main(has("+none") ? 1 : 2, given));
    } else {
        return 2;
    }
    launch = NULL;
    print_end();
    return 0;
}
