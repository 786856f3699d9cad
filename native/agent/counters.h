// SPDX-License-Identifier: MIT OR Apache-2.0
/* What a server has used so far, summed over its processes and threads. Two of these are subtracted. */
#ifndef AGENT_COUNTERS_H
#define AGENT_COUNTERS_H

#include "observe.h"

enum counter {
    COUNT_CPU_NS, /* this and the next four include threads that have ended */
    COUNT_USER_TICKS,
    COUNT_SYSTEM_TICKS,
    COUNT_MINFLT,
    COUNT_MAJFLT,
    COUNT_NVCSW, /* of existing threads */
    COUNT_NIVCSW,
    COUNT_RSS_BYTES, /* from here on the state at the end of a window, not its growth */
    COUNT_PEAK_BYTES,
    COUNT_PROCESSES, /* these two also if not everything could be read */
    COUNT_THREADS,
    COUNTERS,
};

struct counters {
    int64_t sums[COUNTERS];
    bool whole; /* everything could be read */
};

/* Counts all descendants of the agent: a server and what it started, including reparented processes. */
void count_server(struct counters *counters);

/* Sets the facts of a window from the counters at its two ends. */
void set_window_facts(struct facts *facts, const struct counters *before, const struct counters *after);

#endif
