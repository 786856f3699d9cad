// SPDX-License-Identifier: MIT OR Apache-2.0
#include "start.h"

#include "child.h"
#include "kill.h"
#include "root.h"

/* A child that has not started its session after this time is killed. */
static const int64_t SESSION_TIMEOUT_NS = 10 * 1000000000LL;
static const int64_t KILL_TIMEOUT_NS = 10 * 1000000000LL; /* for a killed process to end */
static const int64_t KILL_POLL_NS = 1000000LL;            /* between two checks whether it has ended */

/* The first three do not depend on the request. */
enum step {
    STEP_SESSION,
    STEP_CORE,
    STEP_RELEASE,
    STEP_GROUPS,
    STEP_LIMITS,
    STEP_CPUS,
    STEP_NICE,
    STEP_FILES,
    STEP_NAMESPACE,
    STEP_ROOT,
    STEP_DEVICES,
    STEP_ROOT_FILES,
    STEP_ENTER_ROOT,
    STEP_FOLDER,
    STEP_EXEC
};

static const char *const steps[] = {
    "start a session",
    "disable core dumps",
    "wait for the agent",
    "enter its cgroups",
    "set its limits",
    "pin it to its processors",
    "set its nice value",
    "open its files",
    "make a mount namespace for its root file system",
    "mount its root file system",
    "mount /dev, /proc and /sys in its root file system",
    "mount its files in its root file system",
    "enter its root file system",
    "enter its folder",
    "execute it",
};

static struct started waiting = NOT_STARTED;

const char *start_step(int step) {
    return steps[step];
}

/* Pipes: the process's two outputs, one whose byte reports its session, and one whose byte releases it into
 * exec.
 */
enum { OUT, ERR, SESSION, RELEASE, PIPES };

/* Makes descriptor `to` (0 or 1) a file. */
static int put_file(int to, const char *path) {
    int fd = to == 0 ? port_open_read(path) : port_open_write(path);
    int result = fd < 0 ? fd : port_dup2(fd, to);

    if (fd > 2)
        port_close(fd);
    return result < 0 ? result : 0;
}

/* Replaces the agent's input and outputs, so that a waiting process does not keep them open. */
static int put_pipes(int pipes[PIPES][2]) {
    int null = port_open_null();
    int result = null < 0 ? null : port_dup2(null, 0);

    if (null > 2)
        port_close(null);
    result = result < 0 ? result : port_dup2(pipes[OUT][1], 1);
    result = result < 0 ? result : port_dup2(pipes[ERR][1], 2);
    return result < 0 ? result : 0;
}

static int prepare(enum step step, const struct request *request, int pipes[PIPES][2]) {
    int result;

    switch (step) {
    case STEP_SESSION:
        port_umask(022);
        result = port_set_parent_death_signal(PORT_SIG_KILL);
        result = result ? result : port_setsid() < 0 ? -PORT_E_AGAIN : 0;
        result = result ? result : put_pipes(pipes);
        port_set_dumpable(
            true); /* unlike the agent: else it can't be traced, nor write its own /proc files */
        child_room.memory.schedstat = port_open_read("/proc/self/schedstat");
        port_write(pipes[SESSION][1], "", 1);
        return result;
    case STEP_CORE:
        /* the kernel then kills the trial before the agent; not permitted everywhere */
        port_write_file("/proc/self/oom_score_adj", "500");
        return port_disable_core_dumps();
    case STEP_RELEASE:
        port_close(pipes[RELEASE][1]); /* so that the agent's death ends the wait */
        port_unblock_signals();
        char byte;
        return port_read(pipes[RELEASE][0], &byte, 1) == 1 ? 0 : -PORT_E_INTR;
    case STEP_GROUPS:
        result = 0;
        for (unsigned i = 0; i < request->group_count && !result; i++)
            result = port_write_file(request->groups[i], "0");
        return result;
    case STEP_LIMITS:
        return port_limit_file_size(request->disk_bytes);
    case STEP_CPUS:
        return request->program.pinned ? port_set_affinity(0, &request->program.cpus) : 0;
    case STEP_NICE:
        return request->has_nice ? port_set_nice(request->nice) : 0;
    case STEP_FILES:
        result = request->in ? put_file(0, request->in) : 0;
        return result || !request->out ? result : put_file(1, request->out);
    case STEP_NAMESPACE:
        return request->root ? root_unshare() : 0;
    case STEP_ROOT:
        return request->root ? root_mount(request) : 0;
    case STEP_DEVICES:
        return request->root ? root_mount_devices() : 0;
    case STEP_ROOT_FILES:
        return request->root ? root_mount_files(request) : 0;
    case STEP_ENTER_ROOT:
        return request->root ? root_enter() : 0;
    case STEP_FOLDER:
        return port_chdir(request->folder);
    case STEP_EXEC:
        break;
    }
    return 0;
}

