/* Text, numbers and lines, without a library. */
#ifndef AGENT_TEXT_H
#define AGENT_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t text_length(const char *text);
bool text_equal(const char *left, const char *right);
/* What follows `start` in `text`, or NULL when `text` doesn't begin with it. */
const char *text_after(const char *text, const char *start);

/* Reads decimal digits (no sign, no needless zero) up to a byte that isn't one. False when there is no
 * number, or it is greater than 2^63 - 1. */
bool text_number(const char **text, int64_t *number);

/* Text that is being put together in a fixed room. What doesn't fit is left out, and `full` says so. */
struct text {
    char *bytes;
    size_t room, used;
    bool full;
};

void text_add(struct text *text, const char *more);
void text_add_number(struct text *text, int64_t number);
/* Ends the text with a zero byte (room is kept for it) and returns it. */
const char *text_end(struct text *text);

/* Replaces percent-encoded text by what it stands for, in place, zero-terminated. False when it isn't encoded
 * as docs/wire.md says, or holds a zero byte. */
bool text_decode(char *text);
/* Writes one byte encoded to `out` (3 bytes of room); returns how many bytes that took. */
size_t text_encode_byte(char *out, unsigned char byte);

/* Lines of a file, read into a fixed room. */
struct lines {
    int fd;
    char *bytes;
    size_t room, start, end;
    /* Called before each read when not NULL; a false answer ends the lines. */
    bool (*wait)(int fd);
};

enum line_result { LINE, LINE_NONE, LINE_UNFINISHED, LINE_TOO_LONG, LINE_STOPPED, LINE_FAILED };

/* Points `line` at the next line, zero-terminated, without its newline; it stays valid until the next call.
 */
enum line_result next_line(struct lines *lines, char **line);

#endif
