// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Runs a workload and prints its report: PROGRAM PASSES [PARAMETER]. harness.h describes a workload.
 *
 * The measured process is always a child. It writes its results to a shared mapping of the parent. For that
 * it needs no heap, no file descriptor and no stdio. The mapping has a device number, so the memory figures
 * leave it out; the list of mapped files skips it by its address. The parent uses no stdio before the last
 * child ends, so each child inherits an unused heap.
 */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MAX_PASSES = 1000000, MAPPED_BYTES = 32768, MALLOC_PATH_BYTES = 4096, SMAPS_LINE_BYTES = 8192 };

struct reading {
    struct rusage self, children;
    uint64_t wall_ns, cpu_ns;
    uint64_t run_delay_ns;
    bool run_delay_known;
};

struct pass {
    uint64_t wall_ns, cpu_ns, run_delay_ns;
    bool run_delay_known;
    uint64_t minflt, majflt, nvcsw, nivcsw;
    uint64_t check;
};

/* The shared mapping. */
struct shared {
    uint64_t done; /* completed passes */
    bool failed;
    char error[512];
    uint64_t virt_bytes, res_bytes, dirty_bytes;
    char malloc_file[MALLOC_PATH_BYTES]; /* the mapped file that contains malloc; empty if none does */
    size_t mapped_length;
    char mapped[MAPPED_BYTES]; /* paths of mapped files, each zero-terminated */
    struct pass passes[];
};

const struct parameter *parameter;

static struct shared *shared;
static const char *report_name;
static uint64_t report_ops;
static uint64_t (*pass_function)(void);

/* The dynamic linker stores the address of the malloc that this program calls here. It is volatile and
 * writable so that neither compiler nor linker stores the address of a PLT entry of the program instead. */
static void *(*volatile malloc_address)(size_t) = malloc;

/* ==== Report ==== */

/* Percent-encodes a text, as docs/wire.md specifies. */
static void print_text(const char *key, const char *text) {
    printf("%s ", key);
    if (!*text)
        putchar('%');
    for (const unsigned char *byte = (const unsigned char *)text; *byte; byte++)
        if (*byte < '!' || *byte > '~' || *byte == '%')
            printf("%%%02X", *byte);
        else
            putchar(*byte);
    putchar('\n');
}

static int end_report(int status) {
    puts("end");
    return fflush(stdout) == 0 && !ferror(stdout) ? status : 1;
}

static int report_error(const char *text) {
    puts("swapstone-workload 2");
    print_text("name", report_name);
    print_text("error", text);
    return end_report(1);
}

static void print_pass(const struct pass *pass) {
    printf("pass %" PRIu64 " %" PRIu64 " ", pass->wall_ns, pass->cpu_ns);
    if (pass->run_delay_known)
        printf("%" PRIu64, pass->run_delay_ns);
    else
        putchar('-');
    printf(" %" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", pass->minflt, pass->majflt, pass->nvcsw,
           pass->nivcsw);
}

static int report(uint64_t passes) {
    char check[17];
    for (uint64_t i = 1; i < passes; i++)
        if (shared->passes[i].check != shared->passes[0].check)
            return report_error("the checksums of the passes differ");
    puts("swapstone-workload 2");
    print_text("name", report_name);
    printf("ops %" PRIu64 "\npasses %" PRIu64 "\n", report_ops, passes);
    for (uint64_t i = 0; i < passes; i++)
        print_pass(&shared->passes[i]);
    printf("memory %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", shared->virt_bytes, shared->res_bytes,
           shared->dirty_bytes);
    print_text("malloc", shared->malloc_file);
    for (size_t at = 0; at < shared->mapped_length; at += strlen(shared->mapped + at) + 1)
        print_text("mapped", shared->mapped + at);
    snprintf(check, sizeof check, "%016" PRIx64, shared->passes[0].check);
    print_text("check", check);
    return end_report(0);
}

/* ==== Functions for workloads; called in the measured process ==== */

void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (!shared->failed) /* the first error is kept: a child's text is more specific than its parent's */
        vsnprintf(shared->error, sizeof shared->error, format, list);
    va_end(list);
    shared->failed = true;
    _exit(1);
}

void require(bool holds, const char *what) {
    if (!holds)
        fail("%s: %s", what, strerror(errno));
}

void program_path(char *path, size_t size) {
    ssize_t length = readlink("/proc/self/exe", path, size - 1);
    require(length >= 0, "readlink /proc/self/exe");
    path[length] = 0;
}

void path_beside_program(char *path, size_t size, const char *name) {
    program_path(path, size);
    char *end = strrchr(path, '/') + 1;
    if ((size_t)(end - path) + strlen(name) >= size)
        fail("the path of the program is too long");
    strcpy(end, name);
}

int unnamed_file(void) {
    char path[] = "./swapstone-XXXXXX";
    int file = mkstemp(path);
    require(file >= 0 && unlink(path) == 0, "can't create a file in the working directory");
    return file;
}

