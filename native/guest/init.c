// SPDX-License-Identifier: MIT OR Apache-2.0
/* The first process (init) of a virtual machine. It mounts file systems, loads modules, asks QEMU to pause
 * the machine so that it can be saved, receives files, reads an order and starts the agent.
 *
 * The order (docs/virtual-machines.md) begins with these lines, in this order. TEXT is percent-encoded.
 *
 *     swapstone-order 4
 *     layout N        seed of the memory layout; 0 changes nothing. It differs between replicates, as do:
 *     idle-ns N       time in which the machine is idle before the commands
 *     delay-ns N      time before the agent starts
 *     limit-ms N      maximum run time of the agent, in guest time
 *     settle-ms N     time between the start of the `beside` commands and the delay
 *     report TEXT     any number: files to describe the machine with
 *     write PATH HEX  any number: files to write before the commands, in hexadecimal digits
 *     prepare TEXT    any number: commands that run one after another before the measurement
 *     beside TEXT     any number: commands that run during the measurement
 *
 * The agent's plan follows. A `prepare` command must exit with status 0. A `beside` command must not end
 * before the measurement. The output on the channel is a description of the machine, then the agent's output.
 * An error is one line "swapstone-init: ..." on the console, and stops the machine.
 */
#include "../agent/text.h"
#include "../port/port.h"
#include "../port/root_file_system.h"
#include "../port/virtual_machine.h"
#include "../wire/words.h"
#include "layout.h"
#include "pool.h"

enum {
    CONSOLE = 1,
    ORDER_BYTES = 2 << 20,
    CHUNK = 4096,
    FILE_BYTES = 8192,
    PAUSE_NS = 10000000,
    BUSY_NS = 1000000,
    MAX_BESIDE = 16,
    LOG_TAIL_BYTES = 400,
    KERNEL_LOG_BYTES = 1024,
    EXEC_FAILED = 127,
};

/* Buffered output to the channel. */
static struct {
    char bytes[CHUNK];
    size_t used;
} output;

/* Prints "swapstone-init: WHATWHICH: error N" to the console and stops the machine. Leaves out the error
 * unless `result` is negative. */
static _Noreturn void fail(const char *what, const char *which, long result) {
    char bytes[512];
    struct text text = {bytes, sizeof bytes, 0, false};

    text_format(&text, "\nswapstone-init: %s%s", what, which);
    if (result < 0)
        text_format(&text, ": error %lld", (long long)-result);
    text_add(&text, "\n");
    port_write(CONSOLE, text.bytes, text.used);
    port_tcdrain(CONSOLE);
    port_stop_machine(true);
}

static void require_success(long result, const char *what, const char *which) {
    if (result < 0)
        fail(what, which, result);
}

static void flush(void) {
    require_success(port_write_channel(output.bytes, output.used), "can't write to ", "the channel");
    output.used = 0;
}

static void write_bytes(const char *bytes, size_t size) {
    while (size) {
        size_t room = sizeof output.bytes - output.used, part = size < room ? size : room;
        if (!room)
            flush();
        __builtin_memcpy(output.bytes + output.used, bytes, part);
        output.used += part;
        bytes += part;
        size -= part;
    }
}

/* Returns whether a folder is empty or missing. Own programs may have files in /tmp, which then stay visible.
 */
static bool is_empty(const char *path) {
    static char entries[CHUNK] __attribute__((aligned(8)));
    int fd = port_open_read(path), count = 0;
    long size = fd < 0 ? 0 : port_getdents(fd, entries, sizeof entries);
    for (size_t at = 0; size > 0 && at < (size_t)size; count++)
        port_next_dirent(entries, &at);
    port_close(fd);
    return count <= 2; /* "." and ".." */
}

static void mount_all(void) {
    static const char *const mounts[][2] = {
        {"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tmpfs", "/scratch"}};

    /* Files that are received later are moved to their paths, which can't be in another file system: with a
     * pool nothing is mounted at /tmp. */
    size_t count = sizeof mounts / sizeof *mounts;
    for (size_t i = 0; i < count; i++)
        if (i < 3 || (is_empty(mounts[i][1]) && (i == count - 1 || is_empty(POOL))))
            require_success(port_mount(mounts[i][0], mounts[i][1]), "can't mount ", mounts[i][1]);
    /* Optional (CONFIG_DEBUG_FS); without it the preemption mode is unknown. */
    port_mount("debugfs", "/sys/kernel/debug");
}

/* Makes what programs expect beside devices: folders of shared memory, their streams by name, and a network
 * of one machine, which a kernel may lack. */
