// SPDX-License-Identifier: MIT OR Apache-2.0
/* Converts 150000 characters of two, three and four bytes with one mbrtowc() each. libc-bench has a row
 * b_utf8_onebyone with another text; the published comparison does not have it. */
#include "utf8_text.h"

static unsigned char text[UTF8_SIZE];

static void prepare(void) {
    set_utf8_locale();
    make_utf8(text);
}

static uint64_t pass(void) {
    mbstate_t state = {0};
    uint64_t check = 0;
    size_t remaining = UTF8_SIZE - 1;
    for (const char *at = (const char *)text; remaining > 0;) {
        wchar_t character;
        size_t length = mbrtowc(&character, at, remaining, &state);
        if (length == 0 || length > remaining)
            fail("mbrtowc can't convert the text");
        at += length;
        remaining -= length;
        check += (uint64_t)character;
    }
    return check;
}

WORKLOAD(.name = "utf8_onebyone", .mode = WARM, .ops = CHARACTERS, .prepare = prepare, .pass = pass);
