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
            whole &= add_status(status, "\nvoluntary_ctxt_switches:", 1, &counters->nvcsw);
            whole &= add_status(status, "\nnonvoluntary_ctxt_switches:", 1, &counters->nivcsw);
            counters->threads++;
        }
    }
    if (fd >= 0)
        port_close(fd);
    return whole;
}

static bool count_process(struct counters *counters, int pid) {
    enum { MINFLT = 10, CMINFLT, MAJFLT, CMAJFLT, UTIME, STIME, CUTIME, CSTIME };
    static char stat[1024], status[8192];
    int64_t cpu_ns = port_process_cpu_ns(pid), children_ticks = 0;

    if (cpu_ns < 0 || !read_text(open_proc_file(pid, "stat"), stat, sizeof stat) ||
        !read_text(open_proc_file(pid, "status"), status, sizeof status))
        return false;
    bool whole =
        add_field(stat, MINFLT, &counters->minflt) && add_field(stat, CMINFLT, &counters->minflt) &&
        add_field(stat, MAJFLT, &counters->majflt) && add_field(stat, CMAJFLT, &counters->majflt) &&
        add_field(stat, UTIME, &counters->user_ticks) && add_field(stat, CUTIME, &counters->user_ticks) &&
        add_field(stat, STIME, &counters->system_ticks) && add_field(stat, CSTIME, &counters->system_ticks) &&
        add_field(stat, CUTIME, &children_ticks) && add_field(stat, CSTIME, &children_ticks);
    if (children_ticks > MOST_TICKS) {
        children_ticks = 0;
        whole = false;
    }
    counters->cpu_ns += cpu_ns + children_ticks * TICK_NS;
    whole &= add_status(status, "\nVmRSS:", 1024, &counters->rss_bytes);
    whole &= add_status(status, "\nVmHWM:", 1024, &counters->peak_bytes);
    counters->processes++;
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

static void set_growth(struct facts *facts, enum fact fact, int64_t before, int64_t after, int64_t scale) {
    if (after >= before)
        fact_set(facts, fact, (after - before) * scale);
}

void set_window_facts(struct facts *facts, const struct counters *before, const struct counters *after) {
    enum { TICK_US = 1000000 / USER_HZ };

    fact_set(facts, FACT_SERVER_PROCESSES, after->processes);
    fact_set(facts, FACT_SERVER_THREADS, after->threads);
    if (!before->whole || !after->whole)
        return;
    set_growth(facts, FACT_SERVER_CPU_NS, before->cpu_ns, after->cpu_ns, 1);
    set_growth(facts, FACT_SERVER_USER_US, before->user_ticks, after->user_ticks, TICK_US);
    set_growth(facts, FACT_SERVER_SYSTEM_US, before->system_ticks, after->system_ticks, TICK_US);
    set_growth(facts, FACT_SERVER_MINFLT, before->minflt, after->minflt, 1);
    set_growth(facts, FACT_SERVER_MAJFLT, before->majflt, after->majflt, 1);
    set_growth(facts, FACT_SERVER_NVCSW, before->nvcsw, after->nvcsw, 1);
    set_growth(facts, FACT_SERVER_NIVCSW, before->nivcsw, after->nivcsw, 1);
    fact_set(facts, FACT_SERVER_RSS_BYTES, after->rss_bytes);
    fact_set(facts, FACT_SERVER_PEAK_BYTES, after->peak_bytes);
}
