// SPDX-License-Identifier: MIT OR Apache-2.0
#include "text.h"

#include "../port/port.h"

size_t text_length(const char *text) {
    size_t length = 0;
    while (text[length])
        length++;
    return length;
}

bool text_equal(const char *left, const char *right) {
    const char *rest = text_after(left, right);
    return rest && !*rest;
}

const char *text_after(const char *text, const char *start) {
    while (*start)
        if (*text++ != *start++)
            return NULL;
    return text;
}

bool text_number(const char **text, int64_t *number) {
    const char *at = *text;
    int64_t value = 0;

    if (*at < '0' || *at > '9' || (at[0] == '0' && at[1] >= '0' && at[1] <= '9'))
        return false;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10, &value) || __builtin_add_overflow(value, *at - '0', &value))
            return false;
    *text = at;
    *number = value;
    return true;
}

int text_digit(char digit, char ten) {
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    return digit >= ten && digit <= ten + 5 ? digit - ten + 10 : -1;
}

uint32_t crc_add(uint32_t crc, const char *bytes, size_t size) { /* reflected, eight bits at a time */
    static uint32_t table[256];

    for (uint32_t i = 0; !table[255] && i < 256; i++) {
        uint32_t value = i;
        for (int bit = 0; bit < 8; bit++)
            value = value >> 1 ^ (value & 1 ? 0xedb88320 : 0);
        table[i] = value;
    }
    for (size_t i = 0; i < size; i++)
        crc = crc >> 8 ^ table[(crc ^ (unsigned char)bytes[i]) & 255];
    return crc;
}

void text_add(struct text *text, const char *more) {
    for (; *more; more++) {
        if (text->used + 1 >= text->room) {
            text->full = true;
            return;
        }
        text->bytes[text->used++] = *more;
    }
}

static void add_number(struct text *text, int64_t number) {
    char digits[24];
    size_t at = sizeof digits;
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;

    digits[--at] = 0;
    do {
        digits[--at] = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (number < 0)
        digits[--at] = '-';
    text_add(text, digits + at);
}

void text_add_list(struct text *text, const char *format, va_list values) {
    for (; *format; format++) {
        char plain[2] = {*format, 0};
        if (*format != '%') {
            text_add(text, plain);
        } else if (*++format == 's') {
            text_add(text, va_arg(values, const char *));
        } else if (*format == 'd') {
            add_number(text, va_arg(values, int));
        } else { /* %lld */
            add_number(text, va_arg(values, long long));
            format += 2;
        }
    }
}

void text_format(struct text *text, const char *format, ...) {
    va_list values;

    va_start(values, format);
    text_add_list(text, format, values);
    va_end(values);
}

const char *text_end(struct text *text) {
    text->bytes[text->used] = 0;
    return text->bytes;
}

void text_print(text_put *put, const char *format, ...) {
    char bytes[8192];
    struct text text = {bytes, sizeof bytes, 0, false};
    va_list values;

    va_start(values, format);
    text_add_list(&text, format, values);
    va_end(values);
    put(text.bytes, text.used);
}

static bool is_plain(unsigned char byte) {
    return byte > ' ' && byte < 0x7f && byte != '%';
}

bool text_decode(char *text) {
    char *to = text;

    if (text_equal(text, "%")) {
        *text = 0;
        return true;
    }
    if (!*text)
        return false;
    for (const char *from = text; *from; from++) {
        if (is_plain((unsigned char)*from)) {
            *to++ = *from;
            continue;
        }
        int high = *from == '%' ? text_digit(from[1], 'A') : -1;
        int low = high < 0 ? -1 : text_digit(from[2], 'A');
        if (low < 0 || high * 16 + low == 0 || is_plain((unsigned char)(high * 16 + low)))
            return false;
        *to++ = (char)(high * 16 + low);
        from += 2;
    }
    *to = 0;
    return true;
}

void text_encode(const char *bytes, size_t size, text_put *put) {
    static const char digits[] = "0123456789ABCDEF";
    char encoded[3 * 256];
    size_t used = 0;

    if (size == 0)
        put("%", 1);
    for (size_t i = 0; i < size; i++) {
        unsigned char byte = (unsigned char)bytes[i];
        if (is_plain(byte)) {
            encoded[used++] = (char)byte;
        } else {
            encoded[used++] = '%';
            encoded[used++] = digits[byte >> 4];
            encoded[used++] = digits[byte & 15];
        }
        if (used + 3 > sizeof encoded || i + 1 == size) {
            put(encoded, used);
            used = 0;
        }
    }
}

enum line_result next_line(struct lines *lines, char **line) {
    size_t looked = lines->start;

    for (;;) {
        for (; looked < lines->end; looked++) {
            if (lines->bytes[looked] == '\n') {
                *line = lines->bytes + lines->start;
                lines->bytes[looked] = 0;
                lines->start = looked + 1;
                return LINE;
            }
        }
        if (lines->start > 0) { /* move the rest to the front */
            __builtin_memmove(lines->bytes, lines->bytes + lines->start, lines->end - lines->start);
            looked -= lines->start;
            lines->end -= lines->start;
            __builtin_memset(lines->bytes + lines->end, 0, lines->start); /* no copy of a nonce is left */
            lines->start = 0;
        }
        if (lines->end == lines->room)
            return LINE_TOO_LONG;
        if (lines->wait && !lines->wait(lines->fd))
            return LINE_STOPPED;
        long size = port_read(lines->fd, lines->bytes + lines->end, lines->room - lines->end);
        if (size < 0)
            return LINE_FAILED;
        if (size == 0)
            return lines->end ? LINE_UNFINISHED : LINE_NONE;
        lines->end += (size_t)size;
    }
}
