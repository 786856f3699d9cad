// SPDX-License-Identifier: MIT OR Apache-2.0
/* The keeper: the agent's parent process. It waits for the worker process and cleans up after it. */
#ifndef AGENT_KEEPER_H
#define AGENT_KEEPER_H

/* Forks. Returns 0 in the worker, and a negative errno when there is none. The keeper does not return: when
 * the worker has ended, it kills the worker's descendants and exits with the worker's status, or with 5 if
 * the worker was killed. When the agent is to end, because of a signal or because the reader of its standard
 * output is gone, the keeper kills a worker that does not end in time: one that a debugger holds. The worker
 * gets SIGTERM when the keeper dies. So processes of a trial survive only if both are killed or held. */
int split_from_keeper(void);

#endif
