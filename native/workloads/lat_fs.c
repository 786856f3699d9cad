// SPDX-License-Identifier: MIT OR Apache-2.0
/* Creates 200 files in two empty directories, 100 in each and the last name first, or removes them in that
 * order. lmbench: lat_fs; the summary's rows 0K and 10K File Create and Delete.
 *
 * The parameter is create:BYTES or delete:BYTES. `size` is the size of each file in bytes. To create a file
 * is creat(), one write() unless it is empty, and close(). To remove it is unlink(). A path has four names,
 * as that of the summary's files in /tmp; the first is in the working directory. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 200, IN_A_DIRECTORY = 100, DIRECTORIES = 2, PATH_BYTES = 64, MOST_BYTES = 10240 };

static char top[] = "swapstone-XXXXXX", outer[PATH_BYTES], inner[DIRECTORIES][PATH_BYTES];
static char names[FILES][PATH_BYTES], content[MOST_BYTES];

static uint64_t create_pass(void) {
    uint64_t created = 0;
    for (int i = FILES - 1; i >= 0; i--) {
        int file = creat(names[i], 0666);
        ssize_t wrote = file >= 0 && parameter->size ? write(file, content, parameter->size) : 0;
        if (file < 0 || wrote < 0)
            fail("a file can't be written: %s", strerror(errno));
        if (wrote != (ssize_t)parameter->size)
            fail("only a part of a file was written, as if the file system were full");
        created += close(file) == 0;
    }
    return created;
}

static uint64_t delete_pass(void) {
    uint64_t removed = 0;
    for (int i = FILES - 1; i >= 0; i--)
        removed += unlink(names[i]) == 0;
    return removed;
}

static void make_directory(char path[PATH_BYTES], const char *parent, const char *name) {
    snprintf(path, PATH_BYTES, "%.40s/%.8s", parent, name);
    require(mkdir(path, 0700) == 0, "mkdir");
}

static void prepare(void) {
    require(mkdtemp(top), "mkdtemp in the working directory");
    make_directory(outer, top, "lat_fs");
    make_directory(inner[0], outer, "0");
    make_directory(inner[1], outer, "1");
    for (int i = 0; i < FILES; i++)
        snprintf(names[i], PATH_BYTES, "%.50s/%d", inner[i / IN_A_DIRECTORY], i % IN_A_DIRECTORY);
    if (parameter->pass == delete_pass)
        create_pass();
}

static void finish(void) {
    struct stat last;
    if (parameter->pass == create_pass) {
        if (stat(names[0], &last) != 0 || last.st_size != (off_t)parameter->size)
            fail("the last file has another size");
        delete_pass();
    }
    require(rmdir(inner[0]) == 0 && rmdir(inner[1]) == 0 && rmdir(outer) == 0 && rmdir(top) == 0, "rmdir");
}

#define FILE_WORK(what, bytes)                                                                               \
    {                                                                                                        \
        .argument = #what ":" #bytes, .name = "lat_fs(" #what "," #bytes ")", .ops = FILES, .size = bytes,   \
        .pass = what##_pass                                                                                  \
    }

static const struct parameter works[] = {
    FILE_WORK(create, 0), FILE_WORK(delete, 0), FILE_WORK(create, 10240), FILE_WORK(delete, 10240), {0}};

/* FRESH: each pass has its own prepare() and finish(), which are not measured. */
WORKLOAD(.mode = FRESH, .prepare = prepare, .finish = finish, .parameters = works);
