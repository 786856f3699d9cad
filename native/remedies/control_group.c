/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program stays in its control group: what it writes to cgroup.procs or tasks is lost (cgroups(7)). */
#include "intercept.h"
#include <stdio.h>
#include <string.h>

static int writes(int flags) {
    return (flags & O_ACCMODE) != O_RDONLY;
}

static const char *harmless(const char *path, int written) {
    const char *file = strrchr(path, '/');

    if (!written || !file || (strcmp(file, "/cgroup.procs") && strcmp(file, "/tasks")))
        return path;
    count();
    return "/dev/null";
}

OPEN(open, (const char *path, int flags, ...), harmless(path, writes(flags)), flags)
OPEN(open64, (const char *path, int flags, ...), harmless(path, writes(flags)), flags)
OPEN(openat, (int at, const char *path, int flags, ...), at, harmless(path, writes(flags)), flags)
OPEN(openat64, (int at, const char *path, int flags, ...), at, harmless(path, writes(flags)), flags)

FILE *fopen(const char *path, const char *mode) {
    return NEXT(fopen)(harmless(path, *mode != 'r' || strchr(mode, '+')), mode);
}

FILE *fopen64(const char *path, const char *mode) {
    return fopen(path, mode);
}
