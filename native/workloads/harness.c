/*
 * Runs a workload and prints its report: PROGRAM PASSES [PARAMETER].
 *
 * The measured process is always a child. It reports through one shared mapping that the parent made, so it
 * needs no heap, no descriptor and no stdio of its own for that; the mapping has a device number, so memory
 * figures leave it out, and the list of mapped files skips it by its address. The parent uses no stdio before
 * the last child has ended: a child inherits an untouched heap.
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

enum { MOST_PASSES = 1000000, MAPPED_ROOM = 32768, MALLOC_ROOM = 4096, SMAPS_LINE = 8192 };

struct moment {
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

struct shared {
    uint64_t done; /* passes that are complete */
    bool failed;
    char error[512];
    uint64_t virt_bytes, res_bytes, dirty_bytes;
    char malloc_file[MALLOC_ROOM]; /* in which malloc lies; empty where it lies in none */
    size_t mapped_length;
    char mapped[MAPPED_ROOM]; /* texts that end with a zero byte, one after the other */
    struct pass passes[];
};

const struct parameter *parameter;

static struct shared *shared;
static const char *report_name;
static uint64_t report_ops;
static uint64_t (*pass_function)(void);

/* The loader fills it in: where the malloc that this program calls really lies. Volatile, and in writable
 * data, so that no compiler or linker puts the address of a stub of this program there. */
static void *(*volatile malloc_address)(size_t) = malloc;

/* ---- the report
 * ----------------------------------------------------------------------------------------------------------------
 */

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
            return report_error("the passes did different work: their checksums differ");
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

/* ---- in the child: what a workload may call
 * ------------------------------------------------------------------------------------ */

void fail(const char *format, ...) {
    va_list list;
    va_start(list, format);
    if (!shared->failed) /* else one of its children has said more than it can */
        vsnprintf(shared->error, sizeof shared->error, format, list);
    va_end(list);
    shared->failed = true;
    _exit(1);
}

void beside_program(char *path, size_t size, const char *name) {
    ssize_t length = readlink("/proc/self/exe", path, size);
    if (length < 0)
        fail("readlink /proc/self/exe: %s", strerror(errno));
    while (length > 0 && path[length - 1] != '/')
        length--;
    if ((size_t)length + strlen(name) >= size)
        fail("the path of the program is too long");
    strcpy(path + length, name);
}

/* ---- in the child: clocks and counters
 * ----------------------------------------------------------------------------------------- */

