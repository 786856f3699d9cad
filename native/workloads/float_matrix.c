// SPDX-License-Identifier: MIT OR Apache-2.0
/* The product of two matrices of 24 x 24 doubles, ten times. An operation is a product and a sum. Not from a
 * published benchmark.
 *
 * The parameter is the kind of operands, see float_operands.h. */
#include "float_operands.h"

enum { SIDE = 24, REPEATS = 10 };

static double left[SIDE][SIDE], right[SIDE][SIDE], result[SIDE][SIDE];

static void prepare(void) {
    uint32_t random = 1;
    for (int row = 0; row < SIDE; row++)
        for (int column = 0; column < SIDE; column++) {
            left[row][column] = next_operand(&random);
            right[row][column] = next_operand(&random);
        }
}

static uint64_t pass(void) {
    uint64_t check = FNV1A_OFFSET_BASIS;
    for (int repeat = 0; repeat < REPEATS; repeat++) {
        for (int row = 0; row < SIDE; row++)
            for (int column = 0; column < SIDE; column++) {
                double sum = 0;
                for (int i = 0; i < SIDE; i++)
                    sum += left[row][i] * right[i][column];
                result[row][column] = sum;
            }
        compiler_barrier();
    }
    for (int i = 0; i < SIDE; i++)
        check = fnv1a_number(check, double_bits(result[i][SIDE - 1 - i]));
    return check;
}

static const struct parameter operands[] = {EXACT_AND_INEXACT("float_matrix", SIDE *SIDE *SIDE *REPEATS)};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = operands);
