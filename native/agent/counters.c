// SPDX-License-Identifier: MIT OR Apache-2.0
#include "counters.h"

enum { MOST_PROCESSES = 1024, USER_HZ = 100 }; /* a tick of /proc/PID/stat: include/asm-generic/param.h */
enum { TICK_NS = 1000000000 / USER_HZ };
/* Of the ended children of one process, 52 days; the sum of all processes in nanoseconds stays below 2^62. */
static const int64_t MOST_TICKS = INT64_MAX / 2 / TICK_NS / MOST_PROCESSES;

static int processes[MOST_PROCESSES];
static int found;
static bool too_many;

static void add_process(int pid, int group) {
    (void)group;
    if (found == MOST_PROCESSES)
        too_many = true;
    else
        processes[found++] = pid;
}

static bool add_field(const char *stat, int number, int64_t *sum) {
    int64_t value;
    bool read = stat_field(stat, number, &value);
    if (read)
        *sum += value;
    return read;
}

/* Adds a number of /proc/PID/status: "NAME:", a tab, spaces. The lines Vm* are missing in a thread that has
 * just ended. */
static bool add_status(const char *status, const char *name, int64_t scale, int64_t *sum) {
    int64_t number;
    bool read = number_after(status, name, &number);
    if (read)
        *sum += number * scale;
    return read;
}

static bool count_threads(struct counters *counters, int pid) {
    static char entries[8192] __attribute__((aligned(8))), status[8192];
    int fd = open_proc_file(pid, "task");
    bool whole = fd >= 0;
    long size;

    while (fd >= 0 && (size = port_getdents(fd, entries, sizeof entries)) > 0) {
        for (size_t at = 0; at < (size_t)size;) {
            const char *name = port_next_dirent(entries, &at);
            int64_t thread;
            /* /proc/TID exists, although /proc does not list it. */
            if (!text_number(&name, &thread) || *name)
                continue;
            if (!read_text(open_proc_file((int)thread, "status"), status, sizeof status))
                continue; /* it has just ended */
            whole &= add_status(status, "\nvoluntary_ctxt_switches:", 1, &counters->sums[COUNT_NVCSW]);
            whole &= add_status(status, "\nnonvoluntary_ctxt_switches:", 1, &counters->sums[COUNT_NIVCSW]);
            counters->sums[COUNT_THREADS]++;
        }
    }
    close_file(&fd);
    return whole;
}

static bool count_process(struct counters *counters, int pid) {
    enum { MINFLT = 10, CMINFLT, MAJFLT, CMAJFLT, UTIME, STIME, CUTIME, CSTIME };
    static char stat[1024], status[8192];
    int64_t cpu_ns = port_process_cpu_ns(pid), children_ticks = 0;

    if (cpu_ns < 0 || !read_text(open_proc_file(pid, "stat"), stat, sizeof stat) ||
        !read_text(open_proc_file(pid, "status"), status, sizeof status))
        return false;
    bool whole = add_field(stat, MINFLT, &counters->sums[COUNT_MINFLT]) &&
                 add_field(stat, CMINFLT, &counters->sums[COUNT_MINFLT]) &&
                 add_field(stat, MAJFLT, &counters->sums[COUNT_MAJFLT]) &&
                 add_field(stat, CMAJFLT, &counters->sums[COUNT_MAJFLT]) &&
                 add_field(stat, UTIME, &counters->sums[COUNT_USER_TICKS]) &&
                 add_field(stat, CUTIME, &counters->sums[COUNT_USER_TICKS]) &&
                 add_field(stat, STIME, &counters->sums[COUNT_SYSTEM_TICKS]) &&
                 add_field(stat, CSTIME, &counters->sums[COUNT_SYSTEM_TICKS]) &&
                 add_field(stat, CUTIME, &children_ticks) && add_field(stat, CSTIME, &children_ticks);
    if (children_ticks > MOST_TICKS) {
        children_ticks = 0;
        whole = false;
    }
    counters->sums[COUNT_CPU_NS] += cpu_ns + children_ticks * TICK_NS;
    whole &= add_status(status, "\nVmRSS:", 1024, &counters->sums[COUNT_RSS_BYTES]);
    whole &= add_status(status, "\nVmHWM:", 1024, &counters->sums[COUNT_PEAK_BYTES]);
    counters->sums[COUNT_PROCESSES]++;
    return count_threads(counters, pid) && whole;
}

void count_server(struct counters *counters) {
    *counters = (struct counters){.whole = true};
    found = 0;
    too_many = false;
    for_each_child(port_getpid(), add_process);
    for (int i = 0; i < found; i++) { /* `found` grows in the loop */
        counters->whole &= count_process(counters, processes[i]);
        for_each_child(processes[i], add_process);
    }
    counters->whole &= !too_many && found > 0;
}

void set_window_facts(struct facts *facts, const struct counters *before, const struct counters *after) {
    enum { TICK_US = 1000000 / USER_HZ };
    static const struct {
        enum fact fact;
        int64_t scale;
    } rows[COUNTERS] = {
        [COUNT_CPU_NS] = {FACT_SERVER_CPU_NS, 1},
        [COUNT_USER_TICKS] = {FACT_SERVER_USER_US, TICK_US},
        [COUNT_SYSTEM_TICKS] = {FACT_SERVER_SYSTEM_US, TICK_US},
        [COUNT_MINFLT] = {FACT_SERVER_MINFLT, 1},
        [COUNT_MAJFLT] = {FACT_SERVER_MAJFLT, 1},
        [COUNT_NVCSW] = {FACT_SERVER_NVCSW, 1},
        [COUNT_NIVCSW] = {FACT_SERVER_NIVCSW, 1},
        [COUNT_RSS_BYTES] = {FACT_SERVER_RSS_BYTES, 1},
        [COUNT_PEAK_BYTES] = {FACT_SERVER_PEAK_BYTES, 1},
        [COUNT_PROCESSES] = {FACT_SERVER_PROCESSES, 1},
        [COUNT_THREADS] = {FACT_SERVER_THREADS, 1},
    };

    for (int i = 0; i < COUNTERS; i++) {
        int64_t value = after->sums[i] - (i < COUNT_RSS_BYTES ? before->sums[i] : 0);
        if (i >= COUNT_PROCESSES || (before->whole && after->whole && value >= 0))
            fact_set(facts, rows[i].fact, value * rows[i].scale);
    }
}
