// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads a temporary file of 10000 lines of 0 to 199 bytes with getline(). Each pass allocates and frees the
 * line buffer. Not from a published benchmark. */
#include "harness.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>

enum { LINES = 10000, LONGEST = 199 };

static FILE *file;

static void prepare(void) {
    uint32_t random = 1;
    file = tmpfile();
    if (!file)
        fail("tmpfile failed");
    for (int line = 0; line < LINES; line++) {
        int length = (int)(next_random(&random) >> 16) % (LONGEST + 1);
        if (fprintf(file, "%.*d\n", length, 0) < 0)
            fail("fprintf failed");
    }
    if (fflush(file) != 0)
        fail("fflush failed");
}

static uint64_t pass(void) {
    char *line = NULL;
    size_t room = 0;
    uint64_t check = 0, lines = 0;
    rewind(file);
    for (ssize_t length; (length = getline(&line, &room, file)) >= 0; lines++)
        check += (uint64_t)length;
    free(line);
    if (lines != LINES)
        fail("getline read %llu lines instead of 10000", (unsigned long long)lines);
    return check;
}

WORKLOAD(.name = "getline", .mode = WARM, .ops = LINES, .prepare = prepare, .pass = pass);
