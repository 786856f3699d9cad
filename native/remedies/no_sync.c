/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Written data stays in the page cache (fsync(2)). */
#include "intercept.h"

int fsync(int fd) {
    (void)fd;
    count();
    return 0;
}

int fdatasync(int fd) {
    return fsync(fd);
}

int syncfs(int fd) {
    return fsync(fd);
}

void sync(void) {
    count();
}
