// SPDX-License-Identifier: MIT OR Apache-2.0
/* Writes the times of its start and end, so that a benchmark can measure the time of a tool between two runs. */
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static long long now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000ll + now.tv_nsec;
}

int main(int count, char **arguments) {
    char line[64];
    long long begin = now_ns();
    int file = count > 1 ? open(arguments[1], O_WRONLY | O_CREAT | O_APPEND, 0644) : -1;
    if (file < 0)
        return 1;
    int length = snprintf(line, sizeof line, "%lld %lld\n", begin, now_ns());
    return write(file, line, (size_t)length) == length ? 0 : 1;
}
