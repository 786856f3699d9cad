// SPDX-License-Identifier: MIT OR Apache-2.0
/* The reference program: the same work in every session, without a C library, input, output or files. By how
 * much its figures differ between two sessions bounds what the session itself changes
 * (src/swapstone/core/comparison/session_effect.py). A change of this file makes earlier records
 * incomparable.
 *
 * It writes 2 MiB for the first time (page faults), follows a random cycle through it (caches, translation),
 * multiplies (the pipeline), and makes system calls.
 */
#include "../port/arch.h"

enum {
    WORDS = 1 << 19, /* of 4 bytes */
    STEPS = 200000,
    PRODUCTS = 2000000,
    CALLS = 5000,
};

static volatile uint32_t words[WORDS];

__asm__(ARCH_ENTRY);

void port_start(long *stack);

void port_start(long *stack) {
    uint32_t at = 0, product = 1;
    (void)stack;
    for (uint32_t i = 0; i < WORDS; i++) /* full period: Hull and Dobell (1962), for a power of two */
        words[i] = (i * 1664525u + 1013904223u) & (WORDS - 1);
    for (int i = 0; i < STEPS; i++)
        at = words[at];
    for (int i = 0; i < PRODUCTS; i++)
        product = product * 2654435761u + at;
    for (int i = 0; i < CALLS; i++)
        arch_syscall(NR_GETPPID, 0, 0, 0, 0, 0, 0);
    words[0] = product;
    for (;;)
        arch_syscall(NR_EXIT_GROUP, 0, 0, 0, 0, 0, 0);
}
