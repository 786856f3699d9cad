// SPDX-License-Identifier: MIT OR Apache-2.0
/* As stamp.c, without a C library: the time of its start is that of its first instructions. The file must
 * exist; in a FIFO, one run's line follows the other's. */
#include "../native/agent/text.h"
#include "../native/port/port.h"

int port_main(int count, char **arguments) {
    char bytes[64];
    struct text line = {bytes, sizeof bytes, 0, false};

    long long begin = port_now_ns();

    text_format(&line, "%lld %lld\n", begin, (long long)port_now_ns());
    return count > 1 ? -port_write_file(arguments[1], text_end(&line)) : 1;
}
