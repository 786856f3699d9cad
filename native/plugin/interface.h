// SPDX-License-Identifier: MIT OR Apache-2.0
/* What differs between the versions of QEMU's plugin interface. */
#ifndef SWAPSTONE_INTERFACE_H
#define SWAPSTONE_INTERFACE_H

#include "qemu_plugin.h"

/* Call it first, with the version that QEMU supports. */
void interface_start(int version);

/* Numbers that are 0 when the machine begins, for its one mode. Call find_counters() before each translation:
 * QEMU has no place for them before the machine has its processor. */
enum { MOST_COUNTERS = 8 };
extern uint64_t *counters;
void find_counters(void);

/* Each execution of an instruction adds to one of these numbers, before it. */
void count_each_time(struct qemu_plugin_insn *instruction, const uint64_t *counter, uint64_t summand);

/* Returns the bytes of an instruction; valid until the next call. */
const unsigned char *code_of(const struct qemu_plugin_insn *instruction);

#endif
