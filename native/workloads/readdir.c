// SPDX-License-Identifier: MIT OR Apache-2.0
/* Lists a directory of 1000 files four times: opendir(), readdir() of all entries, closedir().
 * Not from a published benchmark. */
#include "scratch_directory.h"

#include <dirent.h>

enum { FILES = 1000, LISTINGS = 4 };

static void prepare(void) {
    make_scratch_directory();
    for (int i = 0; i < FILES; i++)
        write_scratch_file(i, "", 0);
}

static uint64_t list_directory(void) {
    DIR *directory = opendir(scratch);
    uint64_t entries = 0, check = 0;
    if (!directory)
        fail("opendir: %s", strerror(errno));
    for (const struct dirent *entry; (entry = readdir(directory)); entries++)
        check += (unsigned char)entry->d_name[0] + strlen(entry->d_name);
    closedir(directory);
    if (entries != FILES + 2)
        fail("readdir read %llu entries instead of 1002", (unsigned long long)entries);
    return check;
}

static uint64_t pass(void) {
    uint64_t check = 0;
    for (int i = 0; i < LISTINGS; i++)
        check += list_directory();
    return check;
}

static void finish(void) {
    remove_scratch_directory(FILES);
}

WORKLOAD(.name = "readdir", .mode = WARM, .ops = LISTINGS, .prepare = prepare, .pass = pass,
         .finish = finish);
