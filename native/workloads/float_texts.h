// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by printf_float, scanf_float and strtod: numbers of many magnitudes, and their decimal texts. */
#ifndef SWAPSTONE_FLOAT_TEXTS_H
#define SWAPSTONE_FLOAT_TEXTS_H

#include "harness.h"

#include <stdio.h>

enum { FLOATS = 500, REPEATS = 10, FLOAT_TEXT_BYTES = 32 };

static inline void make_floats(double *numbers) {
    static const double scales[] = {1e-150, 1e-9, 1e-3, 1, 1e6, 1e15, 1e200};
    uint32_t random = 1;
    for (size_t i = 0; i < FLOATS; i++)
        numbers[i] =
            ((double)next_random(&random) - 2147483648.0) * scales[i % (sizeof scales / sizeof *scales)];
}

/* 17 significant digits identify a double exactly (DBL_DECIMAL_DIG). */
static inline void make_texts(char texts[][FLOAT_TEXT_BYTES]) {
    double numbers[FLOATS];
    make_floats(numbers);
    for (size_t i = 0; i < FLOATS; i++)
        snprintf(texts[i], FLOAT_TEXT_BYTES, "%.17g", numbers[i]);
}

/* Adds the bits of a number to a checksum: an error of one unit in the last place changes it. */
static inline uint64_t add_bits(uint64_t check, double number) {
    union {
        double number;
        uint64_t bits;
    } value = {.number = number};
    return check * 31 + value.bits;
}

#endif