/* Runs in the child: ends in exec, or exits and leaves the error in `launch`. */
static _Noreturn void run_child(struct launch *launch, const struct request *request, int pipes[PIPES][2]) {
    for (int step = STEP_SESSION; step < STEP_EXEC && !launch->failed; step++) {
        launch->step = step;
        launch->failed = prepare((enum step)step, request, pipes);
    }
    if (!launch->failed) {
        launch->step = STEP_EXEC;
        launch->times = read_run_times(child_room.memory.schedstat);
        launch->released_ns = port_now_ns();
        launch->failed = port_exec(request->program.arguments[0], request->program.arguments,
                                   request->program.environment);
    }
    port_exit(127);
}

/* Waits until the child is in a process group of its own, so that no signal for a group reaches the agent. */
static void wait_for_session(int pid, int fd) {
    struct port_pollfd polled = {fd, PORT_POLL_IN, 0};
    int64_t until_ns = port_now_ns() + SESSION_TIMEOUT_NS, left_ns;

    while ((left_ns = until_ns - port_now_ns()) > 0)
        if (port_poll(&polled, 1, left_ns) > 0)
            return; /* also if the child has ended */
    kill_with_group(pid, 0);
}

static void close_pipes(int pipes[PIPES][2], int end) {
    for (int i = 0; i < PIPES; i++)
        close_file(&pipes[i][end]);
}

/* There is at most one traced process and one that is not. Their memory stays for later ones. */
static struct launch *new_launch(bool traced) {
    static struct launch *launches[2];

    if (!launches[traced])
        launches[traced] = port_mmap(sizeof(struct launch), true);
    if (launches[traced])
        *launches[traced] = (struct launch){0};
    return launches[traced];
}

/* Forks a process, which waits to be released. */
static int fork_waiting(struct started *started, const struct request *request, bool traced) {
    int pipes[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    struct launch *launch = new_launch(traced);
    int result = 0, pid;

    *started = (struct started)NOT_STARTED;
    if (!launch)
        return -PORT_E_NOMEM;
    for (int i = 0; i < PIPES && result == 0; i++)
        result = port_pipe(pipes[i], i == RELEASE);
    pid = result ? result : port_fork();
    if (pid == 0) /* it does not have `started` */
        run_child(launch, request, pipes);
    if (pid < 0) {
        close_pipes(pipes, 0);
        close_pipes(pipes, 1);
        return pid;
    }
    started->launch = launch;
    started->pid = pid;
    close_file(&pipes[SESSION][1]); /* so that the child's death ends the wait */
    wait_for_session(pid, pipes[SESSION][0]);
    port_close(pipes[SESSION][0]);
    started->trace_failed = traced ? port_trace_exit(pid) : 0;
    if (traced)
        open_task_files(&started->files, pid);
    started->out = pipes[OUT][0];
    started->err = pipes[ERR][0];
    started->release = pipes[RELEASE][1];
    pipes[RELEASE][1] = -1;
    port_close(pipes[RELEASE][0]);
    close_pipes(pipes, 1);
    return 0;
}

static void release(struct started *started, const struct request *request) {
    if (request->program.pinned) /* moves it while it sleeps; STEP_CPUS reports an error */
        port_set_affinity(started->pid, &request->program.cpus);
    port_write(started->release, "", 1);
    close_file(&started->release);
}

/* Ends the waiting process if it does not wait any more, because something stopped or killed it. */
static void check_waiting(void) {
    int64_t give_up_ns = port_now_ns() + KILL_TIMEOUT_NS;
    struct port_event event = {0};
    bool disturbed = false, gone = false;
    int result;

    while (!gone && port_now_ns() < give_up_ns && ((result = port_wait(0, &event)) != 0 || disturbed)) {
        if (result == 0)
            port_poll(NULL, 0, KILL_POLL_NS);
        if (result > 0 && event.pid != waiting.pid)
            continue;
        disturbed = true;
        gone = result < 0 || event.change == PORT_EXITED || event.change == PORT_SIGNALED;
        if (!gone) {
            port_kill(waiting.pid, PORT_SIG_KILL);
            port_trace_continue(waiting.pid, 0);
        }
    }
    if (!disturbed)
        return;
    port_close(waiting.out);
    port_close(waiting.err);
    port_close(waiting.release);
    close_task_files(&waiting.files);
    waiting = (struct started)NOT_STARTED;
}

void start_early(const struct request *request) {
    if (waiting.pid < 0)
        fork_waiting(&waiting, request, true);
}

int start(struct started *started, const struct request *request, bool traced) {
    int result = 0;

    if (traced && waiting.pid > 0)
        check_waiting();
    *started = traced ? waiting : (struct started)NOT_STARTED;
    if (traced)
        waiting = (struct started)NOT_STARTED;
    if (started->pid < 0)
        result = fork_waiting(started, request, traced);
    if (result == 0)
        release(started, request);
    return result;
}
