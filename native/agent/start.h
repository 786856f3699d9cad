// SPDX-License-Identifier: MIT OR Apache-2.0
/* Starts a trial's process in two steps: a process is forked and waits, and is then released. The first step
 * does not depend on the trial, so it is made while the agent waits for a request. */
#ifndef AGENT_START_H
#define AGENT_START_H

#include "observe.h"
#include "plan.h"

/* Results of the child, in memory that it shares with the agent. */
struct launch {
    volatile int64_t released_ns;    /* just before exec */
    volatile int step;               /* current step, for `start_step` */
    volatile int failed;             /* its negative errno, or 0 */
    volatile struct run_times times; /* just before exec */
};

struct started {
    int pid;
    int trace_failed; /* negative errno of tracing, or 0 */
    int out, err;     /* read ends of its outputs */
    int release;      /* write end of the pipe whose byte releases it; negative after that */
    struct task_files files;
    struct launch *launch;
};
#define NOT_STARTED                                                                                          \
    {                                                                                                        \
        .pid = -1, .out = -1, .err = -1, .release = -1, .files = { -1, -1 }                                  \
    }

/* Forks a process that waits for `start`, unless there is one. It will read the request in memory that it
 * shares with the agent, also what is written there later. */
void start_early(const struct request *request);

/* Starts the program: traced, in the waiting process if there is one; or else in a new process, and then the
 * request may be in any memory. Returns 0, or a negative errno when there is no process; `started` then owns
 * nothing. If the program can't be executed there is a process, which ends at once and leaves the error in
 * `launch`. */
int start(struct started *started, const struct request *request, bool traced);

/* Describes a step, for a note. */
const char *start_step(int step);

#endif
