// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by dlopen and readdir: a new directory in the working directory, with numbered files in it. */
#ifndef SWAPSTONE_SCRATCH_DIRECTORY_H
#define SWAPSTONE_SCRATCH_DIRECTORY_H

#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SCRATCH_PATH_BYTES = 64 };

static char scratch[SCRATCH_PATH_BYTES];

static inline void make_scratch_directory(void) {
    strcpy(scratch, "./swapstone-XXXXXX");
    require(mkdtemp(scratch), "mkdtemp in the working directory");
}

static inline void scratch_path(char *path, int number) {
    snprintf(path, SCRATCH_PATH_BYTES, "%s/%04d.so", scratch, number);
}

static inline void write_scratch_file(int number, const void *content, size_t size) {
    char path[SCRATCH_PATH_BYTES];
    scratch_path(path, number);
    int file = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0700);
    require(file >= 0 && write(file, content, size) == (ssize_t)size && close(file) == 0, path);
}

/* Removes the files 0..count-1 and the directory. */
static inline void remove_scratch_directory(int count) {
    char path[SCRATCH_PATH_BYTES];
    for (int number = 0; number < count; number++) {
        scratch_path(path, number);
        if (unlink(path) != 0)
            fail("unlink %s: %s", path, strerror(errno));
    }
    if (rmdir(scratch) != 0)
        fail("rmdir %s: %s", scratch, strerror(errno));
}

#endif
