/* Arithmetic on doubles: products and quotients in an array, a polynomial, and functions of the mathematical
 * library. 30000 rounds. */
#include "tasks.h"

#include <math.h>

enum { ROUNDS = 30000, ELEMENTS = 4, DIGITS = 100000000 };

static double polynomial(double x) {
    static const double factors[] = {0.25, -0.5, 0.125, 0.75, -0.0625};
    double value = 0;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        value = value * x + factors[i];
    return value;
}

/* Adds and takes away in turn, and divides by 2: the elements stay below 4 in size. */
static void turn(double *elements) {
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
        turn(elements);
        sum += fabs(elements[0]) + fabs(elements[3]) / (1.0 + x);
        sum += fabs(polynomial(x));
        sum += sin(x) * cos(x) + atan(x) + sqrt(exp(log(1.0 + x) / 2.0));
        compiler_barrier();
    }
    /* C libraries may differ in the last place of a function, so nine digits of the mean are kept. */
    return (uint64_t)(sum / ROUNDS * DIGITS + 0.5);
}

static uint64_t pass(void) {
    return in_tasks(work);
}

static const struct parameter tasks[] = {ONE_AND_EIGHT("floating_point", ROUNDS)};

WORKLOAD(.mode = WARM, .pass = pass, .parameters = tasks);
