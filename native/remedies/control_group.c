/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program stays in its control group: what it writes to cgroup.procs or tasks is lost (cgroups(7)). */
#include "intercept.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *harmless(const char *path, int writes) {
    const char *file = strrchr(path, '/');

    if (!writes || !file || (strcmp(file, "/cgroup.procs") && strcmp(file, "/tasks")))
        return path;
    count();
    return "/dev/null";
}

#define OPEN(name, parameters, ...)                                                                          \
    int name parameters {                                                                                    \
        va_list more;                                                                                        \
        va_start(more, flags);                                                                               \
        int mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(more, int) : 0;                                    \
        va_end(more);                                                                                        \
        return NEXT(name)(__VA_ARGS__ harmless(path, (flags & O_ACCMODE) != O_RDONLY), flags, mode);         \
    }
#define NOTHING

OPEN(open, (const char *path, int flags, ...), NOTHING)
OPEN(open64, (const char *path, int flags, ...), NOTHING)
OPEN(openat, (int at, const char *path, int flags, ...), at, )
OPEN(openat64, (int at, const char *path, int flags, ...), at, )

FILE *fopen(const char *path, const char *mode) {
    return NEXT(fopen)(harmless(path, *mode != 'r' || strchr(mode, '+')), mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return fopen(path, mode);
}
