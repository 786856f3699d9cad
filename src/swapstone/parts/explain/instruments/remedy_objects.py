# SPDX-License-Identifier: MIT OR Apache-2.0
"""Sources in C of the objects that remedies preload. Each replaces functions of the C library, and changes nothing else."""

from __future__ import annotations

NO_DELAY = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
static int set(int fd) {
    int on = 1;
    if (fd >= 0) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}
int socket(int domain, int type, int protocol) {
    int (*next)(int, int, int) = (int (*)(int, int, int))dlsym(RTLD_NEXT, "socket");
    return set(next(domain, type, protocol));
}
int accept(int fd, struct sockaddr *name, socklen_t *length) {
    int (*next)(int, struct sockaddr *, socklen_t *) =
        (int (*)(int, struct sockaddr *, socklen_t *))dlsym(RTLD_NEXT, "accept");
    return set(next(fd, name, length));
}
int accept4(int fd, struct sockaddr *name, socklen_t *length, int flags) {
    int (*next)(int, struct sockaddr *, socklen_t *, int) =
        (int (*)(int, struct sockaddr *, socklen_t *, int))dlsym(RTLD_NEXT, "accept4");
    return set(next(fd, name, length, flags));
}
"""

BUFFERS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static int (*next)(FILE *, char *, int, size_t);
static void find(void) { next = (int (*)(FILE *, char *, int, size_t))dlsym(RTLD_NEXT, "setvbuf"); }
int setvbuf(FILE *file, char *buffer, int mode, size_t size) {
    (void)buffer, (void)mode, (void)size;
    if (!next) find();
    return next(file, NULL, _IOFBF, 1 << 16);
}
void setbuf(FILE *file, char *buffer) { setvbuf(file, buffer, _IOFBF, 0); }
__attribute__((constructor)) static void begin(void) { setvbuf(stdout, NULL, _IOFBF, 0); }
"""

NO_SYNC = """
int fsync(int fd) { (void)fd; return 0; }
int fdatasync(int fd) { (void)fd; return 0; }
int syncfs(int fd) { (void)fd; return 0; }
void sync(void) {}
"""

PAGE_CACHE = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#define CACHED(flags) ((flags) & ~(O_DIRECT | O_SYNC | O_DSYNC))
#define OPEN(name) \\
    int name(const char *path, int flags, ...) { \\
        int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, #name); \\
        va_list more; \\
        va_start(more, flags); \\
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0; \\
        va_end(more); \\
        return next(path, CACHED(flags), mode); \\
    }
