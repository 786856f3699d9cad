/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What a program maps itself, whole mappings only: those that it unmaps are given to the next request of
 * their size, cleared. MADV_DONTNEED frees nothing. */
#include "mappings.h"
#include <pthread.h>
#include <string.h>

enum { MOST = 256, LARGEST = 32 << 20 };
enum { UNUSED, MAPPED, SHARED, KEPT };
static struct {
    char *at;
    size_t size;
    int state;
} all[MOST];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

/* Change the state of the first mapping like these, with any address or size if it is 0. Return its number,
 * or -1. */
static int change(int state, char *at, size_t size, int to) {
    int i = 0;

    pthread_mutex_lock(&mutex);
    while (i < MOST && (all[i].state != state || (at && all[i].at != at) || (size && all[i].size != size)))
        i++;
    if (i < MOST)
        all[i].state = to;
    pthread_mutex_unlock(&mutex);
    return i < MOST ? i : -1;
}

static void forget(char *at, size_t size) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MOST; i++)
        if (all[i].state != UNUSED && all[i].at < at + size && at < all[i].at + all[i].size)
            all[i].state = UNUSED;
    pthread_mutex_unlock(&mutex);
}

static void add(char *at, size_t size, int state) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MOST; i++)
        if (all[i].state == UNUSED) {
            all[i].at = at, all[i].size = size, all[i].state = state;
            break;
        }
    pthread_mutex_unlock(&mutex);
}

void *mmap(void *at, size_t size, int use, int flags, int fd, off_t from) {
    int plain = is_plain(at, use, flags), shared = !at && (flags & MAP_TYPE) == MAP_SHARED, i;

    if (at)
        forget(at, size);
    if (plain && size <= LARGEST && (i = change(KEPT, NULL, size, MAPPED)) >= 0)
        return memset(all[i].at, 0, size);
    char *found = map(at, size, use, flags, fd, from);
    if (found != MAP_FAILED && (plain || shared) && size && size <= LARGEST)
        add(found, size, plain ? MAPPED : SHARED);
    return found;
}

void *mmap64(void *at, size_t size, int use, int flags, int fd, off_t from) {
    return mmap(at, size, use, flags, fd, from);
}

int munmap(void *at, size_t size) {
    if (change(MAPPED, at, size, KEPT) >= 0) {
        count();
        return 0;
    }
    forget(at, size);
    return (int)syscall(SYS_munmap, at, size);
}

int mprotect(void *at, size_t size, int use) {
    forget(at, size);
    return (int)syscall(SYS_mprotect, at, size, use);
}

void *mremap(void *at, size_t size, size_t wanted, int flags, ...) {
    void *to = NULL;

    if (flags & MREMAP_FIXED) {
        __builtin_va_list more;
        __builtin_va_start(more, flags);
        to = __builtin_va_arg(more, void *);
        __builtin_va_end(more);
        forget(to, wanted);
    }
    forget(at, size);
    return (void *)syscall(SYS_mremap, at, size, wanted, flags, to);
}

int madvise(void *at, size_t size, int advice) {
    int mine = advice == MADV_DONTNEED && change(MAPPED, at, size, MAPPED) >= 0;
    /* The content of a shared mapping would come back from the file. */
    int shared = advice == MADV_DONTNEED && change(SHARED, at, size, SHARED) >= 0;

    if (mine || shared)
        count();
    if (mine)
        memset(at, 0, size);
    return mine || shared ? 0 : (int)syscall(SYS_madvise, at, size, advice);
}
