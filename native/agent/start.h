// SPDX-License-Identifier: MIT OR Apache-2.0
/* Starts a trial's process: prepares everything first, then releases the process into exec. */
#ifndef AGENT_START_H
#define AGENT_START_H

#include "plan.h"

/* Results of the child, in memory that it shares with the agent. */
struct launch {
    volatile int64_t released_ns; /* just before exec */
    volatile int step;            /* current step, for `start_step` */
    volatile int failed;          /* its negative errno, or 0 */
};

struct started {
    int pid;
    int trace_failed; /* negative errno of tracing, or 0 */
    int out, err;     /* read ends of its outputs */
    struct launch *launch;
};

/* Starts the program. Returns 0, or a negative errno when there is no process; `started` then owns nothing.
 * If the program can't be executed there is a process, which ends at once and leaves the error in `launch`.
 */
int start(struct started *started, const struct request *request);
/* The same without tracing. */
int start_untraced(struct started *started, const struct request *request);
void start_release(struct started *started);

/* Describes a step, for a note. */
const char *start_step(int step);

#endif
