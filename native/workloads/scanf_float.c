// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads 500 decimal numbers with sscanf(), ten times. Not from a published benchmark. */
#include "float_texts.h"

static char texts[FLOATS][FLOAT_TEXT_BYTES];

static void prepare(void) {
    make_texts(texts);
}

static uint64_t pass(void) {
    uint64_t check = 0;
    for (size_t i = 0; i < FLOATS * REPEATS; i++) {
        double number;
        if (sscanf(texts[i % FLOATS], "%lf", &number) != 1)
            fail("sscanf can't read %s", texts[i % FLOATS]);
        check = add_bits(check, number);
    }
    return check;
}

WORKLOAD(.name = "scanf_float", .mode = WARM, .ops = FLOATS * REPEATS, .prepare = prepare, .pass = pass);
