// SPDX-License-Identifier: MIT OR Apache-2.0
/* What a trial inherits from the agent and from the machine: processors, priority, limits. A program that
 * changes them in its parent changes all later trials. */
#ifndef AGENT_CONDITIONS_H
#define AGENT_CONDITIONS_H

#include "observe.h"

/* Reads the conditions of the agent's start, with which `observe_conditions` compares. */
void begin_conditions(void);
/* Sets the facts from FACT_AGENT_CPUS to FACT_CHANGED_CONDITIONS. */
void observe_conditions(struct facts *facts);

#endif
