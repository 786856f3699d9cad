// SPDX-License-Identifier: MIT OR Apache-2.0
/* Fills memory until the kernel's out-of-memory killer kills the child that does it. The parent samples the
 * columns of vmstat(8) once a second, and the swapped-out bytes 20 times a second. The published comparison
 * of zram with flash ran such a loop beside vmstat (docs/swap.md).
 *
 *     fill PERCENT
 *
 * PERCENT is the share of each page that is random. The child maps and writes 1 MiB at a time. The parent is
 * locked in memory and has the out-of-memory score -1000, so it is never killed.
 */
#include "figures.h"
#include "page_content.h"
#include "proc_files.h"

#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>

enum { BLOCK_BYTES = 1 << 20, MAX_ROWS = 900, SAMPLES_PER_S = 20, MAX_SAMPLES = MAX_ROWS * SAMPLES_PER_S };

static const uint64_t SECOND_NS = 1000000000, SAMPLE_NS = 1000000000 / SAMPLES_PER_S;

/* The columns of vmstat, and the time of each row. */
enum { AT_NS, R, B, SWPD, FREE, BUFF, CACHE, SI, SO, BI, BO, IN, CS, US, SY, ID, WA, COLUMNS };
static const char *const column_names[COLUMNS] = {"at_ns", "r",  "b",  "swpd", "free", "buff",
                                                  "cache", "si", "so", "bi",   "bo",   "in",
                                                  "cs",    "us", "sy", "id",   "wa"};
static uint64_t columns[COLUMNS][MAX_ROWS];
static size_t rows;

/* Counters of /proc/vmstat and /proc/stat, which start at boot. */
struct counters {
    uint64_t swapped_in, swapped_out, kib_in, kib_out;
    uint64_t user, system, idle, iowait;
    uint64_t interrupts, switches;
    uint64_t at_ns, running, blocked; /* these are no counters */
};

/* Each sample: its time, and the bytes swapped out since the start. */
static struct { uint64_t at_ns, bytes; } samples[MAX_SAMPLES];
static size_t sample_count;

static uint64_t *pages_written; /* by the child; shared memory */

static size_t page_bytes(void) {
    return (size_t)sysconf(_SC_PAGESIZE);
}

static void set_oom_score_adj(const char *score) {
    int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, score, strlen(score)) != (ssize_t)strlen(score))
        figures_fail("can't write /proc/self/oom_score_adj: fill needs root");
    close(fd);
}

