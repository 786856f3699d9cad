// SPDX-License-Identifier: MIT OR Apache-2.0
/* Prints 500 numbers with snprintf() in each of four formats. Not from a published benchmark. */
#include "float_texts.h"

static const char *const formats[] = {"%.6f", "%g", "%e", "%.17g"};

enum { FORMATS = sizeof formats / sizeof *formats };

static double numbers[FLOATS];

static void prepare(void) {
    make_floats(numbers);
}

static uint64_t pass(void) {
    char text[512];
    uint64_t check = 0;
    for (size_t i = 0; i < FLOATS; i++)
        for (size_t format = 0; format < FORMATS; format++) {
            int length = snprintf(text, sizeof text, formats[format], numbers[i]);
            if (length < 1 || (size_t)length >= sizeof text)
                fail("snprintf failed");
            check = check * 31 + (unsigned char)text[length - 1] + 256u * (unsigned char)text[length / 2];
        }
    return check;
}

WORKLOAD(.name = "printf_float", .mode = WARM, .ops = FLOATS * FORMATS, .prepare = prepare, .pass = pass);
