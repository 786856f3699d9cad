// SPDX-License-Identifier: MIT OR Apache-2.0
/* The interface between the agent and the operating system. Only the files of this folder name an operating
 * system or a processor. Each call is named after the POSIX or Linux call that it makes (see its man page).
 *
 * A call that can fail returns a negative errno, as the kernel does. There is no variable `errno`. Times are
 * in nanoseconds, sizes in bytes. A call that a signal interrupts is restarted, except `port_poll`.
 */
#ifndef PORT_PORT_H
#define PORT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PORT_E_NOENT = 2,
    PORT_E_INTR = 4,
    PORT_E_IO = 5,
    PORT_E_AGAIN = 11,
    PORT_E_NOMEM = 12,
    PORT_E_CHILD = 10,
    PORT_E_EXIST = 17,
    PORT_E_NOSPC = 28,
    PORT_E_PIPE = 32,
    PORT_E_OPNOTSUPP = 95,
};

enum {
    PORT_SIG_HUP = 1,
    PORT_SIG_INT = 2,
    PORT_SIG_KILL = 9,
    PORT_SIG_PIPE = 13,
    PORT_SIG_TERM = 15,
    PORT_SIG_CHLD = 17,
    PORT_SIG_CONT = 18,
    PORT_SIG_STOP = 19,
    PORT_SIG_TSTP = 20,
    PORT_SIG_TTIN = 21,
    PORT_SIG_TTOU = 22,
    PORT_SIG_XFSZ = 25,
};

/* A CPU affinity mask: one bit for each processor. */
enum { PORT_MAX_CPUS = 4096 };
struct port_cpu_set {
    unsigned long bits[PORT_MAX_CPUS / (8 * sizeof(unsigned long))];
};

/* The fields of struct rusage that the agent reports. */
enum port_usage {
    PORT_USER_US,
    PORT_SYSTEM_US,
    PORT_MAXRSS_BYTES,
    PORT_MINFLT,
    PORT_MAJFLT,
    PORT_NVCSW,
    PORT_NIVCSW,
    PORT_READ_BYTES, /* of storage: ru_inblock and ru_oublock */
    PORT_WRITE_BYTES,
    PORT_USAGES,
};

/* A change of state of a child, from `port_wait`. */
enum port_change {
    PORT_EXITED_UNREAPED, /* ended, but still a zombie; only for the child `kept` */
    PORT_EXITED,
    PORT_SIGNALED,    /* killed by a signal */
    PORT_EXIT_STOP,   /* PTRACE_EVENT_EXIT */
    PORT_GROUP_STOP,  /* PTRACE_EVENT_STOP by a stopping signal */
    PORT_TRACE_STOP,  /* PTRACE_EVENT_STOP with SIGTRAP */
    PORT_SIGNAL_STOP, /* signal-delivery-stop */
};
struct port_event {
    int pid;
    enum port_change change;
    int value; /* exit status or signal */
    int64_t usage[PORT_USAGES];
};

/* struct pollfd of poll(2), and its events. */
struct port_pollfd {
    int fd;
    short events, revents;
};
enum { PORT_POLL_IN = 1, PORT_POLL_OUT = 4, PORT_POLL_ERR = 8, PORT_POLL_HUP = 16, PORT_POLL_NVAL = 32 };

/* Files. Descriptors from `port_open_read`, `port_open_write` and `port_pipe` are close-on-exec. */
int port_open_read(const char *path);
int port_open_null(void);              /* /dev/null; not close-on-exec */
int port_open_write(const char *path); /* creates the file or truncates it */
int port_close(int fd);
long port_read(int fd, void *buffer, size_t size);
long port_write(int fd, const void *data, size_t size);
long port_lseek(int fd, long offset); /* SEEK_SET */
/* Writes a text to an existing file. */
int port_write_file(const char *path, const char *text);
/* Creates a pipe. A read from `ends[0]` blocks if `reader_blocks`; otherwise it returns -EAGAIN. */
int port_pipe(int ends[2], bool reader_blocks);
int port_dup2(int from, int to);
/* Closes all descriptors from `first` on (close_range(2)). */
int port_close_from(int first);
/* Reads entries of an open directory. `port_next_dirent` returns the name at `offset` and advances it. */
long port_getdents(int fd, void *buffer, size_t size);
const char *port_next_dirent(const void *buffer, size_t *offset);
/* Of the file system that contains a path: the space that an unprivileged user can still use (f_bavail), and
 * the flags of the mount (f_flags). A call that fails changes nothing. */
struct port_file_system {
    int64_t available_bytes;
    long flags;
};
int port_statfs(const char *path, struct port_file_system *found);

