// SPDX-License-Identifier: MIT OR Apache-2.0
/* Prints 200 doubles with snprintf() and "%f", "%e" and "%g". An operation is one call. The work is the C
 * library's, and it is the library's build that decides, not how the workload is compiled. Not from a
 * published benchmark.
 *
 * The parameter is the kind of operands, see float_operands.h. */
#include "float_operands.h"

#include <stdio.h>

static const char *const formats[] = {"%f", "%e", "%g"};

enum { NUMBERS = 200, FORMATS = sizeof formats / sizeof *formats };

static double numbers[NUMBERS];

static void prepare(void) {
    uint32_t random = 1;
    for (int i = 0; i < NUMBERS; i++)
        numbers[i] = next_operand(&random);
}

static uint64_t pass(void) {
    char text[64];
    uint64_t check = FNV1A_OFFSET_BASIS;
    for (int i = 0; i < NUMBERS; i++)
        for (int format = 0; format < FORMATS; format++) {
            int length = snprintf(text, sizeof text, formats[format], numbers[i]);
            if (length < 1 || (size_t)length >= sizeof text)
                fail("snprintf failed");
            for (int at = 0; at < length; at++)
                check = fnv1a_byte(check, (unsigned char)text[at]);
        }
    return check;
}

static const struct parameter operands[] = {EXACT_AND_INEXACT("float_printf", NUMBERS *FORMATS)};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .parameters = operands);
