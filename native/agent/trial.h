// SPDX-License-Identifier: MIT OR Apache-2.0
/* A trial: a process from its start to its answer, and everything that it starts. */
#ifndef AGENT_TRIAL_H
#define AGENT_TRIAL_H

#include "answer.h"
#include "plan.h"

/* Whether the agent continues, and if not, why. */
enum agent_state { AGENT_CONTINUES, AGENT_TERMINATED, AGENT_OUTPUT_CLOSED };

/* Opens the files that every trial reads. */
void begin_trials(void);

/* Does what the next trial needs and can be done before its request is complete. The request will be filled
 * in this memory, which children share. */
void prepare_trial(const struct request *request);

/* Runs one trial and fills its answer, which stays valid until the next call. No process of the trial is
 * left, except those that the agent may not kill or that the kernel can't end; a note counts them. */
enum agent_state run_trial(const struct request *request, int signal_fd, const struct answer **answer);

#endif
