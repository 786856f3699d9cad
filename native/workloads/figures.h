// SPDX-License-Identifier: MIT OR Apache-2.0
/* The output of a program that runs once and prints named figures and series: docs/wire.md, section 4. */
#ifndef SWAPSTONE_FIGURES_H
#define SWAPSTONE_FIGURES_H

#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIGURES_BYTES = 1 << 15 };

/* The output, written by figures_end(). */
static struct {
    char bytes[FIGURES_BYTES];
    size_t used;
    int lines;
} figures_out;

/* Prints a message to standard error and exits with status 1. */
static inline _Noreturn void figures_fail(const char *message) {
    fprintf(stderr, "%s\n", message);
    exit(1);
}

/* Appends to the output; the format is printf's. */
__attribute__((format(printf, 1, 2))) static inline void figures_add(const char *format, ...) {
    va_list arguments;
    size_t room = sizeof figures_out.bytes - figures_out.used;
    va_start(arguments, format);
    int size = vsnprintf(figures_out.bytes + figures_out.used, room, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= room)
        figures_fail("the output is longer than 32 KiB");
    for (int i = 0; i < size; i++)
        figures_out.lines += figures_out.bytes[figures_out.used + (size_t)i] == '\n';
    figures_out.used += (size_t)size;
}

/* Begins the output of the program `name`. */
static inline void figures_begin(const char *name) {
    figures_add("swapstone-figures 1\nname %s\n", name);
}

/* Appends one figure. */
static inline void figure(const char *name, uint64_t value) {
    figures_add("figure %s %" PRIu64 "\n", name, value);
}

/* Appends a quotient to three decimals, rounded down, or `-` (unknown) if the divisor is 0. */
static inline void figure_ratio(const char *name, uint64_t dividend, uint64_t divisor) {
    if (divisor == 0) {
        figures_add("figure %s -\n", name);
        return;
    }
    uint64_t whole = dividend / divisor, rest = dividend % divisor;
    figures_add("figure %s %" PRIu64 ".%03" PRIu64 "\n", name, whole, rest * 1000 / divisor);
}

/* Appends one series. All series of a program have the same `count`. */
static inline void figure_series(const char *name, const uint64_t *values, size_t count) {
    figures_add("series %s %zu", name, count);
    for (size_t i = 0; i < count; i++)
        figures_add(" %" PRIu64, values[i]);
    figures_add("\n");
}

/* CRC-32 (IEEE 802.3), as crc32() of zlib. */
static inline uint32_t figures_crc(const char *bytes, size_t size) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* Appends the line `end` and writes the output to standard output. */
static inline void figures_end(void) {
    int lines = figures_out.lines;
    figures_add("end %d ", lines);
    uint32_t crc = figures_crc(figures_out.bytes, figures_out.used - 1);
    figures_add("%08" PRIx32 "\n", crc);
    for (size_t at = 0; at < figures_out.used;) {
        ssize_t size = write(STDOUT_FILENO, figures_out.bytes + at, figures_out.used - at);
        if (size <= 0)
            figures_fail("can't write the figures to standard output");
        at += (size_t)size;
    }
}

/* CLOCK_MONOTONIC. */
static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#endif
