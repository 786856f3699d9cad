/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Of objects that replace mmap. */
#include "intercept.h"
#include <stdint.h>

static void *map(void *at, size_t size, int use, int flags, int fd, off_t from) {
    return (void *)syscall(SYS_mmap, at, size, use, flags, fd, from);
}

static int is_plain(void *at, int use, int flags) {
    return !at && use == (PROT_READ | PROT_WRITE) && flags == (MAP_PRIVATE | MAP_ANONYMOUS);
}