static void complete_devices(void) {
    require_success(port_mkdir("/dev/shm", 01777), "can't make ", "/dev/shm");
    for (size_t i = 0; i < PORT_STREAM_LINKS; i++)
        require_success(port_symlink(port_stream_links[i][0], port_stream_links[i][1]), "can't make ",
                        port_stream_links[i][1]);
    port_start_loopback();
}

/* A machine whose clock counts instructions has no source of entropy. Without a seed, the first read of
 * random numbers makes the kernel collect entropy for a second (try_to_generate_entropy). The seed is
 * constant, so that runs are reproducible. */
static void seed_random(void) {
    static const char seed[PORT_SEED_BYTES] = "swapstone: the same every time.";

    require_success(port_seed_random(seed), "can't seed ", "/dev/urandom");
}

/* Prints the end of the kernel's log: with "quiet", the reason why it refused a module is not on the console.
 */
static void print_kernel_log(void) {
    static char bytes[CHUNK];
    long size = port_read_kernel_log(bytes, KERNEL_LOG_BYTES);
    long start = 0;

    while (size == KERNEL_LOG_BYTES && start < size && bytes[start] != '\n')
        start++; /* a part of a line */
    if (size > start)
        port_write(CONSOLE, bytes + start, (size_t)(size - start));
}

/* Loads the modules that the file /modules lists, one path a line, in that order. */
static void load_modules(void) {
    static char room[CHUNK];
    struct lines lines = {.fd = port_open_read("/modules"), .bytes = room, .room = sizeof room};
    char *line;
    enum line_result result = LINE_NONE;

    if (lines.fd < 0)
        return;
    while ((result = next_line(&lines, &line)) == LINE) {
        int loaded = port_load_module(line);
        if (loaded < 0) {
            print_kernel_log();
            fail("can't load the module ", line, loaded);
        }
    }
    if (result != LINE_NONE)
        fail("can't read ", "/modules", 0);
    port_close(lines.fd);
}

/* A kernel without a console starts init without open files. Opens /dev/null as descriptors 0 to 2, so that
 * no other file gets the number of the console. */
static void reserve_standard_fds(void) {
    int fd;

    while ((fd = port_open_null()) >= 0 && fd <= 2)
        ;
    port_close(fd);
}

/* Parses the line "NAME NUMBER" of the order at `*at`, advances `*at`, and returns the number. */
static int64_t take_number(const char **at, const char *name) {
    const char *rest = text_after(*at, name);
    int64_t value;

    if (!rest || !text_number(&rest, &value) || *rest != '\n')
        fail("the order has no valid line ", name, 0);
    *at = rest + 1;
    return value;
}

/* Parses the line "NAME TEXT" of the order at `*at`, advances `*at`, and returns the text, not decoded.
 * Returns NULL if the line has another name. */
static char *take_line(char **at, const char *name) {
    char *text = *at + text_length(name), *end;

    if (!text_after(*at, name))
        return NULL;
    for (end = text; *end && *end != '\n'; end++)
        ;
    if (!*end)
        fail("the order has no valid line ", name, 0);
    *end = '\0';
    *at = end + 1;
    return text;
}

/* As `take_line`, but returns the decoded text. */
static char *take_text(char **at, const char *name) {
    char *text = take_line(at, name);

    if (text && !text_decode(text))
        fail("the order has no valid line ", name, 0);
    return text;
}

/* Writes one line: a word, a path, and the last `max` bytes of that file, encoded. Writes nothing if the file
 * can't be read. */
static void write_file_content(const char *word, const char *path, size_t max) {
    static char room[FILE_BYTES];
    int fd = port_open_read(path);
    size_t used = 0;
    long result = 0;

    if (fd < 0)
        return;
    while (used < sizeof room && (result = port_read(fd, room + used, sizeof room - used)) > 0)
        used += (size_t)result;
    port_close(fd);
    text_print(write_bytes, "%s %s ", word, path);
    text_encode(room + (used > max ? used - max : 0), used > max ? max : used, write_bytes);
    write_bytes("\n", 1);
}

