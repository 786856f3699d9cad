/* What a program prints that is measured once and says named figures and series: docs/wire.md, section 4.
 * Also what the kernel says in /proc and /sys, read without taking memory for it. */
#ifndef SWAPSTONE_FIGURES_H
#define SWAPSTONE_FIGURES_H

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { FIGURES_TEXT = 1 << 15, FIGURES_OUT = 1 << 15 };

static struct {
    char bytes[FIGURES_OUT];
    size_t used;
    int lines;
} figures_out;

static inline _Noreturn void figures_fail(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

__attribute__((format(printf, 1, 2))) static inline void figures_add(const char *format, ...) {
    va_list arguments;
    size_t room = sizeof figures_out.bytes - figures_out.used;
    va_start(arguments, format);
    int size = vsnprintf(figures_out.bytes + figures_out.used, room, format, arguments);
    va_end(arguments);
    if (size < 0 || (size_t)size >= room)
        figures_fail("it has more to say than it has room for");
    for (int i = 0; i < size; i++)
        figures_out.lines += figures_out.bytes[figures_out.used + (size_t)i] == '\n';
    figures_out.used += (size_t)size;
}

static inline void figures_begin(const char *name) {
    figures_add("swapstone-figures 1\nname %s\n", name);
}

static inline void figure(const char *name, uint64_t value) {
    figures_add("figure %s %" PRIu64 "\n", name, value);
}

/* A quotient to three decimals, rounded down; `-` where there is none. */
static inline void figure_ratio(const char *name, uint64_t above, uint64_t below) {
    if (below == 0) {
        figures_add("figure %s -\n", name);
        return;
    }
    uint64_t whole = above / below, rest = above % below;
    figures_add("figure %s %" PRIu64 ".%03" PRIu64 "\n", name, whole, rest * 1000 / below);
}

static inline void figures_series(const char *name, const uint64_t *values, size_t count) {
    figures_add("series %s %zu", name, count);
    for (size_t i = 0; i < count; i++)
        figures_add(" %" PRIu64, values[i]);
    figures_add("\n");
}

/* CRC-32 (IEEE), as zlib's. */
static inline uint32_t figures_crc(const char *bytes, size_t size) {
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < size; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = (crc >> 1) ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

static inline void figures_end(void) {
    int lines = figures_out.lines;
    figures_add("end %d ", lines);
    uint32_t crc = figures_crc(figures_out.bytes, figures_out.used - 1);
    figures_add("%08" PRIx32 "\n", crc);
    for (size_t at = 0; at < figures_out.used;) {
        ssize_t size = write(STDOUT_FILENO, figures_out.bytes + at, figures_out.used - at);
        if (size <= 0)
            figures_fail("its figures can't be written");
        at += (size_t)size;
    }
}

static inline uint64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* A small file's text, in room that the next call takes; NULL where it can't be read. */
static inline const char *read_text(const char *path) {
    static char room[FIGURES_TEXT];
    size_t used = 0;
    ssize_t size;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return NULL;
    while ((size = read(fd, room + used, sizeof room - 1 - used)) > 0)
        used += (size_t)size;
    close(fd);
    room[used] = '\0';
    return size < 0 || used == 0 ? NULL : room;
}

static inline const char *need_text(const char *path) {
    const char *text = read_text(path);
    if (!text)
        figures_fail(path);
    return text;
}

/* The number behind a name at a line's beginning; 0 where there is no such line: a kernel may not count it.
 */
static inline uint64_t number_after(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && (line[length] == ' ' || line[length] == ':'))
            return strtoull(line + length + 1, NULL, 10);
    }
    return 0;
}

/* Numbers of a line, parted by blanks; how many there are. */
static inline size_t numbers_of(const char *text, uint64_t *numbers, size_t most) {
    size_t count = 0;
    char *end;
    while (count < most) {
        uint64_t number = strtoull(text, &end, 10);
        if (end == text)
            break;
        numbers[count++] = number;
        text = end;
    }
    return count;
}

/* A page's content: its number and then so many per cent of random words, the rest zeros. No page is one word
 * over and over: zram would not compress such a page but note the word. */
static inline void fill_page(uint64_t *page, size_t words, uint64_t number, unsigned percent) {
    uint64_t state = (number + 1) * 0x9e3779b97f4a7c15;
    size_t drawn = words * percent / 100;
    page[0] = number + 1;
    for (size_t i = 1; i < drawn; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        page[i] = state;
    }
    for (size_t i = drawn > 1 ? drawn : 1; i < words; i++)
        page[i] = 0;
}
#endif
