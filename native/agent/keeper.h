// SPDX-License-Identifier: MIT OR Apache-2.0
/* The keeper: the agent's parent process. It waits for the worker process and cleans up after it. */
#ifndef AGENT_KEEPER_H
#define AGENT_KEEPER_H

/* Forks. Returns 0 in the worker, and a negative errno when there is none. The keeper does not return: when
 * the worker has ended, it kills the worker's descendants and exits with the worker's status, or with 5 if
 * the worker was killed. The worker gets SIGTERM when the keeper dies. So processes of a trial survive only
 * if both are killed. */
int split_from_keeper(void);

#endif
