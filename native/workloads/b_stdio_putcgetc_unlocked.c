// SPDX-License-Identifier: MIT OR Apache-2.0
/* Writes 5000000 bytes to a temporary file with putc_unlocked() and reads them back with getc_unlocked().
 * Each byte is one call: see __NO_INLINE__ in harness.h. libc-bench: b_stdio_putcgetc_unlocked. */
#include "harness.h"

#include <stdio.h>

enum { BYTES = 5000000 };

static uint64_t pass(void) {
    uint64_t sum = 0;
    FILE *file = tmpfile();
    if (!file)
        fail("tmpfile failed");
    for (int i = 0; i < BYTES; i++)
        putc_unlocked('x', file);
    if (fseek(file, 0, SEEK_SET) != 0)
        fail("fseek failed");
    for (int i = 0; i < BYTES; i++)
        sum += (uint64_t)getc_unlocked(file);
    fclose(file);
    return sum;
}

WORKLOAD(.name = "b_stdio_putcgetc_unlocked", .mode = FRESH, .ops = 1, .pass = pass);
