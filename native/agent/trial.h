/* A trial: a process from its start to its answer, and everything that it starts. */
#ifndef AGENT_TRIAL_H
#define AGENT_TRIAL_H

#include "answer.h"
#include "plan.h"

/* Why the agent itself must end, or that it may go on. */
enum agent_state { AGENT_GOES_ON, AGENT_ASKED_TO_END, AGENT_UNHEARD };

/* Runs one trial and fills its answer, which stays valid until the next call. No process of the trial is
 * left, except those that the agent may not kill or the kernel can't end; a note counts them. */
enum agent_state run_trial(const struct request *request, int signal_fd, const struct answer **answer);

#endif
