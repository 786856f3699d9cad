// SPDX-License-Identifier: MIT OR Apache-2.0
/* Calls strchr() 100 times for a character that is the last of 499999. One byte near the start changes before
 * each call. libc-bench: b_string_strchr. */
#include "string_buffer.h"

static uint64_t pass(void) {
    char *buffer = allocate_buffer();
    uint64_t found = 0;
    memset(buffer, 'a', BUFFER_SIZE);
    buffer[BUFFER_SIZE - 2] = 'b';
    buffer[BUFFER_SIZE - 1] = 0;
    for (int i = 0; i < BUFFER_ROUNDS; i++) {
        buffer[i] = (char)('0' + i % 8);
        found += (uint64_t)(strchr(buffer, 'b') - buffer);
    }
    free(buffer);
    return found;
}

WORKLOAD(.name = "b_string_strchr", .mode = FRESH, .ops = 1, .pass = pass);
