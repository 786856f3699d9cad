/* Search 50 times for a needle in 10000 copies of it, of which only the last is whole. The parameter names
 * the needle. */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { COPIES = 10000, SEARCHES = 50 };

static uint64_t pass(void) {
    const char *needle = parameter->text;
    size_t length = strlen(needle);
    char *hay = malloc(length * COPIES + 1);
    if (!hay)
        fail("malloc failed");
    for (size_t i = 0; i < COPIES; i++) {
        memcpy(hay + i * length, needle, length);
        hay[i * length + length - 1] ^= 1;
    }
    hay[length * COPIES - 1] ^= 1;
    hay[length * COPIES] = 0;
    uint64_t found = 0;
    for (int i = 0; i < SEARCHES; i++) {
        hay[0] ^= 1;
        found += (uint64_t)(strstr(hay, needle) - hay);
    }
    free(hay);
    return found;
}

#define NEEDLE(label, whole)                                                                                 \
    { .argument = label, .name = "b_string_strstr(" label ")", .ops = 1, .text = whole }

static const struct parameter needles[] = {
    NEEDLE("abcd", "abcdefghijklmnopqrstuvwxyz"),
    NEEDLE("azby", "azbycxdwevfugthsirjqkplomn"),
    NEEDLE("ac", "aaaaaaaaaaaaaacccccccccccc"),
    NEEDLE("aaac", "aaaaaaaaaaaaaaaaaaaaaaaaac"),
    NEEDLE("aaaaac", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaac"),
    {0},
};

WORKLOAD(.mode = FRESH, .pass = pass, .parameters = needles);
