// SPDX-License-Identifier: MIT OR Apache-2.0
/* Converts 150000 characters of two, three and four bytes with one mbstowcs(), 50 times. libc-bench has a row
 * b_utf8_bigbuf with another text; the published comparison does not have it. */
#include "utf8_text.h"

#include <stdlib.h>

enum { ROUNDS = 50 };

static unsigned char text[UTF8_SIZE];
static wchar_t wide[CHARACTERS + 1];

static void prepare(void) {
    set_utf8_locale();
    make_utf8(text);
}

static uint64_t pass(void) {
    uint64_t check = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (mbstowcs(wide, (const char *)text, CHARACTERS + 1) != CHARACTERS)
            fail("mbstowcs can't convert the text");
        compiler_barrier();
        check += (uint64_t)wide[CHARACTERS - 1];
    }
    return check;
}

WORKLOAD(.name = "utf8_bigbuf", .mode = WARM, .ops = ROUNDS, .prepare = prepare, .pass = pass);
