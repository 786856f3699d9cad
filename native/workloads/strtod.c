/* Read 500 texts of numbers with strtod, ten times over. */
#include "floats.h"

#include <stdlib.h>

static char texts[FLOATS][FLOAT_TEXT];

static void prepare(void) {
    make_texts(texts);
}

static uint64_t pass(void) {
    uint64_t check = 0;
    for (size_t i = 0; i < FLOATS * READINGS; i++)
        check = add_bits(check, strtod(texts[i % FLOATS], NULL));
    return check;
}

WORKLOAD(.name = "strtod", .mode = WARM, .ops = FLOATS * READINGS, .prepare = prepare, .pass = pass);
