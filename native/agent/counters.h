/* What a server has used so far: all its processes and threads together, to be subtracted from each other. */
#ifndef AGENT_COUNTERS_H
#define AGENT_COUNTERS_H

#include "observe.h"

struct counters {
    int64_t cpu_ns, user_ticks, system_ticks, minflt, majflt; /* of threads that have ended too */
    int64_t nvcsw, nivcsw;                                    /* of the threads that are there */
    int64_t rss_bytes, peak_bytes;
    int64_t processes, threads;
    bool whole; /* everything could be read */
};

/* Counts all children of the agent and theirs: a server and what it started, also where it let go of it. */
void count_server(struct counters *counters);

/* The facts of a window, from what was counted at its two ends. */
void facts_of_window(struct facts *facts, const struct counters *before, const struct counters *after);

#endif
