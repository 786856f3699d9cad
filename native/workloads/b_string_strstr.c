// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls strstr() 50 times for a needle at the end of a haystack. The haystack is 10000 copies of the needle;
 * all copies but the last have another last byte.
 *
 * The parameter is a label that stands for the needle. libc-bench: b_string_strstr, one row for each needle.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = 10000, SEARCHES = 50 };

static uint64_t pass(void) {
    const char *needle = parameter->text;
    size_t length = strlen(needle);
    char *haystack = malloc(length * COPIES + 1);
    if (!haystack)
        fail("malloc failed");
    for (size_t i = 0; i < COPIES; i++) {
        memcpy(haystack + i * length, needle, length);
        haystack[i * length + length - 1] ^= 1;
    }
    haystack[length * COPIES - 1] ^= 1;
    haystack[length * COPIES] = 0;
    uint64_t found = 0;
    for (int i = 0; i < SEARCHES; i++) {
        haystack[0] ^= 1;
        found += (uint64_t)(strstr(haystack, needle) - haystack);
    }
    free(haystack);
    return found;
}

#define NEEDLE(label, string)                                                                                \
    { .argument = label, .name = "b_string_strstr(" label ")", .ops = 1, .text = string }

static const struct parameter needles[] = {
    NEEDLE("abcd", "abcdefghijklmnopqrstuvwxyz"),
    NEEDLE("azby", "azbycxdwevfugthsirjqkplomn"),
    NEEDLE("ac", "aaaaaaaaaaaaaacccccccccccc"),
    NEEDLE("aaac", "aaaaaaaaaaaaaaaaaaaaaaaaac"),
    NEEDLE("aaaaac", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"),
    {0},
};

WORKLOAD(.mode = FRESH, .pass = pass, .parameters = needles);