#define OPENAT(name) \\
    int name(int at, const char *path, int flags, ...) { \\
        int (*next)(int, const char *, int, ...) = (int (*)(int, const char *, int, ...))dlsym(RTLD_NEXT, #name); \\
        va_list more; \\
        va_start(more, flags); \\
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0; \\
        va_end(more); \\
        return next(at, path, CACHED(flags), mode); \\
    }
#define TEMPORARY(name) \\
    int name(char *path, int flags) { \\
        int (*next)(char *, int) = (int (*)(char *, int))dlsym(RTLD_NEXT, #name); \\
        return next(path, CACHED(flags)); \\
    }
OPEN(open)
OPEN(open64)
OPENAT(openat)
OPENAT(openat64)
TEMPORARY(mkostemp)
TEMPORARY(mkostemp64)
"""

NO_SLEEPS = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <sched.h>
#include <time.h>
#include <unistd.h>
int nanosleep(const struct timespec *length, struct timespec *left) { (void)length, (void)left; sched_yield(); return 0; }
int clock_nanosleep(clockid_t clock, int flags, const struct timespec *when, struct timespec *left) {
    (void)clock, (void)flags, (void)when, (void)left;
    sched_yield();
    return 0;
}
int usleep(useconds_t length) { (void)length; sched_yield(); return 0; }
unsigned sleep(unsigned length) { (void)length; sched_yield(); return 0; }
int poll(struct pollfd *all, nfds_t count, int timeout_ms) {
    int (*next)(struct pollfd *, nfds_t, int) = (int (*)(struct pollfd *, nfds_t, int))dlsym(RTLD_NEXT, "poll");
    if (timeout_ms > 0) sched_yield();
    return next(all, count, timeout_ms > 0 ? 0 : timeout_ms);
}
"""

ROOM_TO_GROW = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <malloc.h>
#include <stddef.h>
void *realloc(void *block, size_t size) {
    static void *(*next)(void *, size_t);
    if (!next) next = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
    if (!block || !size) return next(block, size);
    if (malloc_usable_size(block) >= size) return block;
    void *found = next(block, size + size / 2);
    return found ? found : next(block, size);
}
"""

_MAPPINGS = """
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
static void *map(void *at, size_t size, int use, int flags, int fd, off_t from) {
    return (void *)syscall(SYS_mmap, at, size, use, flags, fd, from);
}
static int is_plain(void *at, int use, int flags) {
    return !at && use == (PROT_READ | PROT_WRITE) && flags == (MAP_PRIVATE | MAP_ANONYMOUS);
}
"""

HUGE_MAPPINGS = (
    _MAPPINGS
    + """
enum { HUGE = 2 << 20 };
void *mmap(void *at, size_t size, int use, int flags, int fd, off_t from) {
    void *found = map(at, size, use, flags, fd, from);
    if (found != MAP_FAILED && is_plain(at, use, flags) && size >= HUGE) syscall(SYS_madvise, found, size, MADV_HUGEPAGE);
    return found;
}
void *mmap64(void *at, size_t size, int use, int flags, int fd, off_t from) { return mmap(at, size, use, flags, fd, from); }
int madvise(void *at, size_t size, int advice) {
    return (int)syscall(SYS_madvise, at, size, advice == MADV_NOHUGEPAGE ? MADV_HUGEPAGE : advice);
}
"""
)

KEPT_MAPPINGS = (
    _MAPPINGS
    + """
/* What the program maps itself, whole mappings only: those that it unmaps are given to the next request of their size, cleared. */
enum { MOST = 256, LARGEST = 32 << 20 };
enum { UNUSED, MAPPED, SHARED, KEPT };
static struct { char *at; size_t size; int state; } all[MOST];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int find(int state, char *at, size_t size) {
    for (int i = 0; i < MOST; i++)
        if (all[i].state == state && (!at || all[i].at == at) && (!size || all[i].size == size)) return i;
    return -1;
}
static void forget(char *at, size_t size) {
    pthread_mutex_lock(&mutex);
    for (int i = 0; i < MOST; i++)
        if (all[i].state != UNUSED && all[i].at < at + size && at < all[i].at + all[i].size)
            all[i].state = UNUSED;
    pthread_mutex_unlock(&mutex);
}
void *mmap(void *at, size_t size, int use, int flags, int fd, off_t from) {
    int plain = is_plain(at, use, flags), shared = !at && (flags & MAP_TYPE) == MAP_SHARED, i;
    if (at) forget(at, size);
    if (plain && size <= LARGEST) {
        pthread_mutex_lock(&mutex);
        i = find(KEPT, NULL, size);
        if (i >= 0) all[i].state = MAPPED;
        pthread_mutex_unlock(&mutex);
        if (i >= 0) return memset(all[i].at, 0, size);
    }
    char *found = map(at, size, use, flags, fd, from);
    if (found != MAP_FAILED && (plain || shared) && size && size <= LARGEST) {
        pthread_mutex_lock(&mutex);
        i = find(UNUSED, NULL, 0);
        if (i >= 0) all[i].at = found, all[i].size = size, all[i].state = plain ? MAPPED : SHARED;
        pthread_mutex_unlock(&mutex);
    }
    return found;
}
void *mmap64(void *at, size_t size, int use, int flags, int fd, off_t from) { return mmap(at, size, use, flags, fd, from); }
int munmap(void *at, size_t size) {
    pthread_mutex_lock(&mutex);
    int i = find(MAPPED, at, size);
    if (i >= 0) all[i].state = KEPT;
    pthread_mutex_unlock(&mutex);
    if (i >= 0) return 0;
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
    if (advice == MADV_DONTNEED) {
        pthread_mutex_lock(&mutex);
        int mine = find(MAPPED, at, size) >= 0, shared = find(SHARED, at, size) >= 0;
        pthread_mutex_unlock(&mutex);
        if (shared) return 0; /* its content would come back from the file */
        if (mine) return memset(at, 0, size), 0;
    }
    return (int)syscall(SYS_madvise, at, size, advice);
}
"""
)
