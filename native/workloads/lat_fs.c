// SPDX-License-Identifier: MIT OR Apache-2.0
/* Creates 200 files in an empty directory, or removes them. lmbench: lat_fs; the summary's rows 0K and 10K
 * File Create and Delete.
 *
 * The parameter is create:BYTES or delete:BYTES. `size` is the size of each file in bytes. To create a file
 * is open(), one write() unless it is empty, and close(). To remove it is unlink(). The directory is in the
 * working directory. */
#include "harness.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FILES = 200, NAME_BYTES = 8, MOST_BYTES = 10240 };

static char directory[] = "swapstone-XXXXXX", names[FILES][NAME_BYTES], content[MOST_BYTES];

static uint64_t create_pass(void) {
    uint64_t created = 0;
    for (int i = 0; i < FILES; i++) {
        int file = open(names[i], O_WRONLY | O_CREAT | O_TRUNC, 0600);
        if (file < 0 ||
            (parameter->size && write(file, content, parameter->size) != (ssize_t)parameter->size))
            fail("a file can't be written: %s", strerror(errno));
        created += close(file) == 0;
    }
    return created;
}

static uint64_t delete_pass(void) {
    uint64_t removed = 0;
    for (int i = 0; i < FILES; i++)
        removed += unlink(names[i]) == 0;
    return removed;
}

static void prepare(void) {
    if (!mkdtemp(directory) || chdir(directory) != 0)
        fail("mkdtemp in the working directory: %s", strerror(errno));
    for (int i = 0; i < FILES; i++)
        snprintf(names[i], NAME_BYTES, "%d", i);
    if (parameter->pass == delete_pass)
        create_pass();
}

static void finish(void) {
    struct stat last;
    if (parameter->pass == create_pass) {
        if (stat(names[FILES - 1], &last) != 0 || last.st_size != (off_t)parameter->size)
            fail("the last file has another size");
        delete_pass();
    }
    if (chdir("..") != 0 || rmdir(directory) != 0)
        fail("rmdir: %s", strerror(errno));
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
