// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls strlen() 100 times on a string of 499999 bytes. One byte near the start changes before each call.
 * libc-bench: b_string_strlen. */
#include "string_buffer.h"

static uint64_t pass(void) {
    char *buffer = allocate_buffer();
    uint64_t lengths = 0;
    memset(buffer, 'a', BUFFER_SIZE - 1);
    buffer[BUFFER_SIZE - 1] = 0;
    for (int i = 0; i < BUFFER_ROUNDS; i++) {
        buffer[i] = (char)('0' + i % 8);
        lengths += strlen(buffer);
    }
    free(buffer);
    return lengths;
}

WORKLOAD(.name = "b_string_strlen", .mode = FRESH, .ops = 1, .pass = pass);
