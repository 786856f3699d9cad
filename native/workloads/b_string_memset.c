/* Set 500000 bytes 100 times, each time from one byte further on, with another value. */
#include "buffer.h"

static uint64_t pass(void) {
    char *buffer = take_buffer();
    for (int i = 0; i < BUFFER_ROUNDS; i++)
        memset(buffer + i, i, (size_t)(BUFFER_SIZE - i));
    uint64_t check = (unsigned char)buffer[0] + (unsigned char)buffer[BUFFER_ROUNDS / 2] * 256u;
    check += (unsigned char)buffer[BUFFER_SIZE - 1] * 65536u;
    free(buffer);
    return check;
}

WORKLOAD(.name = "b_string_memset", .mode = FRESH, .ops = 1, .pass = pass);
