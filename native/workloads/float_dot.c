// SPDX-License-Identifier: MIT OR Apache-2.0
/* The dot product of two vectors of 500 floats, 200 times. An operation is a product and a sum. Not from a
 * published benchmark.
 *
 * The parameter is the kind of operands, see float_operands.h. Exact sums stay below 2^24. */
#include "float_operands.h"

enum { ELEMENTS = 500, REPEATS = 200 };

static float left[ELEMENTS], right[ELEMENTS];

static void prepare(void) {
    uint32_t random = 1;
    for (int i = 0; i < ELEMENTS; i++) {
        left[i] = (float)next_operand(&random);
        right[i] = (float)next_operand(&random);
    }
}

static uint64_t pass(void) {
    uint64_t check = FNV1A_OFFSET_BASIS;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        float sum = 0;
        for (int i = 0; i < ELEMENTS; i++)
            sum += left[i] * right[i];
        check = fnv1a_number(check, float_bits(sum));
        compiler_barrier();
    }
    return check;
}

static const struct parameter operands[] = {EXACT_AND_INEXACT("float_dot", ELEMENTS *REPEATS)};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = operands);
