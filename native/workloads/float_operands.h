// SPDX-License-Identifier: MIT OR Apache-2.0
/* Operands of the suite `float`. The parameter of its workloads is the kind of operands:
 *
 *     exact      small integers or short fractions, so that no operation rounds
 *     inexact    random numbers that use all bits of the significand, so that nearly every operation rounds
 *
 * A processor's floating-point unit takes the same number of instructions for both. The functions of libgcc
 * that replace such a unit don't: they shift, normalize and round as the operands need it. */
#ifndef SWAPSTONE_FLOAT_OPERANDS_H
#define SWAPSTONE_FLOAT_OPERANDS_H

#include "harness.h"

enum { INEXACT, EXACT }; /* `size` of a parameter */

/* An integer from 1 to 8. */
static inline double exact_operand(uint32_t *random) {
    return (double)(1 + (next_random(random) >> 16) % 8);
}

/* A random number between 0.5 and 1.5 with 52 bits after the point. */
static inline double inexact_operand(uint32_t *random) {
    uint32_t high = next_random(random) >> 6, low = next_random(random) >> 6;
    return 0.5 + ((double)high * 67108864.0 + (double)low) / 4503599627370496.0;
}

static inline double next_operand(uint32_t *random) {
    return parameter->size == EXACT ? exact_operand(random) : inexact_operand(random);
}

static inline uint64_t float_bits(float number) {
    union {
        float number;
        uint32_t bits;
    } either = {number};
    return either.bits;
}

static inline uint64_t double_bits(double number) {
    union {
        double number;
        uint64_t bits;
    } either = {number};
    return either.bits;
}

#define EXACT_AND_INEXACT(row, operations)                                                                   \
    {.argument = "exact", .name = row "(exact)", .ops = (operations), .size = EXACT},                        \
        {.argument = "inexact", .name = row "(inexact)", .ops = (operations), .size = INEXACT}, {            \
        0                                                                                                    \
    }

#endif
