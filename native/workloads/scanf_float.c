/* Read 500 texts of numbers with sscanf, ten times over. */
#include "floats.h"

static char texts[FLOATS][FLOAT_TEXT];

static void prepare(void) {
    make_texts(texts);
}

static uint64_t pass(void) {
    uint64_t check = 0;
    for (size_t i = 0; i < FLOATS * READINGS; i++) {
        double number;
        if (sscanf(texts[i % FLOATS], "%lf", &number) != 1)
            fail("sscanf did not read %s", texts[i % FLOATS]);
        check = add_bits(check, number);
    }
    return check;
}

WORKLOAD(.name = "scanf_float", .mode = WARM, .ops = FLOATS * READINGS, .prepare = prepare, .pass = pass);
