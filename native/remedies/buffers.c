/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Streams whose buffer a program sets have 64 KiB (setvbuf(3)). */
#include "intercept.h"
#include <stdio.h>

int setvbuf(FILE *file, char *buffer, int mode, size_t size) {
    (void)buffer, (void)mode, (void)size;
    count();
    return NEXT(setvbuf)(file, NULL, _IOFBF, 1 << 16);
}

void setbuf(FILE *file, char *buffer) {
    setvbuf(file, buffer, _IOFBF, 0);
}

void setbuffer(FILE *file, char *buffer, size_t size) {
    setvbuf(file, buffer, _IOFBF, size);
}

void setlinebuf(FILE *file) {
    setvbuf(file, NULL, _IOLBF, 0);
}
