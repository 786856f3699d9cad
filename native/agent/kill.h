// SPDX-License-Identifier: MIT OR Apache-2.0
/* Kills processes of a trial, and never the agent. */
#ifndef AGENT_KILL_H
#define AGENT_KILL_H

/* Sends SIGKILL to a process, and to all processes of a group. The group is left out if it is the agent's
 * own, as that of a child that has not called setsid yet; or if it is 0 or 1, to which kill(2) gives other
 * meanings. A process is left out if it is the agent itself, the first process of the system, or no process.
 */
void kill_with_group(int pid, int group);

#endif
