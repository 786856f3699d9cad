// SPDX-License-Identifier: MIT OR Apache-2.0
#include "observe.h"

void fact_set(struct facts *facts, enum fact fact, int64_t value) {
    facts->values[fact] = value;
    facts->known[fact] = true;
}

int open_path(const char *format, ...) {
    char bytes[8192];
    struct text path = {bytes, sizeof bytes, 0, false};
    va_list values;

    va_start(values, format);
    text_add_list(&path, format, values);
    va_end(values);
    return path.full ? -PORT_E_NOMEM : port_open_read(text_end(&path));
}

int open_proc_file(int pid, const char *name) {
    return open_path("/proc/%d/%s", pid, name);
}

void close_file(int *fd) {
    if (*fd >= 0)
        port_close(*fd);
    *fd = -1;
}

static bool take_text(int fd, char *bytes, size_t room) {
    long size = port_read(fd, bytes, room - 1);
    bytes[size > 0 ? size : 0] = 0;
    return size > 0;
}

bool reread_text(int fd, char *bytes, size_t room) {
    return fd >= 0 && port_lseek(fd, 0) >= 0 && take_text(fd, bytes, room);
}

bool read_text(int fd, char *bytes, size_t room) {
    bool found = fd >= 0 && take_text(fd, bytes, room);
    close_file(&fd);
    return found;
}

bool number_after(const char *text, const char *mark, int64_t *number) {
    for (; *text; text++) {
        const char *at = text_after(text, mark);
        while (at && (*at == ' ' || *at == '\t'))
            at++;
        if (at)
            return text_number(&at, number);
    }
    return false;
}

bool stat_field(const char *stat, int number, int64_t *value) {
    const char *at = NULL;

    for (; *stat; stat++) /* fields are counted from the end of the name, which may have blanks */
        at = *stat == ')' ? stat + 1 : at;
    for (int field = 2; at && field < number; field++) {
        while (*at == ' ')
            at++;
        while (*at && *at != ' ' && field + 1 < number)
            at++;
    }
    return at && text_number(&at, value);
}

static void observe_pressure(struct facts *facts, enum fact fact, int fd) {
    char bytes[256];
    int64_t total;
    if (reread_text(fd, bytes, sizeof bytes) && number_after(bytes, " total=", &total))
        fact_set(facts, fact, total);
}

/* The first line of /proc/stat: user nice system idle iowait irq softirq steal. The fields after those are
 * included in user. */
static void observe_ticks(struct facts *facts, int fd) {
    enum { IDLE = 3, IOWAIT = 4, STEAL = 7 };
    char bytes[256];
    int64_t sum = 0, idle = 0, time, now_ns = port_now_ns();
    const char *at;

    if (!reread_text(fd, bytes, sizeof bytes))
        return;
    at = text_after(bytes, "cpu ");
    if (!at)
        return;
    for (int i = 0; i <= STEAL; i++) {
        while (*at == ' ')
            at++;
        if (!text_number(&at, &time) || __builtin_add_overflow(sum, time, &sum))
            return;
        if (i == IDLE || i == IOWAIT)
            idle += time;
    }
    fact_set(facts, FACT_STEAL_TICKS, time);
    fact_set(facts, FACT_IDLE_TICKS, idle);
    fact_set(facts, FACT_CPU_TICKS, sum);
    fact_set(facts, FACT_TICKS_NS, now_ns);
}

/* Reads "0.44 0.30 0.20 1/120 4711": 440 thousandths, and the number of the task that was created last. */
static void observe_load(struct facts *facts, int fd) {
    enum { LARGEST_LOAD = 1000000 };
    char bytes[64];
    const char *at = bytes;
    int64_t whole, last;
    if (!reread_text(fd, bytes, sizeof bytes))
        return;
    if (text_number(&at, &whole) && whole <= LARGEST_LOAD && at[0] == '.' && at[1] >= '0' && at[1] <= '9' &&
        at[2] >= '0' && at[2] <= '9')
        fact_set(facts, FACT_LOAD1_MILLI, whole * 1000 + (at[1] - '0') * 100 + (at[2] - '0') * 10);
    for (at = bytes; *at && *at != '/';)
        at++;
    if (number_after(at, " ", &last))
        fact_set(facts, FACT_CREATED_TASKS, last);
}

