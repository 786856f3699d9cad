// SPDX-License-Identifier: MIT OR Apache-2.0
/* 200 steps of z = z * z + c with complex floats for each of 100 points c of the Mandelbrot set, with the
 * test whether |z| is above 2. No point escapes, so each kind of operands takes the same number of steps. An
 * operation is one step. Not from a published benchmark.
 *
 * The parameter is the kind of operands, see float_operands.h. Exact: the points 0, -1, -2, i and -i, whose z
 * are integers. Inexact: points of the disk around -0.1 with the radius 0.25, which lies inside the set. */
#include "float_operands.h"

enum { POINTS = 100, STEPS = 200 };

struct point {
    float real, imaginary;
};

static struct point points[POINTS];

static void prepare(void) {
    static const struct point integers[] = {{0, 0}, {-1, 0}, {-2, 0}, {0, 1}, {0, -1}};
    uint32_t random = 1;
    for (int i = 0; i < POINTS; i++) {
        float x = (float)(inexact_operand(&random) - 1.0), y = (float)(inexact_operand(&random) - 1.0);
        struct point inside = {-0.1f + x * 0.35f, y * 0.35f};
        points[i] = parameter->size == EXACT ? integers[i % 5] : inside;
    }
}

static uint64_t pass(void) {
    uint64_t check = FNV1A_OFFSET_BASIS;
    for (int i = 0; i < POINTS; i++) {
        float real = 0, imaginary = 0, x = points[i].real, y = points[i].imaginary;
        int step = 0;
        for (; step < STEPS && real * real + imaginary * imaginary <= 4.0f; step++) {
            float next = real * real - imaginary * imaginary + x;
            imaginary = 2.0f * real * imaginary + y;
            real = next;
        }
        if (step < STEPS)
            fail("the point %d escaped after %d steps", i, step);
        check = fnv1a_number(fnv1a_number(check, float_bits(real)), float_bits(imaginary));
    }
    return check;
}

static const struct parameter operands[] = {EXACT_AND_INEXACT("float_mandelbrot", POINTS *STEPS)};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = operands);