unsigned task_count(unsigned copies) {
    long processors = copies == (unsigned)ALL_PROCESSORS ? sysconf(_SC_NPROCESSORS_ONLN) : (long)copies;
    return processors > 1 ? (unsigned)processors : 1;
}

/* ==== Clocks and counters of the measured process ==== */

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        fail("clock_gettime: %s", strerror(errno));
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* The second field of /proc/self/schedstat: nanoseconds for which the main thread waited on a run queue. A
 * kernel without CONFIG_SCHED_INFO has no such file. */
static void read_run_delay(struct reading *reading) {
    char text[128];
    int file = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length < 0 ? 0 : length] = 0;
    reading->run_delay_known = sscanf(text, "%*u %" SCNu64, &reading->run_delay_ns) == 1;
}

static void read_usage(struct reading *reading) {
    if (getrusage(RUSAGE_SELF, &reading->self) != 0 || getrusage(RUSAGE_CHILDREN, &reading->children) != 0)
        fail("getrusage: %s", strerror(errno));
}

static uint64_t usage_ns(const struct rusage *usage) {
    uint64_t seconds = (uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec;
    uint64_t microseconds = (uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec;
    return seconds * 1000000000u + microseconds * 1000u;
}

/* Of the process and of its children together. */
#define GROWTH(field)                                                                                        \
    ((uint64_t)(after.self.field - before.self.field) +                                                      \
     (uint64_t)(after.children.field - before.children.field))

/* Runs one pass between two readings. CPU time, page faults and context switches are those of all threads of
 * the process and of the children that it waited for. */
static void measure(struct pass *pass) {
    struct reading before, after;
    read_run_delay(&before);
    read_usage(&before);
    before.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    before.wall_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t check = pass_function();
    after.wall_ns = clock_ns(CLOCK_MONOTONIC);
    after.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    read_usage(&after);
    read_run_delay(&after);
    *pass = (struct pass){
        .wall_ns = after.wall_ns - before.wall_ns,
        .cpu_ns = after.cpu_ns - before.cpu_ns + usage_ns(&after.children) - usage_ns(&before.children),
        .run_delay_known = before.run_delay_known && after.run_delay_known,
        .minflt = GROWTH(ru_minflt),
        .majflt = GROWTH(ru_majflt),
        .nvcsw = GROWTH(ru_nvcsw),
        .nivcsw = GROWTH(ru_nivcsw),
        .check = check,
    };
    if (pass->run_delay_known)
        pass->run_delay_ns = after.run_delay_ns - before.run_delay_ns;
}

/* ==== Memory of the measured process ==== */

static void add_mapped_file(const char *path) {
    size_t length = strlen(path) + 1;
    for (size_t at = 0; at < shared->mapped_length; at += strlen(shared->mapped + at) + 1)
        if (strcmp(shared->mapped + at, path) == 0)
            return;
    if (shared->mapped_length + length > sizeof shared->mapped)
        fail("the paths of the mapped files are too long together");
    memcpy(shared->mapped + shared->mapped_length, path, length);
    shared->mapped_length += length;
}

static void set_malloc_file(const char *path) {
    if (strlen(path) >= sizeof shared->malloc_file)
        fail("the path of the file that contains malloc is too long");
    strcpy(shared->malloc_file, path);
}

/* Parses the first line of a mapping in smaps. Returns whether the mapping counts as memory, as docs/wire.md
 * defines it: anonymous memory and the heap, without mappings that permit nothing. */
static bool parse_mapping(char *line) {
    unsigned long start, end;
    uintptr_t address = (uintptr_t)malloc_address;
    char permissions[5];
    unsigned major, minor;
    int name = 0;
    if (sscanf(line, "%lx-%lx %4s %*x %x:%x %*u %n", &start, &end, permissions, &major, &minor, &name) != 5 ||
        name == 0)
        fail("/proc/self/smaps: unexpected line: %.200s", line);
    line[strcspn(line, "\n")] = 0;
    const char *text = line + name;
    if (*text == '/' && (void *)start != (void *)shared)
        add_mapped_file(text);
    if (*text == '/' && start <= address && address < end)
        set_malloc_file(text);
    return major == 0 && minor == 0 && (!*text || strcmp(text, "[heap]") == 0) &&
           strncmp(permissions, "---", 3) != 0;
}

/* Adds the value of a line "FIELD N kB" to a sum in bytes. Ignores other lines. */
static void add_field(const char *line, const char *field, uint64_t *sum) {
    uint64_t kibibytes;
    size_t length = strlen(field);
    if (strncmp(line, field, length) != 0)
        return;
    if (sscanf(line + length, "%" SCNu64 " kB", &kibibytes) != 1)
        fail("/proc/self/smaps: unexpected line: %.200s", line);
    *sum += kibibytes * 1024;
}

/* Sums up the memory figures. It reads through stdio, as libc-bench does: the buffer that stdio allocates is
 * part of the figures. */
static void read_smaps(void) {
    char line[SMAPS_LINE_BYTES];
    bool counts = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    require(file, "/proc/self/smaps");
    while (fgets(line, sizeof line, file)) {
        if (!strchr(line, '\n'))
            fail("/proc/self/smaps: a line is too long");
        if (*line < 'A' || *line > 'Z') {
            counts = parse_mapping(line);
        } else if (counts) {
            add_field(line, "Size:", &shared->virt_bytes);
            add_field(line, "Rss:", &shared->res_bytes);
            add_field(line, "Private_Dirty:", &shared->dirty_bytes);
        }
    }
    require(!ferror(file), "/proc/self/smaps");
    fclose(file);
}

/* ==== The measured process ==== */

/* Uses stdio before the first pass, as most programs do. The line stays in the buffer of stdout. */
static void use_stdio(void) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    require(null >= 0 && dup2(null, STDOUT_FILENO) >= 0, "/dev/null");
    close(null);
    require(puts(report_name) != EOF, "puts");
}

/* Runs passes first..end-1, in the child. `last`: it also reads the memory. */
_Noreturn static void run_passes_in_child(uint64_t first, uint64_t end, bool last) {
    use_stdio();
    if (swapstone_workload.prepare)
        swapstone_workload.prepare();
    if (swapstone_workload.mode == WARM)
        pass_function();
    for (uint64_t i = first; i < end; i++) {
        measure(&shared->passes[i]);
        shared->done = i + 1;
    }
    if (last)
        read_smaps();
    if (swapstone_workload.finish)
        swapstone_workload.finish();
    _exit(0);
}

/* ==== The parent process ==== */

/* Forks a child that runs passes first..end-1. Returns whether it completed them; `shared->error` holds the
 * reason if it did not. */
static bool run_child(uint64_t first, uint64_t end, bool last) {
    int status;
    pid_t child = fork();
    if (child == 0)
        run_passes_in_child(first, end, last);
    while (child > 0 && waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            child = -1;
    if (child < 0)
        snprintf(shared->error, sizeof shared->error, "fork or waitpid: %s", strerror(errno));
    else if (WIFSIGNALED(status))
        snprintf(shared->error, sizeof shared->error, "killed by signal %d after %" PRIu64 " passes",
                 WTERMSIG(status), shared->done);
    else if (!shared->failed && (WEXITSTATUS(status) != 0 || shared->done != end))
        snprintf(shared->error, sizeof shared->error, "exited with status %d after %" PRIu64 " passes",
                 WEXITSTATUS(status), shared->done);
    else
        return !shared->failed;
    return false;
}

static bool run_passes(uint64_t passes) {
    if (swapstone_workload.mode == WARM)
        return run_child(0, passes, true);
    for (uint64_t i = 0; i < passes; i++)
        if (!run_child(i, i + 1, i + 1 == passes))
            return false;
    return true;
}

/* Returns the number of passes, or 0 if the text is not a number from 1 to MAX_PASSES. */
static uint64_t parse_passes(const char *text) {
    char *rest;
    if (*text < '1' || *text > '9')
        return 0;
    errno = 0;
    unsigned long long number = strtoull(text, &rest, 10);
    return errno == 0 && *rest == 0 && number <= MAX_PASSES ? number : 0;
}

/* Selects the parameter. Returns whether the number of arguments and the second argument are valid. */
static bool select_parameter(int count, char **arguments) {
    report_name = swapstone_workload.name;
    report_ops = swapstone_workload.ops;
    pass_function = swapstone_workload.pass;
    if (!swapstone_workload.parameters)
        return count == 2;
    report_name = "unknown";
    for (const struct parameter *one = swapstone_workload.parameters; count == 3 && one->argument; one++)
        if (strcmp(one->argument, arguments[2]) == 0) {
            parameter = one;
            report_name = one->name;
            report_ops = one->ops * task_count(one->copies);
            if (one->pass)
                pass_function = one->pass;
            return true;
        }
    return false;
}

int main(int count, char **arguments) {
    /* The workloads `exec` and `startup` execute their own program again, with this argument. */
    if (count > 1 && strcmp(arguments[1], "-") == 0)
        return swapstone_workload.reexec_main ? swapstone_workload.reexec_main(count, arguments) : 0;
    bool valid = select_parameter(count, arguments);
    uint64_t passes = count > 1 ? parse_passes(arguments[1]) : 0;
    if (!valid || passes == 0)
        return report_error("usage: PROGRAM PASSES [PARAMETER]");
    size_t size = sizeof *shared + passes * sizeof *shared->passes;
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return report_error("mmap of the shared results failed");
    return run_passes(passes) ? report(passes) : report_error(shared->error);
}
