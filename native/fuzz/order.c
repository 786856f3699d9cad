// SPDX-License-Identifier: MIT OR Apache-2.0
#include "order.h"

#include <setjmp.h>
#include <stdlib.h>
#include <string.h>

#define port_main guest_main /* its functions are static, so the file is included */
#include "../guest/init.c"
#undef port_main

static jmp_buf stopped;

_Noreturn void port_stop_machine(bool failed) {
    (void)failed;
    longjmp(stopped, 1);
}

void port_tcdrain(int fd) {
    (void)fd;
}

long port_write(int fd, const void *data, size_t size) {
    (void)fd, (void)data;
    return (long)size;
}

bool read_order(const uint8_t *data, size_t size) {
    static const char header[] = ORDER_HEADER "\n";
    char *order = malloc(size + 1), *at = order, *text;
    volatile bool whole = false;

    memcpy(order, data, size);
    order[size] = 0;
    if (setjmp(stopped) == 0) {
        const char *lines = text_after(order, header);
        if (lines) {
            take_number(&lines, "layout ");
            take_number(&lines, "idle-ns ");
            take_number(&lines, "delay-ns ");
            take_number(&lines, "limit-ms ");
            take_number(&lines, "settle-ms ");
            at += lines - order;
            while ((text = take_line(&at, "write ")))
                write_file(text);
            while (take_text(&at, "prepare "))
                ;
            while (take_text(&at, "beside "))
                ;
            whole = at <= order + size;
            if (!whole)
                abort();
        }
    }
    free(order);
    return whole;
}
