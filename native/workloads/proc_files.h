// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads files of /proc and /sys without allocating memory. Shared by fill and touch. */
#ifndef SWAPSTONE_PROC_FILES_H
#define SWAPSTONE_PROC_FILES_H

#include "figures.h"

#include <fcntl.h>

enum { PROC_FILE_BYTES = 1 << 15 };

/* Returns the text of a file in a static buffer, which the next call overwrites. Returns NULL if it can't be
 * read or is empty. */
static inline const char *read_proc_file(const char *path) {
    static char buffer[PROC_FILE_BYTES];
    size_t used = 0;
    ssize_t size;
    int fd = open(path, O_RDONLY | O_CLOEXEC);

    if (fd < 0)
        return NULL;
    while ((size = read(fd, buffer + used, sizeof buffer - 1 - used)) > 0)
        used += (size_t)size;
    close(fd);
    buffer[used] = '\0';
    return size < 0 || used == 0 ? NULL : buffer;
}

/* The same, but exits with the path as its message if the file can't be read. */
static inline const char *require_proc_file(const char *path) {
    const char *text = read_proc_file(path);
    if (!text)
        figures_fail(path);
    return text;
}

/* Returns the number of the line "NAME NUMBER" or "NAME: NUMBER". Returns 0 if there is no such line; which
 * counters exist depends on the kernel's configuration. */
static inline uint64_t proc_field(const char *text, const char *name) {
    size_t length = strlen(name);
    for (const char *line = text; line; line = strchr(line, '\n')) {
        line += *line == '\n';
        if (strncmp(line, name, length) == 0 && (line[length] == ' ' || line[length] == ':'))
            return strtoull(line + length + 1, NULL, 10);
    }
    return 0;
}

/* Parses up to `max` numbers, separated by blanks. Returns how many there are. */
static inline size_t parse_numbers(const char *text, uint64_t *numbers, size_t max) {
    size_t count = 0;
    char *end;
    while (count < max) {
        uint64_t number = strtoull(text, &end, 10);
        if (end == text)
            break;
        numbers[count++] = number;
        text = end;
    }
    return count;
}

/* Returns the number of the zram device that is swapped to, or -1 if there is none. */
static inline int swap_zram_number(void) {
    const char *text = read_proc_file("/proc/swaps");
    const char *name = text ? strstr(text, "/zram") : NULL;
    return name ? atoi(name + 5) : -1;
}

#endif
