// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Reads the bytes of an instruction of x86_64 in hexadecimal from each line. Prints whether it is complete,
 * whether REP repeats it, and whether it may fault; then whether it may as one of arm64, and of an
 * architecture that is not known.
 */
#include "instruction.h"

#include <stdio.h>
#include <stdlib.h>

/* Returns bytes, exactly as long as the code, so a sanitizer finds what reads beyond it. */
static unsigned char *bytes_of(const char *digits, size_t *size) {
    unsigned char *code = malloc(16);
    *size = 0;
    for (unsigned byte; *size < 16 && sscanf(digits, "%2x", &byte) == 1; digits += 2)
        code[(*size)++] = (unsigned char)byte;
    return realloc(code, *size ? *size : 1);
}

int main(void) {
    char digits[64];
    while (scanf("%63s", digits) == 1) {
        size_t size;
        unsigned char *code = bytes_of(digits, &size);
        printf("%d %d %d %d %d\n", is_complete(code, size), repeats(code, size),
               may_fault(X86_64, code, size), may_fault(ARM64, code, size),
               may_fault(OTHER_ARCHITECTURE, code, size));
        free(code);
    }
    return 0;
}
