/* All that the agent asks of an operating system. Nothing outside this folder names one, or a processor.
 *
 * Every call that can fail returns a negative errno, as the kernel does; there is no `errno`. Times are in
 * nanoseconds, sizes in bytes. Calls that a signal can interrupt are repeated here, except `port_poll`.
 */
#ifndef PORT_PORT_H
#define PORT_PORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PORT_E_NOENT = 2,
    PORT_E_INTR = 4,
    PORT_E_AGAIN = 11,
    PORT_E_NOMEM = 12,
    PORT_E_CHILD = 10,
    PORT_E_NOSPC = 28,
};

enum {
    PORT_SIG_HUP = 1,
    PORT_SIG_INT = 2,
    PORT_SIG_KILL = 9,
    PORT_SIG_PIPE = 13,
    PORT_SIG_TERM = 15,
    PORT_SIG_CHLD = 17,
    PORT_SIG_STOP = 19,
    PORT_SIG_TSTP = 20,
    PORT_SIG_TTIN = 21,
    PORT_SIG_TTOU = 22,
    PORT_SIG_XFSZ = 25,
};

/* Processors in an affinity: one bit each. */
enum { PORT_MAX_CPUS = 4096 };
struct port_cpu_set {
    unsigned long bits[PORT_MAX_CPUS / (8 * sizeof(unsigned long))];
};

struct port_usage {
    int64_t user_us, system_us, maxrss_bytes, minflt, majflt, nvcsw, nivcsw;
};

/* How a child changed: `port_wait` fills it. */
enum port_change {
    PORT_EXITED_UNREAPED,
    PORT_EXITED,
    PORT_SIGNALED,
    PORT_EXIT_STOP,
    PORT_GROUP_STOP,
    PORT_TRACE_STOP,
    PORT_SIGNAL_STOP
};
struct port_event {
    int pid;
    enum port_change change;
    int value; /* exit status, or signal */
    struct port_usage usage;
};

struct port_pollfd {
    int fd;
    short events, revents;
};
enum { PORT_POLL_IN = 1, PORT_POLL_OUT = 4, PORT_POLL_ERR = 8, PORT_POLL_HUP = 16, PORT_POLL_NVAL = 32 };

/* Files. What `port_open_read` and `port_open_write` open and all pipes are closed by exec. */
int port_open_read(const char *path);
int port_open_null(void);
int port_open_write(const char *path); /* made or emptied */
int port_close(int fd);
long port_read(int fd, void *buffer, size_t size);
long port_write(int fd, const void *data, size_t size);
long port_lseek(int fd, long offset);
int port_write_file(const char *path, const char *text);
int port_pipe(int ends[2], bool reader_waits);
int port_dup2(int from, int to);
int port_close_from(int first);
/* The next entries of an open folder, as `port_next_dirent` reads them. */
long port_getdents(int fd, void *buffer, size_t size);
const char *port_next_dirent(const void *buffer, size_t *offset);
/* Bytes that a user may still write in the file system that holds `path`. */
int port_available_bytes(const char *path, int64_t *bytes);

/* Memory, in whole pages, zeroed; `shared` stays common to parent and child. */
void *port_mmap(size_t size, bool shared);
void port_munmap(void *memory, size_t size);

int64_t port_now_ns(void);
/* Processor time of a process, all its threads, also those that have ended; negative when it can't be read.
 */
int64_t port_process_cpu_ns(int pid);
/* Waits until something happens or the time is over; negative waits for ever. */
int port_poll(struct port_pollfd *polled, unsigned count, int64_t wait_ns);

/* Whether something accepts connections on a TCP port of this machine (127.0.0.1): 0, or a negative errno.
 * The connection is closed at once; waits at most `wait_ns`. */
int port_try_connect(int port, int64_t wait_ns);

/* Signals: all reset to their defaults; those that end a program, SIGPIPE and SIGCHLD are then held back and
 * read from the descriptor that `port_block_signals` returns. `port_read_signal` returns 0 when there is
 * none.
 */
int port_block_signals(void);
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
int port_chdir(const char *path);
void port_umask(int mask);
/* Has this process sent a signal when its parent dies. */
int port_set_parent_death_signal(int signal);
int port_become_subreaper(void);
int port_limit_file_size(int64_t bytes);
int port_disable_core_dumps(void);
int port_set_affinity(const struct port_cpu_set *cpus);
int port_count_allowed_cpus(int pid);
int port_set_nice(int nice);
int port_get_nice(int pid, int *nice);

/* Reports the next change of a child, if any: its pid, 0 when nothing has changed, or a negative errno. When
 * the child `kept` (0 for none) has ended, that is PORT_EXITED_UNREAPED, without anything else in the event,
 * again and again: it is not taken away, so that it can still be looked at. */
int port_wait(int kept, struct port_event *event);

/* Gives the kernel's random numbers a seed, and has it count as all the chance that it waits for. */
enum { PORT_SEED_BYTES = 32 };
int port_seed_random(const char seed[PORT_SEED_BYTES]);

/* Tracing that only looks at the end: the process stops once, when it exits, and dies with its tracer. */
int port_trace_exit(int pid);
int port_trace_continue(int pid, int signal);
int port_trace_listen(int pid);

/* The program: defined by whoever is linked with this. */
int port_main(int count, char **arguments);

#endif
