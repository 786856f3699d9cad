// SPDX-License-Identifier: MIT OR Apache-2.0
/* Implements port.h for Linux, without a C library. Structures and constants are those of the kernel's
 * include/uapi/. */
#include "port.h"

#include "arch.h"

enum {
    AT_FDCWD = -100,
    O_RDONLY = 0,
    O_WRONLY = 1,
    O_RDWR = 2,
    O_CREAT = 0100,
    O_TRUNC = 01000,
    O_NONBLOCK = 04000,
    O_CLOEXEC = 02000000,
    F_SETFL = 4,
    PROT_READ_WRITE = 3,
    MAP_SHARED = 1,
    MAP_PRIVATE = 2,
    MAP_ANONYMOUS = 32,
    MADV_DONTFORK = 10,
    SIG_SETMASK = 2,
    SIG_COUNT = 64,
    SIG_TRAP = 5,
    CLOCK_REALTIME_ID = 0,
    CLOCK_MONOTONIC_ID = 1,
    CLOCK_BOOTTIME_ID = 7,
    RLIMIT_FSIZE_ID = 1,
    RLIMIT_CORE_ID = 4,
    PR_SET_PDEATHSIG = 1,
    PR_SET_DUMPABLE = 4,
    PR_SET_CHILD_SUBREAPER = 36,
    PRIO_PROCESS = 0,
    WNOHANG = 1,
    WEXITED = 4,
    WNOWAIT = 0x01000000,
    WALL = 0x40000000,
    P_ALL = 0,
    WSTOPPED = 2,
    PTRACE_CONT = 7,
    PTRACE_SEIZE = 0x4206,
    PTRACE_LISTEN = 0x4208,
    PTRACE_EVENT_EXIT = 6,
    PTRACE_EVENT_STOP = 128,
    PTRACE_O_TRACEEXIT = 0x40,
    PTRACE_O_EXITKILL = 0x100000,
    AF_INET_ID = 2,
    SOCK_STREAM_ID = 1,
    E_IN_PROGRESS = 115,
    E_IS_CONNECTED = 106,
    CPU_CLOCK_OF_PROCESS = 2, /* CPUCLOCK_SCHED, include/linux/posix-timers.h */
};

/* struct timespec as the system calls take it. On 32-bit processors both members have 32 bits, which is
 * enough for 68 years of monotonic time. */
struct timespec_words {
    long seconds, nanoseconds;
};

__asm__(".text\n" ARCH_ENTRY);

__attribute__((used)) _Noreturn void port_start(long *stack);
void port_start(long *stack) {
    port_exit(port_main((int)stack[0], (char **)(stack + 1)));
}

int port_open_read(const char *path) {
    return (int)SYSCALL4(NR_OPENAT, AT_FDCWD, path, O_RDONLY | O_CLOEXEC, 0);
}

