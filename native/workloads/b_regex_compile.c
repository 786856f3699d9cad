// SPDX-License-Identifier: MIT OR Apache-2.0
/* Compiles the extended regular expression (a|b|c)*d*b and frees it, 1000 times, in the locale C.
 * libc-bench: b_regex_compile. */
#include "harness.h"

#include <regex.h>

enum { ROUNDS = 1000 };

static uint64_t pass(void) {
    for (int i = 0; i < ROUNDS; i++) {
        regex_t expression;
        if (regcomp(&expression, "(a|b|c)*d*b", REG_EXTENDED) != 0)
            fail("regcomp failed");
        regfree(&expression);
    }
    return ROUNDS;
}

WORKLOAD(.name = "b_regex_compile", .mode = FRESH, .ops = 1, .pass = pass);
