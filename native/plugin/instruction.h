// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * What the plugin needs to know of an instruction, from its bytes. Sources of the encodings: Intel 64 and
 * IA-32 Architectures Software Developer's Manual, volume 2; Arm Architecture Reference Manual for A-profile,
 * C4.1.
 */
#ifndef SWAPSTONE_INSTRUCTION_H
#define SWAPSTONE_INSTRUCTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum architecture { X86_64, ARM64, OTHER_ARCHITECTURE };

/* Returns the architecture of QEMU's name of a target. */
enum architecture architecture_of(const char *target);

/* Where control goes behind an instruction of arm64. */
enum flow {
    FLOW_OTHER,
    FLOW_CALL,             /* the return address is in X30 */
    FLOW_RETURN,           /* to the address in a register */
    FLOW_EXCEPTION_RETURN, /* to the interrupted code */
};

enum flow flow_of(const unsigned char *code, size_t size);

/* Returns whether an instruction of arm64 loads or stores X30, the link register. `on_stack` is set to
 * whether that is relative to SP. */
bool moves_link(const unsigned char *code, size_t size, bool *on_stack);

/* Return whether an instruction of x86_64 calls a function and stores the return address, or returns by
 * loading it.
 */
bool is_call(const unsigned char *code, size_t size);
bool is_return(const unsigned char *code, size_t size);

/* Returns whether an instruction of x86_64 has all its bytes. */
bool is_complete(const unsigned char *code, size_t size);

/* Returns whether an instruction of x86_64 is a string operation that REP repeats. Each turn of it counts as
 * an instruction, and one more that finds the count 0. */
bool repeats(const unsigned char *code, size_t size);

/* Returns false only for instructions that end without an exception: they access no memory, and all code may
 * execute them. */
bool may_fault(enum architecture architecture, const unsigned char *code, size_t size);

#endif
