/* Search 259998 times the letter a, and a b, for a regular expression, in the C locale. The parameter numbers
 * the expression. */
#include "harness.h"

#include <regex.h>
#include <string.h>

enum { HAY_SIZE = 260000 };

static uint64_t pass(void) {
    char hay[HAY_SIZE];
    regex_t expression;
    memset(hay, 'a', HAY_SIZE - 2);
    hay[HAY_SIZE - 2] = 'b';
    hay[HAY_SIZE - 1] = 0;
    if (regcomp(&expression, parameter->text, REG_EXTENDED) != 0)
        fail("regcomp failed");
    if (regexec(&expression, hay, 0, NULL, 0) != 0)
        fail("regexec found nothing");
    regfree(&expression);
    return HAY_SIZE;
}

static const struct parameter expressions[] = {
    {.argument = "1", .name = "b_regex_search", .ops = 1, .text = "(a|b|c)*d*b"},
    {.argument = "2", .name = "b_regex_search#2", .ops = 1, .text = "a{25}b"},
    {0},
};

WORKLOAD(.mode = FRESH, .pass = pass, .parameters = expressions);
