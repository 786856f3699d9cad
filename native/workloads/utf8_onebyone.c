/* Convert the 150000 characters of a text one by one. */
#include "utf8.h"

static unsigned char text[UTF8_SIZE];

static void prepare(void) {
    use_utf8();
    make_utf8(text);
}

static uint64_t pass(void) {
    mbstate_t state = {0};
    uint64_t check = 0;
    size_t left = UTF8_SIZE - 1;
    for (const char *at = (const char *)text; left > 0;) {
        wchar_t character;
        size_t length = mbrtowc(&character, at, left, &state);
        if (length == 0 || length > left)
            fail("mbrtowc did not convert the text");
        at += length;
        left -= length;
        check += (uint64_t)character;
    }
    return check;
}

WORKLOAD(.name = "utf8_onebyone", .mode = WARM, .ops = CHARACTERS, .prepare = prepare, .pass = pass);