void open_machine_files(struct machine_files *files) {
    files->pressure_cpu = port_open_read("/proc/pressure/cpu");
    files->pressure_memory = port_open_read("/proc/pressure/memory");
    files->pressure_io = port_open_read("/proc/pressure/io");
    files->stat = port_open_read("/proc/stat");
    files->loadavg = port_open_read("/proc/loadavg");
}

void observe_machine(struct facts *facts, const struct machine_files *files) {
    observe_pressure(facts, FACT_PSI_CPU_US, files->pressure_cpu);
    observe_pressure(facts, FACT_PSI_MEMORY_US, files->pressure_memory);
    observe_pressure(facts, FACT_PSI_IO_US, files->pressure_io);
    observe_ticks(facts, files->stat);
    observe_load(facts, files->loadavg);
}

void facts_grow(struct facts *after, const struct facts *before) {
    static const enum fact growing[] = {FACT_PSI_CPU_US,  FACT_PSI_MEMORY_US, FACT_PSI_IO_US,
                                        FACT_STEAL_TICKS, FACT_IDLE_TICKS,    FACT_CPU_TICKS,
                                        FACT_TICKS_NS,    FACT_CREATED_TASKS};
    for (size_t i = 0; i < sizeof growing / sizeof *growing; i++) {
        enum fact fact = growing[i];
        int64_t growth = after->values[fact] - before->values[fact];
        after->known[fact] = after->known[fact] && before->known[fact] && growth >= 0;
        after->values[fact] = growth;
    }
    after->known[FACT_LOAD1_MILLI] = before->known[FACT_LOAD1_MILLI];
    after->values[FACT_LOAD1_MILLI] = before->values[FACT_LOAD1_MILLI];
}

void open_task_files(struct task_files *files, int pid) {
    files->comm = open_proc_file(pid, "comm");
    files->schedstat = open_proc_file(pid, "schedstat");
}

void close_task_files(struct task_files *files) {
    close_file(&files->comm);
    close_file(&files->schedstat);
}

struct run_times read_run_times(int fd) {
    char bytes[128];
    const char *at = bytes;
    struct run_times times;
    bool read = reread_text(fd, bytes, sizeof bytes) && text_number(&at, &times.cpu_ns) &&
                number_after(at, " ", &times.delay_ns);
    return read ? times : (struct run_times){-1, -1};
}

static void set_growth(struct facts *facts, enum fact fact, int64_t before, int64_t after) {
    if (before >= 0 && after >= before)
        fact_set(facts, fact, after - before);
}

void observe_task(struct facts *facts, const struct task_files *files, int pid, struct run_times before) {
    struct run_times after = read_run_times(files->schedstat);
    int nice, cpus = port_count_allowed_cpus(pid);

    set_growth(facts, FACT_MAIN_CPU_NS, before.cpu_ns, after.cpu_ns);
    set_growth(facts, FACT_RUN_DELAY_NS, before.delay_ns, after.delay_ns);
    if (port_get_nice(pid, &nice) == 0)
        fact_set(facts, FACT_NICE, nice);
    if (cpus > 0)
        fact_set(facts, FACT_CPUS_ALLOWED, cpus);
}

/* Reads a number of an ELF file: `size` bytes at `at`. */
static uint64_t elf_number(const unsigned char *at, int size, bool big) {
    uint64_t value = 0;
    for (int i = 0; i < size; i++)
        value = value << 8 | at[big ? i : size - 1 - i];
    return value;
}

/* Reads up to `size` bytes at `offset`. Returns how many, or a negative number. */
static long read_at(int fd, uint64_t offset, void *buffer, size_t size) {
    return offset < INT32_MAX && port_lseek(fd, (long)offset) >= 0 ? port_read(fd, buffer, size) : -1;
}

/* Reads PT_INTERP (ELF specification, program header), for either class and byte order. As the kernel, it
 * reads no program whose headers have another size than that of the specification. */
