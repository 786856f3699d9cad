// SPDX-License-Identifier: MIT OR Apache-2.0
/* Changes the memory layout of a virtual machine, as an input of a run (docs/virtual-machines.md). */
#ifndef GUEST_LAYOUT_H
#define GUEST_LAYOUT_H

#include <stdint.h>

/* Gives the kernel another layout of its memory. Everything follows from the seed: the random numbers of the
 * kernel (with which its slab allocator shuffles objects), the next process ID, which pages and objects are
 * free, and in which order they are allocated next. Returns 0 or a negative errno. */
int vary_layout(uint64_t seed);

#endif
