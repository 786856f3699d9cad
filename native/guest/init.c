/* The first process of a virtual machine: makes it ready, lets it be saved, and runs the agent on an order.
 *
 * The order (docs/virtual-machines.md) begins with
 *
 *     swapstone-order 2
 *     delay-ns N      wait so long before the agent is started: what makes one replicate differ from another
 *     limit-ms N      end the machine when the agent takes longer, in the machine's own time
 *     settle-ms N     let what runs beside the measurement run so long before it
 *     prepare TEXT    any number: commands that are run one after another, and must succeed
 *     beside TEXT     any number: commands that run beside the measurement, and must not end before it
 *
 * and what follows is the agent's plan. On its channel it says first what machine this is; then the agent
 * speaks. Whatever fails is said in one line on the console, "swapstone-init: ...", and ends the machine.
 */
#include "../agent/text.h"
#include "../port/port.h"
#include "../port/virtual_machine.h"
#include "../wire/words.h"

enum {
    CONSOLE = 1,
    ORDER_BYTES = 2 << 20,
    CHUNK = 4096,
    FILE_BYTES = 8192,
    PAUSE_NS = 10000000,
    MOST_BESIDE = 16,
    LAST_WORDS = 400,
    COULD_NOT_START = 127,
};

static struct {
    char bytes[CHUNK];
    size_t used;
} speech;

static _Noreturn void fail(const char *what, const char *which, long result) {
    char bytes[512];
    struct text text = {bytes, sizeof bytes, 0, false};

    text_add(&text, "\nswapstone-init: ");
    text_add(&text, what);
    text_add(&text, which);
    if (result < 0) {
        text_add(&text, ": error ");
        text_add_number(&text, -result);
    }
    text_add(&text, "\n");
    port_write(CONSOLE, text.bytes, text.used);
    port_tcdrain(CONSOLE);
    port_stop_machine(true);
}

static void need(long result, const char *what, const char *which) {
    if (result < 0)
        fail(what, which, result);
}

static void flush(void) {
    need(port_write_channel(speech.bytes, speech.used), "can't write ", "what the machine says");
    speech.used = 0;
}

static void say_byte(char byte) {
    if (speech.used == sizeof speech.bytes)
        flush();
    speech.bytes[speech.used++] = byte;
}

static void say(const char *text) {
    while (*text)
        say_byte(*text++);
}

static void say_encoded(const char *bytes, size_t size) {
    char encoded[3];

    if (size == 0)
        say("%");
    for (size_t i = 0; i < size; i++) {
        size_t length = text_encode_byte(encoded, (unsigned char)bytes[i]);
        for (size_t at = 0; at < length; at++)
            say_byte(encoded[at]);
    }
}

static void mount_all(void) {
    static const char *const mounts[][2] = {
        {"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tmpfs", "/scratch"}};

    for (size_t i = 0; i < sizeof mounts / sizeof *mounts; i++)
        need(port_mount(mounts[i][0], mounts[i][1]), "can't mount ", mounts[i][1]);
    port_mount("debugfs", "/sys/kernel/debug"); /* a kernel may have none; then nobody can say its mode */
}

/* A machine without noise has no chance either: a kernel that is asked for random numbers would be busy for a
 * second with finding some. */
static void seed_random(void) {
    static const char seed[PORT_SEED_BYTES] = "swapstone: the same every time.";

    need(port_seed_random(seed), "can't seed ", "/dev/urandom");
}

/* Loads what /modules lists, one path a line, in that order. */
static void load_modules(void) {
    static char room[CHUNK];
    struct lines lines = {.fd = port_open_read("/modules"), .bytes = room, .room = sizeof room};
    char *line;
    enum line_result result = LINE_NONE;

    if (lines.fd < 0)
        return;
    while ((result = next_line(&lines, &line)) == LINE)
        need(port_load_module(line), "can't load the module ", line);
    if (result != LINE_NONE)
        fail("can't read ", "/modules", 0);
    port_close(lines.fd);
}

/* A kernel without a console starts its first process without files: what is opened next must not be taken
 * for the console. */
static void keep_console_numbers(void) {
    int fd;

    while ((fd = port_open_null()) >= 0 && fd <= 2)
        ;
    port_close(fd);
}

/* One line of the order; its value, after checking its name. */
static int64_t take(const char **at, const char *name) {
    const char *rest = text_after(*at, name);
    int64_t value;

    if (!rest || !text_number(&rest, &value) || *rest != '\n')
        fail("the order has no good line ", name, 0);
    *at = rest + 1;
    return value;
}

/* The text of a line of the order that has this name, decoded and zero-terminated; NULL if it has another. */
static char *take_text(char **at, const char *name) {
    char *text = *at + text_length(name), *end;

    if (!text_after(*at, name))
        return NULL;
    for (end = text; *end && *end != '\n'; end++)
        ;
    if (!*end)
        fail("the order has no good line ", name, 0);
    *end = '\0';
    *at = end + 1;
    if (!text_decode(text))
        fail("the order has no good line ", name, 0);
    return text;
}

