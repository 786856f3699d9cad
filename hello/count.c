// SPDX-License-Identifier: MIT OR Apache-2.0
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Counts the different words of standard input. */
int main(void) {
    char line[256];
    char **words = NULL;
    size_t count = 0;
    while (scanf("%255s", line) == 1) {
        size_t i = 0;
        while (i < count && strcmp(words[i], line) != 0)
            i++;
        if (i == count) {
            words = realloc(words, (count + 1) * sizeof *words);
            words[count++] = strdup(line);
        }
    }
    printf("%zu words\n", count);
    return 0;
}
