/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a program maps itself may be in huge pages (madvise(2), MADV_HUGEPAGE). */
#include "mappings.h"

enum { HUGE = 2 << 20 };

void *mmap(void *at, size_t size, int use, int flags, int fd, off_t from) {
    void *found = map(at, size, use, flags, fd, from);

    if (found != MAP_FAILED && is_plain(at, use, flags) && size >= HUGE) {
        count();
        syscall(SYS_madvise, found, size, MADV_HUGEPAGE);
    }
    return found;
}

void *mmap64(void *at, size_t size, int use, int flags, int fd, off_t from) {
    return mmap(at, size, use, flags, fd, from);
}

int madvise(void *at, size_t size, int advice) {
    if (advice == MADV_NOHUGEPAGE) {
        count();
        advice = MADV_HUGEPAGE;
    }
    return (int)syscall(SYS_madvise, at, size, advice);
}
