// SPDX-License-Identifier: MIT OR Apache-2.0
/* Compiles an extended regular expression, searches a string of 259998 times a and one b for it, and
 * frees it, in the locale C.
 *
 * The parameter is the number of the expression. libc-bench: 1 is b_regex_search, 2 is its second row. */
#include "harness.h"

#include <regex.h>
#include <string.h>

enum { TEXT_SIZE = 260000 };

static uint64_t pass(void) {
    char text[TEXT_SIZE];
    regex_t expression;
    memset(text, 'a', TEXT_SIZE - 2);
    text[TEXT_SIZE - 2] = 'b';
    text[TEXT_SIZE - 1] = 0;
    if (regcomp(&expression, parameter->text, REG_EXTENDED) != 0)
        fail("regcomp failed");
    if (regexec(&expression, text, 0, NULL, 0) != 0)
        fail("regexec found nothing");
    regfree(&expression);
    return TEXT_SIZE;
}

static const struct parameter expressions[] = {
    {.argument = "1", .name = "b_regex_search", .ops = 1, .text = "(a|b|c)*d*b"},
    {.argument = "2", .name = "b_regex_search#2", .ops = 1, .text = "a{25}b"},
    {0},
};

WORKLOAD(.mode = FRESH, .pass = pass, .parameters = expressions);