static _Noreturn void fill_memory(unsigned percent) {
    size_t page = page_bytes();
    uint64_t number = 0;

    set_oom_score_adj("1000");
    for (;;) {
        char *block = mmap(NULL, BLOCK_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (block == MAP_FAILED)
            _exit(3);
        for (size_t at = 0; at < BLOCK_BYTES; at += page) {
            fill_page((uint64_t *)(void *)(block + at), page / sizeof(uint64_t), number++, percent);
            *pages_written = number;
        }
    }
}

static struct counters read_counters(void) {
    struct counters now = {0};
    uint64_t times[8] = {0};
    const char *text = require_proc_file("/proc/vmstat");

    now.swapped_in = proc_field(text, "pswpin");
    now.swapped_out = proc_field(text, "pswpout");
    now.kib_in = proc_field(text, "pgpgin");
    now.kib_out = proc_field(text, "pgpgout");
    text = require_proc_file("/proc/stat");
    if (strncmp(text, "cpu ", 4) != 0 || parse_numbers(text + 4, times, 8) < 7)
        figures_fail("/proc/stat: unexpected format");
    now.user = times[0] + times[1];
    now.system = times[2] + times[5] + times[6];
    now.idle = times[3];
    now.iowait = times[4];
    now.interrupts = proc_field(text, "intr");
    now.switches = proc_field(text, "ctxt");
    now.running = proc_field(text, "procs_running");
    now.blocked = proc_field(text, "procs_blocked");
    now.at_ns = now_ns();
    return now;
}

static uint64_t percent_of(uint64_t part, uint64_t whole) {
    return whole ? (100 * part + whole / 2) / whole : 0;
}

static uint64_t per_second(uint64_t events, uint64_t ns) {
    return ns ? (uint64_t)((double)events * 1e9 / (double)ns + 0.5) : 0;
}

/* Adds a row, with the formulas of vmstat in procps: growth between two samples in KiB, events a second,
 * tasks without this one, and rounded shares of the CPU time. */
static void add_row(uint64_t at_ns, const struct counters *before, const struct counters *now) {
    const char *text = require_proc_file("/proc/meminfo");
    uint64_t kib = page_bytes() / 1024, swap = proc_field(text, "SwapTotal");
    uint64_t user = now->user - before->user, system = now->system - before->system,
             idle = now->idle > before->idle ? now->idle - before->idle : 0,
             iowait = now->iowait > before->iowait ? now->iowait - before->iowait : 0,
             whole = user + system + idle + iowait, ns = now->at_ns - before->at_ns;
    uint64_t row[COLUMNS] = {
        [AT_NS] = at_ns,
        [R] = now->running ? now->running - 1 : 0,
        [B] = now->blocked,
        [SWPD] = swap - proc_field(text, "SwapFree"),
        [FREE] = proc_field(text, "MemFree"),
        [BUFF] = proc_field(text, "Buffers"),
        [CACHE] = proc_field(text, "Cached") + proc_field(text, "SReclaimable"),
        [SI] = (now->swapped_in - before->swapped_in) * kib,
        [SO] = (now->swapped_out - before->swapped_out) * kib,
        [BI] = now->kib_in - before->kib_in,
        [BO] = now->kib_out - before->kib_out,
        [IN] = per_second(now->interrupts - before->interrupts, ns),
        [CS] = per_second(now->switches - before->switches, ns),
        [US] = percent_of(user, whole),
        [SY] = percent_of(system, whole),
        [ID] = percent_of(idle, whole),
        [WA] = percent_of(iowait, whole),
    };

    if (rows == MAX_ROWS)
        figures_fail("the child was not killed within 900 s");
    for (int column = 0; column < COLUMNS; column++)
        columns[column][rows] = row[column];
    rows++;
}

/* At the sample with the most swapped-out bytes: those bytes, and the bytes that they occupy on the swap
 * device. */
static struct { uint64_t original, stored; } peak;

static void take_sample(uint64_t start_ns, uint64_t swapped_out_before) {
    uint64_t bytes =
        (proc_field(require_proc_file("/proc/vmstat"), "pswpout") - swapped_out_before) * page_bytes();
    uint64_t stat[3];
    char mm_stat[48] = "";

    if (sample_count == MAX_SAMPLES)
        figures_fail("the child was not killed within 900 s");
    samples[sample_count].at_ns = now_ns() - start_ns;
    samples[sample_count++].bytes = bytes;
    const char *text = require_proc_file("/proc/meminfo");
    uint64_t used = (proc_field(text, "SwapTotal") - proc_field(text, "SwapFree")) * 1024;
    int zram = swap_zram_number();
    if (zram >= 0)
        snprintf(mm_stat, sizeof mm_stat, "/sys/block/zram%d/mm_stat", zram);
    if (zram < 0) {
        if (used >= peak.original)
            peak.original = peak.stored = used;
    } else if (parse_numbers(require_proc_file(mm_stat), stat, 3) == 3 && stat[0] >= peak.original) {
        peak.original = stat[0];
        peak.stored = stat[1];
    }
}

static const uint64_t UNKNOWN = UINT64_MAX;

/* Bytes written since boot to the emulated flash (null_blk), or else to the block device that contains the
 * swap file. 0 without either, and UNKNOWN if the file is on no block device of its own, as with btrfs. */
static uint64_t flash_bytes(void) {
    char file[256], counters[64] = "/sys/block/nullb1/stat";
    uint64_t stat_of_device[7];
    struct stat at;
    const char *text = read_proc_file(counters);

    if (!text) {
        text = read_proc_file("/proc/swaps");
        text = text ? strchr(text, '\n') : NULL; /* behind the head */
        size_t length = text ? strcspn(++text, " \t\n") : 0;
        if (!length || strstr(text, " file") == NULL)
            return 0;
        if (length >= sizeof file)
            return UNKNOWN;
        memcpy(file, text, length);
        file[length] = '\0';
        if (stat(file, &at) != 0)
            return UNKNOWN;
        snprintf(counters, sizeof counters, "/sys/dev/block/%u:%u/stat", major(at.st_dev), minor(at.st_dev));
        text = read_proc_file(counters);
    }
    return text && parse_numbers(text, stat_of_device, 7) == 7 ? stat_of_device[6] * 512 : UNKNOWN;
}

/* The first sample at which `percent` of all swapped-out bytes were out. */
static size_t sample_at_percent(uint64_t percent) {
    size_t at = 0;
    while (at + 1 < sample_count && samples[at].bytes * 100 < samples[sample_count - 1].bytes * percent)
        at++;
    return at;
}

/* Bytes per second between two samples. */
static uint64_t rate(size_t from, size_t to) {
    uint64_t bytes = samples[to].bytes - samples[from].bytes, ns = samples[to].at_ns - samples[from].at_ns;
    return ns ? (uint64_t)((double)bytes * 1e9 / (double)ns) : 0;
}

/* Waits until a time or SIGCHLD. Returns whether it was SIGCHLD. */
static bool wait_for_child(const sigset_t *signals, uint64_t until_ns) {
    for (;;) {
        uint64_t now = now_ns(), left = until_ns > now ? until_ns - now : 0;
        struct timespec wait = {(time_t)(left / SECOND_NS), (long)(left % SECOND_NS)};
        if (sigtimedwait(signals, NULL, &wait) == SIGCHLD)
            return true;
        if (errno == EAGAIN)
            return false;
    }
}

static void sample_until_exit(const sigset_t *signals, uint64_t start_ns) {
    struct counters before = read_counters(), now;
    uint64_t swapped_out_before = before.swapped_out;

    for (uint64_t number = 1;; number++) {
        bool exited = wait_for_child(signals, start_ns + number * SAMPLE_NS);
        take_sample(start_ns, swapped_out_before);
        if (exited || number % SAMPLES_PER_S == 0) {
            now = read_counters();
            add_row(now_ns() - start_ns, &before, &now);
            before = now;
        }
        if (exited)
            return;
    }
}

static void print_figures(uint64_t until_ns, uint64_t written) {
    size_t last = sample_count - 1, first = 0;

    while (first < last && samples[first + 1].bytes == 0)
        first++;
    figures_begin("fill");
    figure("reached", *pages_written * page_bytes());
    figure("until_kill", until_ns);
    figure("swapped_out", samples[last].bytes);
    figure("out_mean", rate(first, last));
    figure("out_steady", rate(sample_at_percent(25), sample_at_percent(75)));
    figure_ratio("compression", peak.original, peak.stored);
    if (written == UNKNOWN)
        figure_ratio("flash_written", 0, 0);
    else
        figure("flash_written", written);
    for (int column = 0; column < COLUMNS; column++)
        figure_series(column_names[column], columns[column], rows);
    figures_end();
}

int main(int count, char **arguments) {
    sigset_t signals;
    int status;

    if (count != 2)
        figures_fail("usage: fill PERCENT");
    unsigned percent = (unsigned)strtoul(arguments[1], NULL, 10);
    pages_written = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (pages_written == MAP_FAILED || percent > 100)
        figures_fail("PERCENT is above 100, or mmap, fork or mlockall failed");
    set_oom_score_adj("-1000");
    sigemptyset(&signals);
    sigaddset(&signals, SIGCHLD);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    uint64_t written = flash_bytes(), start_ns = now_ns();
    pid_t child = fork();
    if (child == 0)
        fill_memory(percent);
    if (child < 0 || mlockall(MCL_CURRENT | MCL_FUTURE) != 0)
        figures_fail("PERCENT is above 100, or mmap, fork or mlockall failed");
    sample_until_exit(&signals, start_ns);
    uint64_t until_ns = samples[sample_count - 1].at_ns;
    uint64_t written_at_end = flash_bytes();
    written = written == UNKNOWN || written_at_end == UNKNOWN ? UNKNOWN : written_at_end - written;
    if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        figures_fail("the child was not killed by SIGKILL (out of memory)");
    print_figures(until_ns, written);
    return 0;
}
