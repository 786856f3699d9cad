// SPDX-License-Identifier: MIT OR Apache-2.0
#include "start.h"

#include "kill.h"

/* A child that has not started its session after this time is killed. */
static const int64_t SESSION_TIMEOUT_NS = 10 * 1000000000LL;

enum step {
    STEP_SESSION,
    STEP_LIMITS,
    STEP_CPUS,
    STEP_NICE,
    STEP_FOLDER,
    STEP_FILES,
    STEP_RELEASE,
    STEP_EXEC
};

static const char *const steps[] = {
    "start a session",  "set its limits", "pin it to its processors", "set its nice value",
    "enter its folder", "open its files", "wait for the agent",       "execute it",
};

const char *start_step(int step) {
    return steps[step];
}

/* Pipes: the process's two outputs, one whose byte reports its session, and one whose byte releases it into
 * exec.
 */
enum { OUT, ERR, SESSION, RELEASE, PIPES };

/* Makes descriptor `to` (0, 1 or 2) a file, or the descriptor `otherwise`, or /dev/null if that is negative.
 */
static int put_file(int to, const char *path, int otherwise) {
    int fd = otherwise, result;

    if (path)
        fd = to == 0 ? port_open_read(path) : port_open_write(path);
    else if (fd < 0)
        fd = port_open_null();
    result = fd < 0 ? fd : port_dup2(fd, to);
    if (fd > 2 && fd != otherwise)
        port_close(fd);
    return result < 0 ? result : 0;
}

static int prepare(enum step step, const struct request *request, int pipes[PIPES][2]) {
    int result;

    switch (step) {
    case STEP_SESSION:
        port_umask(022);
        result = port_set_parent_death_signal(PORT_SIG_KILL);
        result = result ? result : port_setsid() < 0 ? -PORT_E_AGAIN : 0;
        port_set_dumpable(
            true); /* unlike the agent: else it can't be traced, nor write its own /proc files */
        port_write(pipes[SESSION][1], "", 1);
        return result;
    case STEP_LIMITS:
        /* the kernel then kills the trial before the agent; not permitted everywhere */
        port_write_file("/proc/self/oom_score_adj", "500");
        result = port_limit_file_size(request->disk_bytes);
        return result ? result : port_disable_core_dumps();
    case STEP_CPUS:
        return request->pinned ? port_set_affinity(&request->cpus) : 0;
    case STEP_NICE:
        return request->has_nice ? port_set_nice(request->nice) : 0;
    case STEP_FOLDER:
        return port_chdir(request->folder);
    case STEP_FILES:
        result = put_file(0, request->in, -1);
        result = result ? result : put_file(1, request->out, pipes[OUT][1]);
        return result ? result : put_file(2, NULL, pipes[ERR][1]);
    case STEP_RELEASE:
        port_close(pipes[RELEASE][1]); /* so that the agent's death ends the wait */
        port_unblock_signals();
        char byte;
        return port_read(pipes[RELEASE][0], &byte, 1) == 1 ? 0 : -PORT_E_INTR;
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
        launch->released_ns = port_now_ns();
        launch->failed = port_exec(request->arguments[0], request->arguments, request->environment);
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
    for (int i = 0; i < PIPES; i++) {
        if (pipes[i][end] >= 0)
            port_close(pipes[i][end]);
        pipes[i][end] = -1;
    }
}

static int start_any(struct started *started, const struct request *request, bool traced) {
    int pipes[PIPES][2] = {{-1, -1}, {-1, -1}, {-1, -1}, {-1, -1}};
    int result = 0, pid;

    *started = (struct started){.pid = -1, .out = -1, .err = -1};
    started->launch = port_mmap(sizeof *started->launch, true);
    if (!started->launch)
        return -PORT_E_NOMEM;
    for (int i = 0; i < PIPES && result == 0; i++)
        result = port_pipe(pipes[i], i == RELEASE);
    pid = result ? result : port_fork();
    if (pid == 0)
        run_child(started->launch, request, pipes);
    if (pid < 0) {
        close_pipes(pipes, 0);
        close_pipes(pipes, 1);
        start_release(started);
        return pid;
    }
    started->pid = pid;
    port_close(pipes[SESSION][1]); /* so that the child's death ends the wait */
    pipes[SESSION][1] = -1;
    wait_for_session(pid, pipes[SESSION][0]);
    port_close(pipes[SESSION][0]);
    started->trace_failed = traced ? port_trace_exit(pid) : 0;
    port_write(pipes[RELEASE][1], "", 1);
    started->out = pipes[OUT][0];
    started->err = pipes[ERR][0];
    port_close(pipes[RELEASE][0]);
    close_pipes(pipes, 1);
    return 0;
}

int start(struct started *started, const struct request *request) {
    return start_any(started, request, true);
}

int start_untraced(struct started *started, const struct request *request) {
    return start_any(started, request, false);
}

void start_release(struct started *started) {
    port_munmap(started->launch, sizeof *started->launch);
    started->launch = NULL;
}
