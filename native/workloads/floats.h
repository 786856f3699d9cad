/* What the workloads on the text of floating-point numbers share: numbers of many magnitudes, and their
 * texts. */
#ifndef SWAPSTONE_FLOATS_H
#define SWAPSTONE_FLOATS_H

#include "harness.h"

#include <stdio.h>
#include <string.h>

enum { FLOATS = 500, READINGS = 10, FLOAT_TEXT = 32 };

static inline void make_floats(double *numbers) {
    static const double scales[] = {1e-150, 1e-9, 1e-3, 1, 1e6, 1e15, 1e200};
    uint32_t random = 1;
    for (size_t i = 0; i < FLOATS; i++)
        numbers[i] =
            ((double)next_random(&random) - 2147483648.0) * scales[i % (sizeof scales / sizeof *scales)];
}

/* Seventeen digits: enough to give back the very number, and as many as a reader will meet. */
static inline void make_texts(char texts[][FLOAT_TEXT]) {
    double numbers[FLOATS];
    make_floats(numbers);
    for (size_t i = 0; i < FLOATS; i++)
        snprintf(texts[i], FLOAT_TEXT, "%.17g", numbers[i]);
}

/* Add the bits of a number to a checksum: a reader that is off by one unit in the last place did other work.
 */
static inline uint64_t add_bits(uint64_t check, double number) {
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return check * 31 + bits;
}

#endif