int port_open_write(const char *path) {
    return (int)SYSCALL4(NR_OPENAT, AT_FDCWD, path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
}

int port_open_null(void) {
    return (int)SYSCALL4(NR_OPENAT, AT_FDCWD, "/dev/null", O_RDWR, 0);
}

int port_close(int fd) {
    return (int)SYSCALL1(NR_CLOSE, fd);
}

long port_read(int fd, void *buffer, size_t size) {
    long result;
    do
        result = SYSCALL3(NR_READ, fd, buffer, size);
    while (result == -PORT_E_INTR);
    return result;
}

long port_write(int fd, const void *data, size_t size) {
    long result;
    do
        result = SYSCALL3(NR_WRITE, fd, data, size);
    while (result == -PORT_E_INTR);
    return result;
}

long port_lseek(int fd, long offset) {
    return SYSCALL3(NR_LSEEK, fd, offset, 0);
}

int port_write_file(const char *path, const char *text) {
    size_t size = 0;
    while (text[size])
        size++;
    int fd = (int)SYSCALL4(NR_OPENAT, AT_FDCWD, path, O_WRONLY | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    long result = port_write(fd, text, size);
    port_close(fd);
    return result < 0 ? (int)result : 0;
}

int port_pipe(int ends[2], bool reader_blocks) {
    int result = (int)SYSCALL2(NR_PIPE2, ends, O_CLOEXEC);
    if (result == 0 && !reader_blocks)
        SYSCALL3(NR_FCNTL, ends[0], F_SETFL, O_NONBLOCK);
    return result;
}

int port_dup2(int from, int to) {
    return (int)SYSCALL3(NR_DUP3, from, to, 0);
}

int port_close_from(int first) {
    return (int)SYSCALL3(NR_CLOSE_RANGE, first, ~0U, 0);
}

long port_getdents(int fd, void *buffer, size_t size) {
    return SYSCALL3(NR_GETDENTS64, fd, buffer, size);
}

const char *port_next_dirent(const void *buffer, size_t *offset) {
    /* struct linux_dirent64: inode and offset (8 bytes each), length (2), type (1), name */
    const unsigned char *entry = (const unsigned char *)buffer + *offset;
    uint16_t length;
    __builtin_memcpy(&length, entry + 16, sizeof length);
    *offset += length;
    return (const char *)entry + 19;
}

int port_statfs(const char *path, struct port_file_system *found) {
#ifdef ARCH_STATFS_TAKES_SIZE
    struct __attribute__((packed, aligned(4))) {
        uint32_t type, block_size;
        uint64_t blocks, free, available, files, free_files;
        uint32_t id[2], longest_name, fragment, flags, rest[4];
    } info;
    long result = SYSCALL3(NR_STATFS, path, sizeof info, &info);
#else
    struct {
        long type, block_size;
        uint64_t blocks, free, available, files, free_files;
        int id[2];
        long longest_name, fragment, flags, rest[16];
    } info;
    long result = SYSCALL2(NR_STATFS, path, &info);
#endif
    if (result == 0) {
        found->available_bytes = (int64_t)(info.available * (uint64_t)info.block_size);
        found->flags = (long)info.flags;
    }
    return (int)result;
}

void *port_mmap(size_t size, bool shared) {
    int flags = MAP_ANONYMOUS | (shared ? MAP_SHARED : MAP_PRIVATE);
    long result = arch_syscall(NR_MMAP, 0, (long)size, PROT_READ_WRITE, flags, -1, 0);
    return result < 0 && result > -4096 ? NULL : (void *)result;
}

void port_munmap(void *memory, size_t size) {
    SYSCALL2(NR_MUNMAP, memory, size);
}

int port_keep_from_children(void *memory, size_t size) {
    return (int)SYSCALL3(NR_MADVISE, memory, size, MADV_DONTFORK);
}

static int64_t read_clock(int clock) {
    struct timespec_words now = {0, 0};
    SYSCALL2(NR_CLOCK_GETTIME, clock, &now);
    return (int64_t)now.seconds * 1000000000 + now.nanoseconds;
}

int64_t port_now_ns(void) {
    return read_clock(CLOCK_MONOTONIC_ID);
}

void port_relax(void) {
    enum { TIMES = 32 };
    for (int i = 0; i < TIMES; i++)
        __asm__ volatile(ARCH_PAUSE);
}

void port_suspended_ns(int64_t *least, int64_t *most) {
    int64_t before_ns = port_now_ns(), boot_ns = read_clock(CLOCK_BOOTTIME_ID), after_ns = port_now_ns();

    *least = boot_ns - after_ns;
    *most = boot_ns - before_ns;
}

void port_clock_offset_ns(int64_t *least, int64_t *most) {
    int64_t before_ns = read_clock(CLOCK_BOOTTIME_ID), real_ns = read_clock(CLOCK_REALTIME_ID);

    *least = real_ns - read_clock(CLOCK_BOOTTIME_ID);
    *most = real_ns - before_ns;
}

int64_t port_process_cpu_ns(int pid) {
    struct timespec_words used = {0, 0};
    long clock = (long)((~(unsigned)pid << 3) | CPU_CLOCK_OF_PROCESS);
    long result = SYSCALL2(NR_CLOCK_GETTIME, (int)clock, &used);
    return result < 0 ? result : (int64_t)used.seconds * 1000000000 + used.nanoseconds;
}

int port_try_connect(int port, int64_t wait_ns) {
    /* struct sockaddr_in: the family is in host byte order, port and address are in network byte order */
    struct {
        uint16_t family;
        unsigned char port[2], address[4], rest[8];
    } to = {AF_INET_ID, {(unsigned char)(port >> 8), (unsigned char)port}, {127, 0, 0, 1}, {0}};
    int fd = (int)SYSCALL3(NR_SOCKET, AF_INET_ID, SOCK_STREAM_ID | O_NONBLOCK | O_CLOEXEC, 0);
    if (fd < 0)
        return fd;
    int result = (int)SYSCALL3(NR_CONNECT, fd, &to, sizeof to);
    if (result == -E_IN_PROGRESS) {
        struct port_pollfd polled = {fd, PORT_POLL_OUT, 0};
        port_poll(&polled, 1, wait_ns);
        result = (int)SYSCALL3(NR_CONNECT, fd, &to, sizeof to);
    }
    port_close(fd);
    return result == -E_IS_CONNECTED ? 0 : result;
}

int port_poll(struct port_pollfd *polled, unsigned count, int64_t wait_ns) {
    struct timespec_words wait = {wait_ns / 1000000000, wait_ns % 1000000000};
    return (int)SYSCALL5(NR_PPOLL, polled, count, wait_ns < 0 ? NULL : &wait, NULL, 0);
}

int port_block_signals(void) {
    static const int blocked[] = {PORT_SIG_HUP,  PORT_SIG_INT,  PORT_SIG_TERM,
                                  PORT_SIG_PIPE, PORT_SIG_CHLD, PORT_SIG_CONT};
    uint64_t mask = 0;
    const long default_action[8] = {0}; /* struct sigaction: SIG_DFL, no flags, no mask */

    for (int signal = 1; signal <= SIG_COUNT; signal++)
        if (signal != PORT_SIG_KILL && signal != PORT_SIG_STOP)
            SYSCALL4(NR_RT_SIGACTION, signal, default_action, NULL, sizeof mask);
    for (size_t i = 0; i < sizeof blocked / sizeof *blocked; i++)
        mask |= 1ULL << (blocked[i] - 1);
    SYSCALL4(NR_RT_SIGPROCMASK, SIG_SETMASK, &mask, NULL, sizeof mask);
    return (int)SYSCALL4(NR_SIGNALFD4, -1, &mask, sizeof mask, O_NONBLOCK | O_CLOEXEC);
}

int port_read_signal(int fd) {
    uint32_t info[32]; /* struct signalfd_siginfo: 128 bytes; ssi_signo is the first field */
    return port_read(fd, info, sizeof info) == (long)sizeof info ? (int)info[0] : 0;
}

void port_unblock_signals(void) {
    uint64_t none = 0;
    SYSCALL4(NR_RT_SIGPROCMASK, SIG_SETMASK, &none, NULL, sizeof none);
}

void port_exit(int status) {
    for (;;)
        SYSCALL1(NR_EXIT_GROUP, status);
}

int port_getpid(void) {
    return (int)SYSCALL0(NR_GETPID);
}

int port_getppid(void) {
    return (int)SYSCALL0(NR_GETPPID);
}

int port_fork(void) {
    return (int)SYSCALL5(NR_CLONE, PORT_SIG_CHLD, 0, 0, 0, 0);
}

int port_exec(const char *path, char *const arguments[], char *const environment[]) {
    return (int)SYSCALL3(NR_EXECVE, path, arguments, environment);
}

int port_kill(int pid, int signal) {
    return (int)SYSCALL2(NR_KILL, pid, signal);
}

int port_killpg(int group, int signal) {
    return (int)SYSCALL2(NR_KILL, -group, signal);
}

int port_setsid(void) {
    return (int)SYSCALL0(NR_SETSID);
}

int port_getpgrp(void) {
    return (int)SYSCALL1(NR_GETPGID, 0);
}

int port_set_dumpable(bool dumpable) {
    return (int)SYSCALL5(NR_PRCTL, PR_SET_DUMPABLE, dumpable, 0, 0, 0);
}

int port_chdir(const char *path) {
    return (int)SYSCALL1(NR_CHDIR, path);
}

void port_umask(int mask) {
    SYSCALL1(NR_UMASK, mask);
}

int port_set_parent_death_signal(int signal) {
    return (int)SYSCALL5(NR_PRCTL, PR_SET_PDEATHSIG, signal, 0, 0, 0);
}

int port_become_subreaper(void) {
    return (int)SYSCALL5(NR_PRCTL, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

static int set_limit(int resource, uint64_t value) {
    const uint64_t both[2] = {value, value};
    return (int)SYSCALL4(NR_PRLIMIT64, 0, resource, both, NULL);
}

int port_limit_file_size(int64_t bytes) {
    return set_limit(RLIMIT_FSIZE_ID, (uint64_t)bytes);
}

int port_disable_core_dumps(void) {
    return set_limit(RLIMIT_CORE_ID, 0);
}

int port_set_affinity(int pid, const struct port_cpu_set *cpus) {
    return (int)SYSCALL3(NR_SCHED_SETAFFINITY, pid, sizeof *cpus, cpus);
}

int port_get_affinity(int pid, struct port_cpu_set *cpus) {
    long result;

    __builtin_memset(cpus, 0, sizeof *cpus); /* the kernel writes only as many bytes as it has processors */
    result = SYSCALL3(NR_SCHED_GETAFFINITY, pid, sizeof *cpus, cpus);
    return result < 0 ? (int)result : 0;
}

int port_count_allowed_cpus(int pid) {
    struct port_cpu_set cpus;
    int count = 0;
    int result = port_get_affinity(pid, &cpus);
    if (result < 0)
        return result;
    for (size_t i = 0; i < sizeof cpus.bits / sizeof *cpus.bits; i++)
        for (unsigned long word = cpus.bits[i]; word; word &= word - 1)
            count++;
    return count;
}

int port_current_cpu(void) {
    unsigned cpu = 0;
    long result = SYSCALL3(NR_GETCPU, &cpu, NULL, NULL);
    return result < 0 ? (int)result : (int)cpu;
}

int port_set_nice(int nice) {
    return (int)SYSCALL3(NR_SETPRIORITY, PRIO_PROCESS, 0, nice);
}

int port_get_nice(int pid, int *nice) {
    /* The system call returns 20 - nice, which is positive. */
    long result = SYSCALL2(NR_GETPRIORITY, PRIO_PROCESS, pid);
    if (result > 0)
        *nice = 20 - (int)result;
    return result > 0 ? 0 : (int)result;
}

int port_get_policy(void) {
    return (int)SYSCALL1(NR_SCHED_GETSCHEDULER, 0);
}

int port_get_limit(int resource, uint64_t both[2]) {
    return (int)SYSCALL4(NR_PRLIMIT64, 0, resource, NULL, both);
}

/* struct rusage */
struct usage_words {
    long user_s, user_us, system_s, system_us, maxrss_kib, shared, data, stack;
    long minflt, majflt, swaps, blocks_in, blocks_out, sent, received, signals, nvcsw, nivcsw;
};

static void convert_usage(const struct usage_words *words, int64_t usage[PORT_USAGES]) {
    enum { BLOCK_BYTES = 512 }; /* include/linux/task_io_accounting_ops.h */
    const int64_t converted[PORT_USAGES] = {
        [PORT_USER_US] = (int64_t)words->user_s * 1000000 + words->user_us,
        [PORT_SYSTEM_US] = (int64_t)words->system_s * 1000000 + words->system_us,
        [PORT_MAXRSS_BYTES] = (int64_t)words->maxrss_kib * 1024,
        [PORT_MINFLT] = words->minflt,
        [PORT_MAJFLT] = words->majflt,
        [PORT_NVCSW] = words->nvcsw,
        [PORT_NIVCSW] = words->nivcsw,
        [PORT_READ_BYTES] = (int64_t)words->blocks_in * BLOCK_BYTES,
        [PORT_WRITE_BYTES] = (int64_t)words->blocks_out * BLOCK_BYTES,
    };
    __builtin_memcpy(usage, converted, sizeof converted);
}

/* waitid(2) with WNOWAIT: finds a child whose state changed and does not consume the change. Returns its pid,
 * 0 if there is none, or a negative errno. */
static int peek_changed_child(bool *ended) {
    /* Indices in siginfo_t of si_code and si_pid. CLD_EXITED is 1, CLD_KILLED 2, CLD_DUMPED 3. */
    enum { CODE = 2, PID = sizeof(long) == 8 ? 4 : 3, CLD_LAST_END = 3 };
    int info[32] = {0}; /* siginfo_t: 128 bytes */
    long result = SYSCALL5(NR_WAITID, P_ALL, 0, info, WEXITED | WSTOPPED | WNOHANG | WNOWAIT | WALL, NULL);
    *ended = info[CODE] >= 1 && info[CODE] <= CLD_LAST_END;
    return result < 0 ? (int)result : info[PID];
}

int port_wait(int kept, struct port_event *event) {
    int status = 0, which = -1;
    struct usage_words usage = {0};
    long pid;
    if (kept > 0) {
        bool ended;
        which = peek_changed_child(&ended);
        if (which <= 0)
            return which;
        if (which == kept && ended) {
            event->pid = kept;
            event->change = PORT_EXITED_UNREAPED;
            return kept;
        }
    }
    do
        pid = SYSCALL4(NR_WAIT4, which, &status, WNOHANG | WALL, &usage);
    while (pid == -PORT_E_INTR);
    if (pid <= 0)
        return (int)pid;

    int low = status & 0x7f, high = (status >> 8) & 0xff, trace_event = status >> 16;
    event->pid = (int)pid;
    convert_usage(&usage, event->usage);
    event->value = high;
    if ((status & 0xff) != 0x7f) {
        event->change = low ? PORT_SIGNALED : PORT_EXITED;
        event->value = low ? low : high;
    } else if (trace_event == PTRACE_EVENT_EXIT) {
        event->change = PORT_EXIT_STOP;
    } else if (trace_event == PTRACE_EVENT_STOP) {
        event->change = high == SIG_TRAP ? PORT_TRACE_STOP : PORT_GROUP_STOP;
    } else {
        event->change = PORT_SIGNAL_STOP;
    }
    return (int)pid;
}

int port_trace_exit(int pid) {
    return (int)SYSCALL4(NR_PTRACE, PTRACE_SEIZE, pid, 0, PTRACE_O_TRACEEXIT | PTRACE_O_EXITKILL);
}

int port_trace_continue(int pid, int signal) {
    return (int)SYSCALL4(NR_PTRACE, PTRACE_CONT, pid, 0, signal);
}

int port_trace_listen(int pid) {
    return (int)SYSCALL4(NR_PTRACE, PTRACE_LISTEN, pid, 0, 0);
}
