// SPDX-License-Identifier: MIT OR Apache-2.0
/* Text, numbers and lines, without a C library. */
#ifndef AGENT_TEXT_H
#define AGENT_TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

size_t text_length(const char *text);
bool text_equal(const char *left, const char *right);
/* Returns what follows the prefix `start` in `text`, or NULL if `text` does not begin with it. */
const char *text_after(const char *text, const char *start);

/* Reads decimal digits without a sign and without leading zeros, and advances `text` past them. Returns false
 * if there is no number, or if it is greater than 2^63 - 1. */
bool text_number(const char **text, int64_t *number);

/* Returns the value of a hexadecimal digit, or -1; `ten` is A or a. */
int text_digit(char digit, char ten);

/* CRC-32 of IEEE 802.3, the same as zlib's: begin with CRC_START, add bytes, and invert the result. */
#define CRC_START UINT32_MAX
uint32_t crc_add(uint32_t crc, const char *bytes, size_t size);

/* Text in a buffer of fixed size. `full` is set when something did not fit. */
struct text {
    char *bytes;
    size_t room, used;
    bool full;
};

void text_add(struct text *text, const char *more);
/* Adds what printf would print. The format has no conversions other than %s, %d and %lld. */
void text_add_list(struct text *text, const char *format, va_list values);
void text_format(struct text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Receives a part of a text. */
typedef void text_put(const char *bytes, size_t size);
/* Gives what printf would print, up to 8 KiB, to `put`, at once. */
void text_print(text_put *put, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Terminates the text with a zero byte, for which there is always room, and returns it. */
const char *text_end(struct text *text);

/* Decodes percent-encoded text in place. Returns false if it is not encoded as docs/wire.md specifies, or
 * contains a zero byte. */
bool text_decode(char *text);
/* Encodes `size` bytes, and gives what comes out to `put`, in parts. */
void text_encode(const char *bytes, size_t size, text_put *put);

/* Lines of a file, read into a buffer of fixed size. */
struct lines {
    int fd;
    char *bytes;
    size_t room, start, end;
    /* Called before each read unless NULL. If it returns false, `next_line` returns LINE_STOPPED. */
    bool (*wait)(int fd);
};

enum line_result { LINE, LINE_NONE, LINE_UNFINISHED, LINE_TOO_LONG, LINE_STOPPED, LINE_FAILED };

/* Sets `line` to the next line, zero-terminated and without its newline. It is valid until the next call. */
enum line_result next_line(struct lines *lines, char **line);

#endif