/* One line: a word, a path, and what the last `most` bytes of that file are. Nothing where it can't be read.
 */
static void say_file(const char *word, const char *path, size_t most) {
    static char room[FILE_BYTES];
    int fd = port_open_read(path);
    size_t used = 0;
    long result = 0;

    if (fd < 0)
        return;
    while (used < sizeof room && (result = port_read(fd, room + used, sizeof room - used)) > 0)
        used += (size_t)result;
    port_close(fd);
    say(word);
    say(" ");
    say(path);
    say(" ");
    say_encoded(room + (used > most ? used - most : 0), used > most ? most : used);
    say("\n");
}

/* What tells whether the machine did what it was told to, before and after a measurement. */
static void say_counters(const char *word) {
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
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        say_file(word, files[i], FILE_BYTES);
    flush();
}

/* Its exact clock: two machines of which one did an instruction more, or slept longer, say different ones. */
static void say_clock(int64_t now_ns) {
    char bytes[32];
    struct text text = {bytes, sizeof bytes, 0, false};

    text_add_number(&text, now_ns);
    say("clock ");
    say(text_end(&text));
    say("\n");
}

static void say_who(int64_t now_ns) {
    static struct port_utsname identity;
    static const struct {
        int which;
        const char *word;
    } words[] = {{PORT_SYSTEM, "system "},
                 {PORT_RELEASE, "release "},
                 {PORT_VERSION, "version "},
                 {PORT_MACHINE, "machine "}};
    static const char *const files[] = {
        "/proc/cmdline",
        "/proc/cpuinfo",
        "/proc/meminfo",
        "/sys/kernel/realtime",
        "/sys/devices/system/clocksource/clocksource0/current_clocksource",
        "/proc/sys/kernel/random/boot_id", /* drawn from when all interrupts came */
    };

    need(port_uname(&identity), "can't identify ", "the kernel");
    say(GUEST_HEADER "\n");
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const char *text = identity.texts[words[i].which];
        say(words[i].word);
        say_encoded(text, text_length(text));
        say("\n");
    }
    say_clock(now_ns);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        say_file("file", files[i], FILE_BYTES);
    flush();
}

/* Starts a command; what it says goes to a file. */
static int start_command(char *command, const char *log) {
    static char shell[] = "/bin/sh", option[] = "-c", path[] = "PATH=/usr/sbin:/usr/bin:/sbin:/bin",
                home[] = "HOME=/";
    char *const arguments[] = {shell, option, command, NULL};
    static char *const environment[] = {path, home, NULL};
    int pid = port_fork();

    need(pid, "can't start ", "a process");
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
    port_exit(COULD_NOT_START);
}

/* Waits for one process; its status, or 256 and the signal that killed it. */
static int await_process(int pid) {
    struct port_event event;
    int result;

    while ((result = port_wait(0, &event)) >= 0) {
        if (result == 0)
            port_poll(NULL, 0, 1000000);
        else if (event.pid == pid && event.change == PORT_EXITED)
            return event.value;
        else if (event.pid == pid && event.change == PORT_SIGNALED)
            return 256 + event.value;
    }
    fail("can't wait for ", "a process", result);
}

static void say_ended(const char *word, int number, int status, const char *log) {
    char bytes[64];
    struct text text = {bytes, sizeof bytes, 0, false};

    text_add(&text, word);
    text_add(&text, " ");
    text_add_number(&text, number);
    text_add(&text, " ");
    text_add_number(&text, status);
    text_add(&text, "\n");
    say(text_end(&text));
    say_file("words", log, LAST_WORDS);
    flush();
}

/* Runs a command that must succeed; says what happened and returns false where it doesn't. */
static bool prepare(char *command, int number) {
    static const char log[] = "/tmp/prepare.log";
    int status = await_process(start_command(command, log));

    if (status)
        say_ended("prepare", number, status, log);
    return !status;
}

static struct { int pids[MOST_BESIDE], count; } beside;

static const char *beside_log(int number) {
    static char path[32];
    struct text text = {path, sizeof path, 0, false};

    text_add(&text, "/tmp/beside-");
    text_add_number(&text, number);
    text_add(&text, ".log");
    return text_end(&text);
}

static void start_beside(char *command) {
    if (beside.count == MOST_BESIDE)
        fail("the order has too many lines ", "beside", 0);
    beside.pids[beside.count] = start_command(command, beside_log(beside.count));
    beside.count++;
}

static void write_plan(const char *plan, size_t size) {
    int fd = port_create_file("/plan");
    need(fd, "can't create ", "/plan");
    while (size) {
        long written = port_write(fd, plan, size);
        need(written, "can't write ", "/plan");
        plan += written;
        size -= (size_t)written;
    }
    port_close(fd);
}

