// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the UTF-8 workloads: a locale, and a text of sequences of two, three and four bytes in turn. */
#ifndef SWAPSTONE_UTF8_TEXT_H
#define SWAPSTONE_UTF8_TEXT_H

#include "harness.h"

#include <locale.h>
#include <wchar.h>

enum { THIRD = 50000, CHARACTERS = 3 * THIRD, UTF8_SIZE = 9 * THIRD + 1 };

/* Sequences of two bytes encode U+0080..U+07FF, of three U+0800..U+D7FF (below the surrogates), of four
 * U+10000 and above. */
static inline void make_utf8(unsigned char *text) {
    for (uint32_t i = 0; i < THIRD; i++) {
        uint32_t two = 0x80 + i % 0x780, three = 0x800 + i % 0xd000, four = 0x10000 + i;
        *text++ = (unsigned char)(0xc0 | two >> 6);
        *text++ = (unsigned char)(0x80 | (two & 63));
        *text++ = (unsigned char)(0xe0 | three >> 12);
        *text++ = (unsigned char)(0x80 | (three >> 6 & 63));
        *text++ = (unsigned char)(0x80 | (three & 63));
        *text++ = (unsigned char)(0xf0 | four >> 18);
        *text++ = (unsigned char)(0x80 | (four >> 12 & 63));
        *text++ = (unsigned char)(0x80 | (four >> 6 & 63));
        *text++ = (unsigned char)(0x80 | (four & 63));
    }
    *text = 0;
}

static inline void set_utf8_locale(void) {
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        fail("the locale C.UTF-8 is not installed");
}

#endif
