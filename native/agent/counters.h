// SPDX-License-Identifier: MIT OR Apache-2.0
/* What a server has used so far, summed over its processes and threads. Two of these are subtracted. */
#ifndef AGENT_COUNTERS_H
#define AGENT_COUNTERS_H

#include "observe.h"

struct counters {
    int64_t cpu_ns, user_ticks, system_ticks, minflt, majflt; /* includes threads that have ended */
    int64_t nvcsw, nivcsw;                                    /* of existing threads */
    int64_t rss_bytes, peak_bytes;
    int64_t processes, threads;
    bool whole; /* everything could be read */
};

/* Counts all descendants of the agent: a server and what it started, including reparented processes. */
void count_server(struct counters *counters);

/* Sets the facts of a window from the counters at its two ends. */
void set_window_facts(struct facts *facts, const struct counters *before, const struct counters *after);

#endif
