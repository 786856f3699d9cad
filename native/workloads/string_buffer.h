// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by b_string_memset, b_string_strchr and b_string_strlen: a buffer of 500000 bytes. */
#ifndef SWAPSTONE_STRING_BUFFER_H
#define SWAPSTONE_STRING_BUFFER_H

#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { BUFFER_SIZE = 500000, BUFFER_ROUNDS = 100 };

static inline char *allocate_buffer(void) {
    char *buffer = malloc(BUFFER_SIZE);
    if (!buffer)
        fail("malloc failed");
    return buffer;
}

#endif
