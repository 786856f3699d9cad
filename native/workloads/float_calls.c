// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls four functions of two floats 100000 times: a sum, a difference, a product and a quotient, each with
 * the result of the one before as its first argument and a constant as its second. An operation is one such
 * loop. The published page on soft, softfp and hard: its only program, with its numbers (exact), and the same
 * with numbers that are no binary fractions (inexact). The page compiles it without -O; so does its part of
 * the study.
 *
 * The parameter is the kind of operands, see float_operands.h. */
#include "float_functions.h"
#include "float_operands.h"

enum { OUTER = 100, INNER = 1000 };

/* Each kind of operands has its own loop, because the page's numbers are literals. The start is read in each
 * loop, so that no loop can be left out. */
#define PASS(name, start, added, subtracted, factor, divisor)                                                \
    static uint64_t name(void) {                                                                             \
        volatile float first = start;                                                                        \
        float result = 0;                                                                                    \
        for (int outer = 0; outer < OUTER; outer++)                                                          \
            for (int inner = 0; inner < INNER; inner++) {                                                    \
                result = sum(first, added);                                                                  \
                result = difference(result, subtracted);                                                     \
                result = product(result, factor);                                                            \
                result = quotient(result, divisor);                                                          \
            }                                                                                                \
        return float_bits(result);                                                                           \
    }

PASS(exact_pass, 1.0f, 2.5f, 1.5f, 2.5f, 5.0f)
PASS(inexact_pass, 1.1f, 2.7f, 1.3f, 2.3f, 5.3f)

static const struct parameter operands[] = {
    {.argument = "exact", .name = "float_calls(exact)", .ops = OUTER * INNER, .pass = exact_pass},
    {.argument = "inexact", .name = "float_calls(inexact)", .ops = OUTER * INNER, .pass = inexact_pass},
    {0},
};

WORKLOAD(.mode = WARM, .parameters = operands);
