/* Compile an extended regular expression 1000 times, in the C locale. */
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
