/* Convert a text of 150000 characters at once, 50 times. */
#include "utf8.h"

#include <stdlib.h>

enum { ROUNDS = 50 };

static unsigned char text[UTF8_SIZE];
static wchar_t wide[CHARACTERS + 1];

static void prepare(void) {
    use_utf8();
    make_utf8(text);
}

static uint64_t pass(void) {
    uint64_t check = 0;
    for (int i = 0; i < ROUNDS; i++) {
        if (mbstowcs(wide, (const char *)text, CHARACTERS + 1) != CHARACTERS)
            fail("mbstowcs did not convert the text");
        compiler_barrier();
        check += (uint64_t)wide[CHARACTERS - 1];
    }
    return check;
}

WORKLOAD(.name = "utf8_bigbuf", .mode = WARM, .ops = ROUNDS, .prepare = prepare, .pass = pass);
