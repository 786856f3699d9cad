// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Stacks of calls of all threads of an arm64 machine: which calls have not returned.
 *
 * A call leaves its return address in a register, and the called function need not store it. So calls are
 * followed by the flow of control: BL and BLR call, and the code behind them is where they return to. A
 * return ends the last call that returns to where it arrives, and all calls after that. A return to
 * anywhere else is ignored.
 *
 * A thread is recognised by the structure from which the kernel's function cpu_switch_to() loads the return
 * address of the next thread, and into which it stores that of the last one (arch/arm64/kernel/entry.S).
 * Each has a stack of calls in the kernel and one in user code.
 *
 * In user code, longjmp and the unwinding of exceptions leave calls without returns. A function that calls
 * others stores its return address on the stack. It ends the calls whose address was stored at that place or
 * below it.
 *
 * An exception that interrupts the kernel may come between a return and where it arrives. So exceptions are
 * on the stack of calls, too.
 */
#ifndef SWAPSTONE_LINK_STACKS_H
#define SWAPSTONE_LINK_STACKS_H

#include "shadow_stacks.h"

/* Each of the following that returns a number returns the path of the code that is executed next. */

/* The block `site` ended with a call that will return to an address. */
uint32_t links_called(uint64_t returns_to, uint32_t site, extend_path extend);
/* A block ended with a return. links_arrived() has where it arrives. */
void links_returning(void);
/* A block begins at an address. */
uint32_t links_arrived(uint64_t address);

/* User code stored its return address on the stack. */
uint32_t links_stored(uint64_t address, extend_path extend);

/* An exception or a system call of user code, whose handler has a path. */
void links_enter_kernel(uint32_t path);
void links_leave_kernel(void);
/* An exception that interrupts the kernel, and the return from it. */
void links_begin_exception(void);
void links_end_exception(void);

/* The kernel stores the state of the current thread at an address, and loads that of the next one. The next
 * return is in that thread. */
void links_leave_thread(uint64_t address);
void links_enter_thread(uint64_t address);

/* The current thread has a new program. */
void links_execute(void);

#endif
