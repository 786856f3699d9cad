// SPDX-License-Identifier: MIT OR Apache-2.0
/* The work of float_calls.c with the page's numbers, by the number of loops: each is 1000 rounds of a sum, a
 * difference, a product and a quotient. An operation is one round. The published page draws time against
 * loops.
 *
 * The parameter is the number of loops. */
#include "float_functions.h"
#include "float_operands.h"

enum { ROUNDS = 1000 };

static uint64_t loops_pass(void) {
    volatile float first = 1.0f;
    float result = 0;
    for (size_t loop = 0; loop < parameter->size; loop++)
        for (int round = 0; round < ROUNDS; round++) {
            result = sum(first, 2.5f);
            result = difference(result, 1.5f);
            result = product(result, 2.5f);
            result = quotient(result, 5.0f);
        }
    return float_bits(result);
}

#define LOOPS(number)                                                                                        \
    { .argument = #number, .name = "float_loops(" #number ")", .ops = (number)*ROUNDS, .size = (number) }

static const struct parameter numbers[] = {LOOPS(100), LOOPS(200), LOOPS(400), LOOPS(800), {0}};

WORKLOAD(.mode = WARM, .pass = loops_pass, .parameters = numbers);