static void read_interp(struct image *image, int fd) {
    enum { PT_INTERP = 3, HEADERS = 64, HEADER_BYTES = 56 };
    unsigned char header[64], entries[HEADERS * HEADER_BYTES];

    if (port_read(fd, header, sizeof header) != sizeof header || !text_after((char *)header, "\177ELF"))
        return;
    bool wide = header[4] == 2, big = header[5] == 2;
    int word = wide ? 8 : 4;
    uint64_t table = elf_number(header + (wide ? 32 : 28), word, big);
    uint64_t step = elf_number(header + (wide ? 54 : 42), 2, big);
    uint64_t count = elf_number(header + (wide ? 56 : 44), 2, big);
    size_t size = wide ? HEADER_BYTES : 32;
    long whole;

    if (step != size)
        return;
    count = count < HEADERS ? count : HEADERS;
    whole = read_at(fd, table, entries, count * size);
    for (long at = 0; at + (long)size <= whole; at += (long)size) {
        const unsigned char *entry = entries + at;
        if (elf_number(entry, 4, big) != PT_INTERP)
            continue;
        uint64_t offset = elf_number(entry + (wide ? 8 : 4), word, big);
        uint64_t length = elf_number(entry + (wide ? 32 : 16), word, big);
        if (length < 2 || length > sizeof image->interp ||
            read_at(fd, offset, image->interp, length) != (long)length)
            return;
        image->interp[length - 1] = 0;
        image->has_interp = true;
        return;
    }
}

static void add_object(struct text *objects, const char *path) {
    for (size_t at = 0; at < objects->used; at += text_length(objects->bytes + at) + 1)
        if (text_equal(objects->bytes + at, path))
            return;
    size_t before = objects->used;
    text_add(objects, path);
    if (objects->full)
        objects->used = before;
    else
        objects->bytes[objects->used++] = 0;
}

/* A line of maps is "START-END PERM OFFSET DEVICE INODE   PATH". Only the path of a file begins with a slash.
 */
static void read_maps(struct image *image, int fd) {
    static char bytes[8192];
    struct lines lines = {.fd = fd, .bytes = bytes, .room = sizeof bytes};
    char *line;

    while (next_line(&lines, &line) == LINE) {
        const char *at = line;
        while (*at && *at != ' ')
            at++;
        if (text_length(at) < 5 || at[3] != 'x')
            continue;
        while (*at && *at != '/')
            at++;
        if (*at)
            add_object(&image->objects, at);
    }
}

void observe_image(struct image *image, const struct task_files *files, int pid) {
    int exe = open_proc_file(pid, "exe"), maps = open_proc_file(pid, "maps");

    if (!reread_text(files->comm, image->name, sizeof image->name))
        image->name[0] = 0;
    image->has_interp = false;
    image->objects = (struct text){image->object_bytes, sizeof image->object_bytes, 0, false};
    image->failed = exe < 0 ? exe : maps < 0 ? maps : 0;
    if (exe >= 0) {
        read_interp(image, exe);
        port_close(exe);
    }
    if (maps >= 0) {
        read_maps(image, maps);
        port_close(maps);
    }
}

bool is_same_program(const struct image *image, const struct task_files *files) {
    char name[sizeof image->name];
    return !image->name[0] || !reread_text(files->comm, name, sizeof name) || text_equal(name, image->name);
}

bool has_more_threads(int pid) {
    enum { NUM_THREADS = 20 };
    char bytes[512];
    int64_t threads;

    return read_text(open_proc_file(pid, "stat"), bytes, sizeof bytes) &&
           stat_field(bytes, NUM_THREADS, &threads) && threads > 1;
}

int for_each_child(int parent, void (*found)(int pid, int group)) {
    enum { PARENT = 4, GROUP };
    static char entries[8192] __attribute__((aligned(8)));
    int fd = port_open_read("/proc"), count = 0;
    long size;

    while (fd >= 0 && (size = port_getdents(fd, entries, sizeof entries)) > 0) {
        for (size_t at = 0; at < (size_t)size;) {
            const char *name = port_next_dirent(entries, &at);
            int64_t pid, its_parent, group;
            char stat[512];
            if (text_number(&name, &pid) && !*name &&
                read_text(open_proc_file((int)pid, "stat"), stat, sizeof stat) &&
                stat_field(stat, PARENT, &its_parent) && stat_field(stat, GROUP, &group) &&
                its_parent == parent) {
                found((int)pid, (int)group);
                count++;
            }
        }
    }
    close_file(&fd);
    return count;
}
