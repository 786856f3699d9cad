// SPDX-License-Identifier: MIT OR Apache-2.0
#include "child.h"

#include "text.h"

union child_room child_room __attribute__((aligned(sizeof child_room)));

static bool read_address(const char **text, uintptr_t *address) {
    const char *at = *text;
    uintptr_t value = 0;

    for (int digit; (digit = text_digit(*at, 'a')) >= 0; at++)
        value = value << 4 | (unsigned)digit;
    bool found = at > *text;
    *text = at;
    *address = value;
    return found;
}

static void keep(uintptr_t start, uintptr_t end) {
    if (start < end)
        port_keep_from_children((void *)start, end - start);
}

/* A line of maps is "START-END PERM ..."; PERM of private memory that can be written is "rw-p". */
void keep_memory_from_children(void) {
    static char bytes[8192];
    struct lines lines = {.fd = port_open_read("/proc/self/maps"), .bytes = bytes, .room = sizeof bytes};
    uintptr_t room = (uintptr_t)&child_room, room_end = room + sizeof child_room, stack = (uintptr_t)&lines;
    char *line;

    if (lines.fd < 0)
        return;
    while (next_line(&lines, &line) == LINE) {
        const char *at = line;
        uintptr_t start, end;
        if (!read_address(&at, &start) || *at++ != '-' || !read_address(&at, &end) ||
            !text_after(at, " rw-p") || (start <= stack && stack < end))
            continue;
        keep(start, end < room ? end : room);
        keep(start > room_end ? start : room_end, end);
    }
    port_close(lines.fd);
}