/* Writes the counters and settings that show whether loads and devices were active during the measurement. */
static void write_counters(const char *word) {
    static const char *const files[] = {
        "/proc/stat",
        "/proc/vmstat",
        "/proc/swaps",
        "/proc/net/dev",
        "/proc/diskstats",
        "/proc/uptime",
        "/sys/block/zram0/comp_algorithm",
        "/sys/block/zram0/disksize",
        "/sys/block/zram0/mm_stat",
        "/sys/kernel/config/nullb/nullb1/index",
        "/sys/kernel/config/nullb/nullb1/size",
        "/sys/kernel/config/nullb/nullb1/memory_backed",
        "/sys/kernel/config/nullb/nullb1/irqmode",
        "/sys/kernel/config/nullb/nullb1/completion_nsec",
        "/sys/kernel/config/nullb/nullb1/mbps",
        "/sys/kernel/debug/sched/preempt",
        "/sys/module/planted/parameters/sections",
        "/proc/sys/kernel/tainted",
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        write_file_content(word, files[i], FILE_BYTES);
    flush();
}

/* Writes the first warnings and errors that the kernel logged since `fd` was opened; nothing without any. A
 * message begins with its level: from 0, an emergency, to 4, a warning. That of a program has two digits. */
static void write_kernel_log(int fd) {
    static char log[FILE_BYTES], message[FILE_BYTES];
    size_t used = 0;
    long size;

    while (fd >= 0 && ((size = port_read(fd, message, sizeof message)) > 0 || size == -PORT_E_PIPE)) {
        if (size < 2 || message[0] > '4' || message[1] != ',' || used + (size_t)size > sizeof log)
            continue;
        __builtin_memcpy(log + used, message, (size_t)size);
        used += (size_t)size;
    }
    if (!used)
        return;
    text_print(write_bytes, "after /dev/kmsg ");
    text_encode(log, used, write_bytes);
    write_bytes("\n", 1);
}

static void write_identity(int64_t now_ns) {
    static struct port_utsname identity;
    static const char *const words[PORT_UTSNAME_FIELDS] = {[PORT_SYSTEM] = "system",
                                                           [PORT_RELEASE] = "release",
                                                           [PORT_VERSION] = "version",
                                                           [PORT_MACHINE] = "machine"};
    static const char *const files[] = {
        "/proc/cmdline",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/sys/kernel/realtime",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "/proc/sys/kernel/random/boot_id", /* random: it depends on the times of all interrupts */
    };

    require_success(port_uname(&identity), "can't identify ", "the kernel");
    text_print(write_bytes, GUEST_HEADER "\n");
    for (int i = 0; i < PORT_UTSNAME_FIELDS; i++) {
        if (!words[i])
            continue;
        text_print(write_bytes, "%s ", words[i]);
        text_encode(identity.texts[i], text_length(identity.texts[i]), write_bytes);
        write_bytes("\n", 1);
    }
    /* It differs between two machines if one executed one more instruction or slept longer. */
    text_print(write_bytes, "clock %lld\n", (long long)now_ns);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        write_file_content("file", files[i], FILE_BYTES);
}

static void write_whole_file(const char *path, const char *bytes, size_t size) {
    int fd = port_create_file(path);
    require_success(fd, "can't create ", path);
    while (size) {
        long written = port_write(fd, bytes, size);
        require_success(written, "can't write ", path);
        bytes += written;
        size -= (size_t)written;
    }
    port_close(fd);
}

/* Writes the file of a line "write PATH HEX", whose text after "write " is given. */
static void write_file(char *line) {
    char *content = line, *from, *to;

    while (*content && *content != ' ')
        content++;
    if (!*content)
        fail("the order has no valid line ", "write", 0);
    *content++ = '\0';
    for (from = to = content; *from; from += 2) {
        int high = text_digit(from[0], 'a'), low = text_digit(from[1], 'a');
        if (high < 0 || low < 0)
            fail("the order has no valid line ", "write", 0);
        *to++ = (char)(high * 16 + low);
    }
    write_whole_file(line, content, (size_t)(to - content));
}

/* Starts a shell command whose output goes to the file `log`. Returns its pid. */
static int start_command(char *command, const char *log) {
    static char shell[] = "/bin/sh", option[] = "-c", path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                home[] = "HOME=/";
    char *const arguments[] = {shell, option, command, NULL};
    static char *const environment[] = {path, home, NULL};
    int pid = port_fork();

    require_success(pid, "can't start ", "a process");
    if (pid)
        return pid;
    port_release_devices();
    port_setsid();
    int fd = port_open_write(log);
    if (fd >= 0) {
        port_dup2(fd, 1);
        port_dup2(1, 2);
    }
    port_exec(shell, arguments, environment);
    port_exit(EXEC_FAILED);
}

/* Reaps a child that has ended; waits for one if `waits`. Returns its process ID, 0 if none has ended, or a
 * negative number if none is left. Its status is its exit status, or 256 plus the signal that killed it. */
static int64_t reaped_us; /* processor time of the child reaped last, and of all that it waited for */

static int reap(bool waits, int *status) {
    struct port_event event;
    int result;

    while ((result = port_wait(0, &event)) > 0 || (result == 0 && waits)) {
        if (result == 0) {
            port_poll(NULL, 0, 1000000);
        } else if (event.change == PORT_EXITED || event.change == PORT_SIGNALED) {
            *status = event.change == PORT_EXITED ? event.value : 256 + event.value;
            reaped_us = event.usage[PORT_USER_US] + event.usage[PORT_SYSTEM_US];
            return result;
        }
    }
    if (waits)
        fail("can't wait for ", "a process", result);
    return result;
}

static void write_command_end(const char *word, int number, int status, const char *log) {
    text_print(write_bytes, "%s %d %d\n", word, number, status);
    write_file_content("words", log, LOG_TAIL_BYTES);
}

/* Runs a `prepare` command. Writes its end and returns false if its status is not 0. */
static bool prepare(char *command, int number) {
    static const char log[] = "/tmp/prepare.log";
    int pid = start_command(command, log), status;

    while (reap(true, &status) != pid)
        ;
    if (status)
        write_command_end("prepare", number, status, log);
    return !status;
}

/* The running `beside` commands. */
static struct { int pids[MAX_BESIDE], count; } beside;

static const char *beside_log(int number) {
    static char path[32];
    struct text text = {path, sizeof path, 0, false};

    text_format(&text, "/tmp/beside-%d.log", number);
    return text_end(&text);
}

static void start_beside(char *command) {
    if (beside.count == MAX_BESIDE)
        fail("the order has too many lines ", "beside", 0);
    beside.pids[beside.count] = start_command(command, beside_log(beside.count));
    beside.count++;
}

/* Starts the agent. Its standard output can be read from `*answers`. Returns its pid. */
static int start_agent(int *answers) {
    static char *const arguments[] = {"/agent", "/plan", NULL}, *const environment[] = {NULL};
    int ends[2];

    require_success(port_pipe(ends, true), "can't make ", "a pipe");
    int pid = port_fork();
    require_success(pid, "can't start ", "a process");
    if (pid == 0) {
        port_release_devices();
        port_dup2(ends[1], 1);
        port_exit(port_exec("/agent", arguments, environment) < 0 ? 127 : 0);
    }
    port_close(ends[1]);
    *answers = ends[0];
    return pid;
}

/* Copies the agent's output to the channel until it ends. */
static void copy_to_channel(int fd, int64_t until_ns) {
    for (;;) {
        struct port_pollfd polled = {fd, PORT_POLL_IN, 0};
        int64_t left_ns = until_ns - port_now_ns();
        if (left_ns <= 0)
            fail("the agent took longer than ", "limit-ms", 0);
        if (port_poll(&polled, 1, left_ns) <= 0)
            continue;
        long size = port_read(fd, output.bytes, sizeof output.bytes);
        require_success(size, "can't read ", "the agent's answers");
        if (size == 0)
            return;
        output.used = (size_t)size;
        flush();
    }
}

/* Waits for the agent; its status must be 0. Writes which `beside` commands ended before. Returns the
 * processor time of the agent and of the trial. */
static int64_t end_agent(int agent) {
    bool over = false;
    int64_t agent_us = 0;

    for (int pid, status; (pid = reap(!over, &status)) > 0;) {
        if (pid == agent && status > 256)
            fail("the agent was killed by ", "a signal", 256 - status);
        if (pid == agent && status)
            fail("the agent exited with a non-zero ", "status", -status);
        over |= pid == agent;
        agent_us = pid == agent ? reaped_us : agent_us;
        for (int i = 0; i < beside.count; i++)
            if (beside.pids[i] == pid)
                write_command_end("beside", i, status, beside_log(i));
    }
    return agent_us;
}

/* Requests a pause and runs a busy loop, during which QEMU pauses the machine. The loop must not be idle:
 * QEMU advances the clock of an idle machine to the next timer, even if it is about to pause. The loop
 * executes the same instructions whether or not the machine is paused, so the rest of the run is the same.
 * The line on the channel marks the end of the loop. */
static void allow_snapshot(void) {
    int64_t start_ns = port_now_ns();

    port_request_pause();
    while (port_now_ns() - start_ns < PAUSE_NS)
        ;
    text_print(write_bytes, "swapstone-goes-on\n");
    flush();
}

/* Waits until a time: asleep, and the last of it in a busy loop, because the kernel may wake it late. */
static void wait_until(int64_t until_ns) {
    int64_t wait_ns = until_ns - port_now_ns();

    if (wait_ns > BUSY_NS)
        port_poll(NULL, 0, wait_ns - BUSY_NS);
    while (port_now_ns() < until_ns)
        ;
}

/* Receives files, and continues at a time that does not depend on what they were. */
static void receive(void) {
    int64_t start_ns = port_now_ns(), most_ns;

    require_success(receive_files(&most_ns), "can't receive ", "the host's files");
    if (most_ns && port_now_ns() > start_ns + most_ns)
        fail("the host's files took longer than ", "they may", 0);
    wait_until(start_ns + most_ns);
}

/* Waits until the `beside` commands have run for `settle_ns`, and for the replicate's delay. */
static void wait_before(int64_t settle_ns, int64_t delay_ns) {
    /* Read after the `prepare` commands, so that their run time is not part of the delay. */
    int64_t until_ns = port_now_ns() + settle_ns + delay_ns, left_ns;

    if (!beside.count)
        wait_until(port_now_ns() + delay_ns);
    else
        while ((left_ns = until_ns - port_now_ns()) > 0)
            port_poll(NULL, 0, left_ns);
}

static void measure(const char *plan, size_t size, int64_t limit_ms, int kernel_log) {
    write_whole_file("/plan", plan, size);
    write_counters("before");
    int64_t before_ns = port_process_cpu_ns(port_getpid());
    int answers, agent = start_agent(&answers);
    copy_to_channel(answers, port_now_ns() + limit_ms * 1000000);
    text_print(write_bytes, "swapstone-after 1\n");
    int64_t agent_us = end_agent(agent), own_us = (port_process_cpu_ns(port_getpid()) - before_ns) / 1000;
    text_print(write_bytes, "after own-cpu-us %lld\n", (long long)(agent_us + own_us));
    write_counters("after");
    write_kernel_log(kernel_log);
}

/* As a program, not as the first process: prints the kernel's functions whose names begin with one of the
 * arguments, and what lies behind each, as /proc/kallsyms has them. */
static int print_functions(int count, char **arguments) {
    enum { ADDRESS_DIGITS = 16, NAME_AT = ADDRESS_DIGITS + 3 };
    static char room[CHUNK], last[ADDRESS_DIGITS];
    struct lines lines = {.fd = port_open_read("/proc/kallsyms"), .bytes = room, .room = sizeof room};
    bool wanted = false;
    char *line;

    while (next_line(&lines, &line) == LINE) {
        size_t length = text_length(line);
        bool same = wanted, found = false;
        if (length < NAME_AT)
            continue;
        for (int i = 0; i < ADDRESS_DIGITS; i++) {
            same = same && line[i] == last[i];
            last[i] = line[i];
        }
        for (int i = 1; i < count; i++)
            found = found || text_after(line + NAME_AT, arguments[i]);
        line[length] = '\n';
        if (found || wanted)
            port_write(1, line, length + 1);
        wanted = found || same;
    }
    return 0;
}

int port_main(int count, char **arguments) {
    static char order[ORDER_BYTES + 1];
    char *text;
    bool prepared = true;

    if (port_getpid() != 1)
        return print_functions(count, arguments);
    mount_all();
    complete_devices();
    seed_random();
    reserve_standard_fds();
    require_success(port_acquire_devices(), "can't use ", "the emulator's devices");
    load_modules();
    require_success(make_pool(), "can't make ", "the pool of files");
    allow_snapshot();
    receive();
    long size = port_read_order(order, ORDER_BYTES);
    require_success(size, "can't read ", "the order");
    int64_t start_ns = port_now_ns();
    int kernel_log = port_open_kernel_log();
    const char *lines = text_after(order, ORDER_HEADER "\n");
    if (!lines)
        fail("the order is invalid: ", "its first line is not '" ORDER_HEADER "'", 0);
    int64_t layout = take_number(&lines, "layout "), idle_ns = take_number(&lines, "idle-ns "),
            delay_ns = take_number(&lines, "delay-ns "), limit_ms = take_number(&lines, "limit-ms "),
            settle_ms = take_number(&lines, "settle-ms ");
    char *at = order + (lines - order);
    write_identity(start_ns);
    while ((text = take_text(&at, "report ")))
        write_file_content("file", text, FILE_BYTES);
    if (layout)
        require_success(vary_layout((uint64_t)layout), "can't vary ", "the memory layout");
    wait_until(port_now_ns() + idle_ns);
    while ((text = take_line(&at, "write ")))
        write_file(text);
    for (int number = 0; prepared && (text = take_text(&at, "prepare ")); number++)
        prepared = prepare(text, number);
    if (prepared) {
        while ((text = take_text(&at, "beside ")))
            start_beside(text);
        wait_before(settle_ms * 1000000, delay_ns);
        measure(at, (size_t)(order + size - at), limit_ms, kernel_log);
    }
    text_print(write_bytes, "swapstone-end\n");
    flush();
    port_stop_machine(false);
}