/* Anonymous memory in whole pages, zeroed. `shared`: MAP_SHARED, else MAP_PRIVATE. NULL on failure. */
void *port_mmap(size_t size, bool shared);
void port_munmap(void *memory, size_t size);
/* A child that is forked later doesn't have this memory (MADV_DONTFORK). */
int port_keep_from_children(void *memory, size_t size);

/* CLOCK_MONOTONIC. */
int64_t port_now_ns(void);
/* Bounds of CLOCK_BOOTTIME - CLOCK_MONOTONIC: how long the machine was suspended since it was booted. */
void port_suspended_ns(int64_t *least, int64_t *most);
/* Bounds of CLOCK_REALTIME - CLOCK_BOOTTIME, which changes only if the clock is set: NTP changes the rate of
 * both. */
void port_clock_offset_ns(int64_t *least, int64_t *most);
/* The CPU time of all threads of a process, including ended ones (clock_getcpuclockid(3)), or a negative
 * errno. */
int64_t port_process_cpu_ns(int pid);
/* Waits until a descriptor is ready or the time is over. A negative time is no timeout. */
int port_poll(struct port_pollfd *polled, unsigned count, int64_t wait_ns);

/* Waits for about a microsecond, and leaves the processor's core to its other hardware thread meanwhile. */
void port_relax(void);

/* Connects to a TCP port of 127.0.0.1 and closes the connection. Returns 0 if the connection was accepted
 * within `wait_ns`. */
int port_try_connect(int port, int64_t wait_ns);

/* Resets all signals to their default actions. Blocks SIGHUP, SIGINT, SIGTERM, SIGPIPE, SIGCHLD and SIGCONT.
 * Returns a signalfd(2) for them. A blocked SIGCONT continues a stopped process nevertheless. */
int port_block_signals(void);
/* Returns the next signal of that descriptor, or 0 if none is pending. */
int port_read_signal(int fd);
void port_unblock_signals(void);

/* Processes. */
_Noreturn void port_exit(int status);
int port_getpid(void);
int port_getppid(void);
int port_fork(void);
int port_exec(const char *path, char *const arguments[], char *const environment[]);
int port_kill(int pid, int signal);
int port_killpg(int group, int signal);
int port_setsid(void);
/* The process group of this process. */
int port_getpgrp(void);
/* Whether unprivileged processes of the same user may trace this process and read its files in /proc
 * (PR_SET_DUMPABLE). A child inherits it; exec makes it true again. */
int port_set_dumpable(bool dumpable);
int port_chdir(const char *path);
void port_umask(int mask);
/* The kernel sends this process the signal when its parent dies (PR_SET_PDEATHSIG). */
int port_set_parent_death_signal(int signal);
/* Orphaned descendants become children of this process (PR_SET_CHILD_SUBREAPER). */
int port_become_subreaper(void);
/* RLIMIT_FSIZE, soft and hard. */
int port_limit_file_size(int64_t bytes);
/* RLIMIT_CORE 0. */
int port_disable_core_dumps(void);
/* Pins a process; 0 is this one. */
int port_set_affinity(int pid, const struct port_cpu_set *cpus);
/* The affinity mask of a process; 0 is this one. Processors that are offline are not in it. */
int port_get_affinity(int pid, struct port_cpu_set *cpus);
/* The number of processors in the affinity mask of a process. */
int port_count_allowed_cpus(int pid);
/* The processor that executes this process now, or a negative errno. */
int port_current_cpu(void);
int port_set_nice(int nice);
int port_get_nice(int pid, int *nice);
/* The scheduling policy of this process: SCHED_OTHER is 0. */
int port_get_policy(void);
/* Resource limits of this process, soft and hard; `resource` is below PORT_LIMITS. */
enum { PORT_LIMITS = 16 };
int port_get_limit(int resource, uint64_t both[2]);

/* Reports the next change of state of a child. Returns its pid, 0 if there is none, or a negative errno. It
 * does not reap the child `kept` (0 for none): after its end each call returns PORT_EXITED_UNREAPED, with no
 * other field set, and /proc/PID stays readable. */
int port_wait(int kept, struct port_event *event);

/* Tracing (ptrace(2)) that stops a process only at its exit: PTRACE_SEIZE with PTRACE_O_TRACEEXIT and
 * PTRACE_O_EXITKILL. */
int port_trace_exit(int pid);
int port_trace_continue(int pid, int signal); /* PTRACE_CONT */
int port_trace_listen(int pid);               /* PTRACE_LISTEN: it stays stopped */

/* The main function; each program that is linked with this folder defines it. */
int port_main(int count, char **arguments);

#endif
