// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads 500 decimal numbers with strtod(), ten times. Not from a published benchmark. */
#include "float_texts.h"

#include <stdlib.h>

static char texts[FLOATS][FLOAT_TEXT_BYTES];

static void prepare(void) {
    make_texts(texts);
}

static uint64_t pass(void) {
    uint64_t check = 0;
    for (size_t i = 0; i < FLOATS * REPEATS; i++)
        check = add_bits(check, strtod(texts[i % FLOATS], NULL));
    return check;
}

WORKLOAD(.name = "strtod", .mode = WARM, .ops = FLOATS * REPEATS, .prepare = prepare, .pass = pass);