static uint64_t clock_ns(clockid_t clock) {
    struct timespec now;
    if (clock_gettime(clock, &now) != 0)
        fail("clock_gettime: %s", strerror(errno));
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* Second field of schedstat: nanoseconds that the main thread was ready to run and did not. Not every kernel
 * keeps it. */
static void take_run_delay(struct moment *moment) {
    char text[128];
    int file = open("/proc/self/schedstat", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0)
        close(file);
    text[length < 0 ? 0 : length] = 0;
    moment->run_delay_known = sscanf(text, "%*u %" SCNu64, &moment->run_delay_ns) == 1;
}

static void take_usage(struct moment *moment) {
    if (getrusage(RUSAGE_SELF, &moment->self) != 0 || getrusage(RUSAGE_CHILDREN, &moment->children) != 0)
        fail("getrusage: %s", strerror(errno));
}

static uint64_t usage_ns(const struct rusage *usage) {
    uint64_t seconds = (uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec;
    uint64_t microseconds = (uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec;
    return seconds * 1000000000u + microseconds * 1000u;
}

#define GROWTH(field)                                                                                        \
    ((uint64_t)(after.self.field - before.self.field) +                                                      \
     (uint64_t)(after.children.field - before.children.field))

/* CPU time, faults and switches count the whole process, and the children that the work waited for. */
static void measure(struct pass *pass) {
    struct moment before, after;
    take_run_delay(&before);
    take_usage(&before);
    before.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    before.wall_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t check = pass_function();
    after.wall_ns = clock_ns(CLOCK_MONOTONIC);
    after.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
    take_usage(&after);
    take_run_delay(&after);
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

/* ---- in the child: memory
 * ------------------------------------------------------------------------------------------------------ */

static void remember_mapped(const char *path) {
    size_t length = strlen(path) + 1;
    for (size_t at = 0; at < shared->mapped_length; at += strlen(shared->mapped + at) + 1)
        if (strcmp(shared->mapped + at, path) == 0)
            return;
    if (shared->mapped_length + length > sizeof shared->mapped)
        fail("more mapped files than the report has room for");
    memcpy(shared->mapped + shared->mapped_length, path, length);
    shared->mapped_length += length;
}

static void remember_malloc(const char *path) {
    if (strlen(path) >= sizeof shared->malloc_file)
        fail("the path of the file in which malloc lies is too long");
    strcpy(shared->malloc_file, path);
}

/* Read the first line of a mapping; tell whether docs/wire.md counts it as memory. */
static bool begin_mapping(char *line) {
    unsigned long start, end;
    uintptr_t address = (uintptr_t)malloc_address;
    char permissions[5];
    unsigned major, minor;
    int name = 0;
    if (sscanf(line, "%lx-%lx %4s %*x %x:%x %*u %n", &start, &end, permissions, &major, &minor, &name) != 5 ||
        name == 0)
        fail("/proc/self/smaps: not understood: %.200s", line);
    line[strcspn(line, "\n")] = 0;
    const char *text = line + name;
    if (*text == '/' && (void *)start != (void *)shared)
        remember_mapped(text);
    if (*text == '/' && start <= address && address < end)
        remember_malloc(text);
    return major == 0 && minor == 0 && (!*text || strcmp(text, "[heap]") == 0) &&
           strncmp(permissions, "---", 3) != 0;
}

static void add_field(const char *line, const char *field, uint64_t *sum) {
    uint64_t kibibytes;
    size_t length = strlen(field);
    if (strncmp(line, field, length) != 0)
        return;
    if (sscanf(line + length, "%" SCNu64 " kB", &kibibytes) != 1)
        fail("/proc/self/smaps: not understood: %.200s", line);
    *sum += kibibytes * 1024;
}

/* Through stdio, as the program would read any file: what that takes from the heap belongs to the figures. */
static void read_memory(void) {
    char line[SMAPS_LINE];
    bool counts = false;
    FILE *file = fopen("/proc/self/smaps", "r");
    if (!file)
        fail("/proc/self/smaps: %s", strerror(errno));
    while (fgets(line, sizeof line, file)) {
        if (!strchr(line, '\n'))
            fail("/proc/self/smaps: a line is too long");
        if (*line < 'A' || *line > 'Z') {
            counts = begin_mapping(line);
        } else if (counts) {
            add_field(line, "Size:", &shared->virt_bytes);
            add_field(line, "Rss:", &shared->res_bytes);
            add_field(line, "Private_Dirty:", &shared->dirty_bytes);
        }
    }
    if (ferror(file))
        fail("/proc/self/smaps: %s", strerror(errno));
    fclose(file);
}

/* ---- the child
 * -----------------------------------------------------------------------------------------------------------------
 */

/* As in any program, stdio has been used before the work begins. The line stays in its buffer. */
static void use_stdio(void) {
    int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, STDOUT_FILENO) < 0)
        fail("/dev/null: %s", strerror(errno));
    close(null);
    if (puts(report_name) == EOF)
        fail("puts: %s", strerror(errno));
}

_Noreturn static void be_child(uint64_t first, uint64_t end, bool last) {
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
        read_memory();
    if (swapstone_workload.finish)
        swapstone_workload.finish();
    _exit(0);
}

/* ---- the parent
 * ----------------------------------------------------------------------------------------------------------------
 */

/* Returns whether the child did passes first..end-1; otherwise `shared->error` says why not. */
static bool run_child(uint64_t first, uint64_t end, bool last) {
    int status;
    pid_t child = fork();
    if (child == 0)
        be_child(first, end, last);
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

/* Returns the number of passes, or 0 when the text is not one. */
static uint64_t parse_passes(const char *text) {
    char *rest;
    if (*text < '1' || *text > '9')
        return 0;
    errno = 0;
    unsigned long long number = strtoull(text, &rest, 10);
    return errno == 0 && *rest == 0 && number <= MOST_PASSES ? number : 0;
}

static bool choose(int count, char **arguments) {
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
            report_ops = one->ops;
            if (one->pass)
                pass_function = one->pass;
            return true;
        }
    return false;
}

int main(int count, char **arguments) {
    /* Some works start this very program again; `startup` with nothing to do. */
    if (count > 1 && strcmp(arguments[1], "-") == 0)
        return swapstone_workload.started_anew ? swapstone_workload.started_anew(count, arguments) : 0;
    bool chosen = choose(count, arguments);
    uint64_t passes = count > 1 ? parse_passes(arguments[1]) : 0;
    if (!chosen || passes == 0)
        return report_error("usage: PROGRAM PASSES [PARAMETER]");
    size_t size = sizeof *shared + passes * sizeof *shared->passes;
    shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return report_error("no memory for the results");
    return run_passes(passes) ? report(passes) : report_error(shared->error);
}
