// SPDX-License-Identifier: MIT OR Apache-2.0
/* Arithmetic on double: products and quotients in an array, a polynomial, and sin, cos, atan, sqrt, exp and
 * log. One pass is 30000 rounds. UnixBench: Double-Precision Whetstone (other work of the same kind).
 *
 * The parameter is the number of tasks, or of copies (suite `unix`). */
#include "tasks.h"

#include <math.h>

enum { ROUNDS = 30000, ELEMENTS = 4, DIGITS = 100000000 };

static double polynomial(double x) {
    static const double coefficients[] = {0.25, -0.5, 0.125, 0.75, -0.0625};
    double value = 0;
    for (size_t i = 0; i < sizeof coefficients / sizeof *coefficients; i++)
        value = value * x + coefficients[i];
    return value;
}

/* Sums and differences of the elements, halved. The elements stay below 4 in magnitude. */
static void mix(double *elements) {
    for (int i = 0; i < 6; i++) {
        elements[0] = (elements[0] + elements[1] + elements[2] - elements[3]) * 0.5;
        elements[1] = (elements[0] + elements[1] - elements[2] + elements[3]) * 0.5;
        elements[2] = (elements[0] - elements[1] + elements[2] + elements[3]) * 0.5;
        elements[3] = (-elements[0] + elements[1] + elements[2] + elements[3]) / 2.0;
    }
}

static uint64_t work(unsigned task) {
    double sum = 0;
    (void)task;
    for (int round = 0; round < ROUNDS; round++) {
        double x = (double)(round % 97 + 1) / 97.0, elements[ELEMENTS] = {x, -x, 1.0 - x, 0.5};
        mix(elements);
        sum += fabs(elements[0]) + fabs(elements[3]) / (1.0 + x);
        sum += fabs(polynomial(x));
        sum += sin(x) * cos(x) + atan(x) + sqrt(exp(log(1.0 + x) / 2.0));
        compiler_barrier();
    }
    /* C libraries may differ in the last bit of a function, so the checksum is nine digits of the mean. */
    return (uint64_t)(sum / ROUNDS * DIGITS + 0.5);
}

static const struct parameter tasks[] = {ONE_AND_EIGHT_TASKS("floating_point", "floating_point", ROUNDS)};

WORKLOAD(.mode = WARM, .pass = run_in_tasks, .parameters = tasks);
