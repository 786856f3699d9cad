/* The keeper: the agent's other process. It does nothing but wait for the one that works, and clean up after
 * it. */
#ifndef AGENT_KEEPER_H
#define AGENT_KEEPER_H

/* Splits the agent in two. Returns 0 in the process that is to work, and a negative errno when there can't be
 * one. The keeper doesn't return: when the worker has ended, whoever killed it, it kills whatever that left
 * and ends as the worker did (5 if it was killed). The worker gets SIGTERM when the keeper dies. So it takes
 * two kills to leave a trial's processes behind. */
int split_from_keeper(void);

#endif
