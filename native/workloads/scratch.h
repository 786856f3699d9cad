/* A directory of the workload's own in the working directory, with numbered files in it. */
#ifndef SWAPSTONE_SCRATCH_H
#define SWAPSTONE_SCRATCH_H

#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCRATCH_PATH = 64 };

static char scratch[SCRATCH_PATH];

static inline void make_scratch(void) {
    strcpy(scratch, "./swapstone-XXXXXX");
    if (!mkdtemp(scratch))
        fail("mkdtemp in the working directory: %s", strerror(errno));
}

static inline void scratch_file(char *path, int number) {
    snprintf(path, SCRATCH_PATH, "%s/%04d.so", scratch, number);
}

static inline void write_scratch(int number, const void *content, size_t size) {
    char path[SCRATCH_PATH];
    scratch_file(path, number);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    if (file < 0 || write(file, content, size) != (ssize_t)size || close(file) != 0)
        fail("%s: %s", path, strerror(errno));
}

static inline void remove_scratch(int count) {
    char path[SCRATCH_PATH];
    for (int number = 0; number < count; number++) {
        scratch_file(path, number);
        if (unlink(path) != 0)
            fail("unlink %s: %s", path, strerror(errno));
    }
    if (rmdir(scratch) != 0)
        fail("rmdir %s: %s", scratch, strerror(errno));
}

#endif
