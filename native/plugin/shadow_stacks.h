// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Shadow stacks of all threads of an x86_64 machine: which calls have not returned.
 *
 * A call stores its return address, and a return loads it. The address of that store tells which stack it is
 * on, and how deep. A call or a return at an address ends every call at a lower address of the same stack; so
 * longjmp and the unwinding of exceptions are followed at the next call or return.
 *
 * A thread is recognised by its kernel stack, which the kernel aligns to its size (THREAD_SIZE, 16 KiB). User
 * code runs on the user stacks of the thread that was last on a kernel stack. They are told apart by the
 * distance of addresses. So processes whose stacks have equal addresses are kept apart.
 */
#ifndef SWAPSTONE_SHADOW_STACKS_H
#define SWAPSTONE_SHADOW_STACKS_H

#include <stdbool.h>
#include <stdint.h>

/* Returns the path of a call in the block `site` of code that was itself called by a path. 0 is the path of
 * code without known callers. */
typedef uint32_t (*extend_path)(uint32_t path, uint32_t site);

/* Each of the following returns the path of the code that is executed next. */
uint32_t stacks_called(uint64_t address, uint32_t site, extend_path extend);
/* `known` is set to whether a call stored its return address there. */
uint32_t stacks_returned(uint64_t address, bool *known);
/* The last call has ended without a load of what it stored: the called code had moved its return address. */
uint32_t stacks_leave(void);
/* An exception or a system call in the block `site` of user code. */
uint32_t stacks_enter_kernel(uint32_t site, extend_path extend);
uint32_t stacks_leave_kernel(void);

/* The current thread has a new program. */
void stacks_execute(void);

#endif