/* Starts the agent; `answers` is where they can be read. */
static int start_agent(int *answers) {
    static char *const arguments[] = {"/agent", "/plan", NULL}, *const environment[] = {NULL};
    int ends[2];

    need(port_pipe(ends, true), "can't make ", "a pipe");
    int pid = port_fork();
    need(pid, "can't start ", "a process");
    if (pid == 0) {
        port_release_devices();
        port_dup2(ends[1], 1);
        port_exit(port_exec("/agent", arguments, environment) < 0 ? 127 : 0);
    }
    port_close(ends[1]);
    *answers = ends[0];
    return pid;
}

static void pass_on(int fd, int64_t until_ns) {
    for (;;) {
        struct port_pollfd polled = {fd, PORT_POLL_IN, 0};
        int64_t left_ns = until_ns - port_now_ns();
        if (left_ns <= 0)
            fail("the agent took longer than ", "limit-ms", 0);
        if (port_poll(&polled, 1, left_ns) <= 0)
            continue;
        long size = port_read(fd, speech.bytes, sizeof speech.bytes);
        need(size, "can't read ", "the agent's answers");
        if (size == 0)
            return;
        speech.used = (size_t)size;
        flush();
    }
}

/* Waits for the agent, and fails if it ended badly. Of what runs beside it is said what has ended by now. */
static void reap(int agent) {
    struct port_event event;
    int result;
    bool over = false;

    while ((result = port_wait(0, &event)) > 0 || !over) {
        if (result < 0)
            fail("can't wait for ", "the agent", result);
        if (result == 0) {
            port_poll(NULL, 0, 1000000);
            continue;
        }
        if (event.change != PORT_EXITED && event.change != PORT_SIGNALED)
            continue;
        if (event.pid == agent && event.change == PORT_SIGNALED)
            fail("the agent was killed by ", "a signal", -event.value);
        if (event.pid == agent && event.value)
            fail("the agent ended with ", "a status that says so", -event.value);
        over |= event.pid == agent;
        for (int i = 0; i < beside.count; i++)
            if (beside.pids[i] == event.pid)
                say_ended("beside", i, event.change == PORT_EXITED ? event.value : 256 + event.value,
                          beside_log(i));
    }
}

/* Gives the emulator time to stop the machine. It must be busy meanwhile: QEMU moves the clock of an idle one
 * on to the next timer, even one that it is about to stop. As it is busy with the same whether it is stopped
 * or not, and wherever, what follows is the same too. The line on the channel says that the time is over. */
static void let_be_saved(void) {
    int64_t start_ns = port_now_ns();

    port_request_pause();
    while (port_now_ns() - start_ns < PAUSE_NS)
        ;
    say("swapstone-goes-on\n");
    flush();
}

/* Lets the load get going, and waits for the draw's delay. */
static void wait_before(int64_t settle_ns, int64_t delay_ns) {
    int64_t since_ns =
        port_now_ns(); /* after what was prepared: a long preparation must not use the delay up */

    if (beside.count) {
        int64_t until_ns = since_ns + settle_ns + delay_ns, left_ns;
        while ((left_ns = until_ns - port_now_ns()) > 0)
            port_poll(NULL, 0, left_ns);
        return;
    }
    while (port_now_ns() - since_ns < delay_ns)
        ; /* not asleep: an idle machine's clock jumps to the next timer */
}

static void measure(const char *plan, size_t size, int64_t limit_ms) {
    write_plan(plan, size);
    say_counters("before");
    int answers, agent = start_agent(&answers);
    pass_on(answers, port_now_ns() + limit_ms * 1000000);
    say("swapstone-after 1\n");
    reap(agent);
    say_counters("after");
}

int port_main(int count, char **arguments) {
    static char order[ORDER_BYTES + 1];
    char *text;
    bool good = true;

    (void)count, (void)arguments;
    mount_all();
    seed_random();
    keep_console_numbers();
    need(port_acquire_devices(), "can't use ", "the emulator's devices");
    load_modules();
    let_be_saved();
    long size = port_read_order(order, ORDER_BYTES);
    need(size, "can't read ", "the order");
    int64_t start_ns = port_now_ns();
    const char *lines = text_after(order, ORDER_HEADER "\n");
    if (!lines)
        fail("this is no order: ", "its first line is not '" ORDER_HEADER "'", 0);
    int64_t delay_ns = take(&lines, "delay-ns "), limit_ms = take(&lines, "limit-ms "),
            settle_ms = take(&lines, "settle-ms ");
    char *at = order + (lines - order);
    say_who(start_ns);
    for (int number = 0; good && (text = take_text(&at, "prepare ")); number++)
        good = prepare(text, number);
    if (good) {
        while ((text = take_text(&at, "beside ")))
            start_beside(text);
        wait_before(settle_ms * 1000000, delay_ns);
        measure(at, (size_t)(order + size - at), limit_ms);
    }
    say("swapstone-end\n");
    flush();
    port_stop_machine(false);
}
