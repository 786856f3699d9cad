// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls memset() 100 times on a buffer of 500000 bytes. Each call has another value, and starts one byte
 * further. libc-bench: b_string_memset. */
#include "string_buffer.h"

static uint64_t pass(void) {
    char *buffer = allocate_buffer();
    for (int i = 0; i < BUFFER_ROUNDS; i++)
        memset(buffer + i, i, (size_t)(BUFFER_SIZE - i));
    uint64_t check = (unsigned char)buffer[0] + (unsigned char)buffer[BUFFER_ROUNDS / 2] * 256u;
    check += (unsigned char)buffer[BUFFER_SIZE - 1] * 65536u;
    free(buffer);
    return check;
}

WORKLOAD(.name = "b_string_memset", .mode = FRESH, .ops = 1, .pass = pass);
