// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls a mathematical function on 1000 numbers between 0 and 32, 100 times. Not from a published benchmark.
 *
 * The parameter is the name of the function: exp, log, pow (to the power of 1.7) or sin. */
#include "harness.h"

#include <math.h>

enum { NUMBERS = 1000, REPEATS = 100 };

static double numbers[NUMBERS]; /* between 0 and 32, both excluded */

static void prepare(void) {
    uint32_t random = 1;
    for (size_t i = 0; i < NUMBERS; i++)
        numbers[i] = ((double)next_random(&random) + 1.0) / 134217728.5;
}

/* C libraries may differ in the last bit of a result, so the checksum is nine digits of the mean. */
static uint64_t nine_digits(double sum) {
    double mean = fabs(sum / (NUMBERS * REPEATS));
    while (mean >= 1e9)
        mean /= 10;
    while (mean < 1e8)
        mean *= 10;
    return (uint64_t)(mean + 0.5);
}

/* Each function has its own loop, so that the compiler emits a direct call. */
#define PASS(function, expression)                                                                           \
    static uint64_t function##_pass(void) {                                                                  \
        double sum = 0;                                                                                      \
        for (int repeat = 0; repeat < REPEATS; repeat++) {                                                   \
            for (size_t i = 0; i < NUMBERS; i++)                                                             \
                sum += expression;                                                                           \
            compiler_barrier();                                                                              \
        }                                                                                                    \
        return nine_digits(sum);                                                                             \
    }

PASS(exp, exp(numbers[i]))
PASS(log, log(numbers[i]))
PASS(pow, pow(numbers[i], 1.7))
PASS(sin, sin(numbers[i]))

#define FUNCTION(function)                                                                                   \
    { .argument = #function, .name = "math_" #function, .ops = NUMBERS * REPEATS, .pass = function##_pass }

static const struct parameter functions[] = {FUNCTION(exp), FUNCTION(log), FUNCTION(pow), FUNCTION(sin), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .parameters = functions);
