/* How a trial's process is started: everything is made ready first, then it is released into exec. */
#ifndef AGENT_START_H
#define AGENT_START_H

#include "plan.h"

/* What the child says to its parent, in memory that both see. */
struct launch {
    volatile int64_t released_ns; /* just before exec */
    volatile int step;            /* of `start_step`, the one that is being done */
    volatile int failed;          /* its negative errno, or 0 */
};

struct started {
    int pid;
    int trace_failed; /* negative errno of tracing, or 0 */
    int out, err;     /* the ends that the agent reads */
    struct launch *launch;
};

/* Starts the program. Returns 0, or a negative errno when there is no process; `started` then holds nothing
 * to close. A program that can't be executed is a process too, one that ends at once and says so in `launch`.
 */
int start(struct started *started, const struct request *request);
/* The same, of a program whose end nobody has to look at. */
int start_untraced(struct started *started, const struct request *request);
void start_forget(struct started *started);

/* What was being done when `launch->failed` was set. */
const char *start_step(int step);

#endif
