/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Of objects that are preloaded into a program to replace functions. The calls on which they act are counted
 * in the file that the variable SWAPSTONE_CALLS names, of 8 bytes; without it nothing is counted. Include it
 * first.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static unsigned long long *calls;

__attribute__((constructor)) static void open_calls(void) {
    const char *path = getenv("SWAPSTONE_CALLS");
    int fd = path ? (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC) : -1;

    if (fd < 0)
        return;
    void *found = (void *)syscall(SYS_mmap, NULL, sizeof *calls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    syscall(SYS_close, fd);
    if (found != MAP_FAILED)
        calls = found;
}

static inline void count(void) {
    if (calls)
        __atomic_fetch_add(calls, 1, __ATOMIC_RELAXED);
}

/* The function that an object replaces: the next one of its name in the loader's search order. */
#define NEXT(name)                                                                                           \
    ({                                                                                                       \
        static __typeof__(&name) next;                                                                       \
        if (!next)                                                                                           \
            next = (__typeof__(next))dlsym(RTLD_NEXT, #name);                                                \
        next;                                                                                                \
    })

/* A function of the family of open(2): its parameters end with `int flags, ...`. Then the arguments of the
 * one that it replaces, without the mode. */
#define OPEN(name, parameters, ...)                                                                          \
    int name parameters {                                                                                    \
        va_list more;                                                                                        \
        va_start(more, flags);                                                                               \
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;                                    \
        va_end(more);                                                                                        \
        return NEXT(name)(__VA_ARGS__, mode);                                                                \
    }
