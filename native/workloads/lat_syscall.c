// SPDX-License-Identifier: MIT OR Apache-2.0
/* Simple system calls, 8000 times. lmbench: lat_syscall null, read, write, stat, fstat, open; the summary's
 * rows null call, null I/O, stat and open clos.
 *
 * The parameter is the call: getppid(); read() of one byte of /dev/zero; write() of one byte to /dev/null;
 * those two in turn (the summary's null I/O is their mean); stat() and fstat() of an empty file; open() and
 * close() of that file, which are one operation. Its path has two names, as that of the summary's file in
 * /tmp; the first is in the working directory. */
#include "harness.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { CALLS = 8000, PATH_BYTES = 64 };

static char folder[] = "swapstone-XXXXXX", path[PATH_BYTES];
static int file, zero, null;

static void prepare(void) {
    require(mkdtemp(folder), "mkdtemp in the working directory");
    snprintf(path, sizeof path, "%s/lmbench", folder);
    file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);
    null = open("/dev/null", O_WRONLY | O_CLOEXEC);
    require(file >= 0 && zero >= 0 && null >= 0, "a file can't be created or opened");
}

static uint64_t null_pass(void) {
    uint64_t same = 0;
    pid_t parent = getppid();
    for (int i = 1; i < CALLS; i++)
        same += getppid() == parent;
    return same;
}

static uint64_t read_pass(void) {
    uint64_t sum = 0;
    char byte;
    for (int i = 0; i < CALLS; i++)
        sum += read(zero, &byte, 1) == 1;
    return sum;
}

static uint64_t write_pass(void) {
    uint64_t sum = 0;
    char byte = 0;
    for (int i = 0; i < CALLS; i++)
        sum += write(null, &byte, 1) == 1;
    return sum;
}

static uint64_t io_pass(void) {
    uint64_t sum = 0;
    char byte;
    for (int i = 0; i < CALLS / 2; i++) {
        sum += read(zero, &byte, 1) == 1;
        sum += write(null, &byte, 1) == 1;
    }
    return sum;
}

static uint64_t stat_pass(void) {
    uint64_t sum = 0;
    struct stat about;
    for (int i = 0; i < CALLS; i++)
        sum += stat(path, &about) == 0 && about.st_size == 0;
    return sum;
}

static uint64_t fstat_pass(void) {
    uint64_t sum = 0;
    struct stat about;
    for (int i = 0; i < CALLS; i++)
        sum += fstat(file, &about) == 0 && about.st_size == 0;
    return sum;
}

static uint64_t open_pass(void) {
    uint64_t sum = 0;
    for (int i = 0; i < CALLS; i++) {
        int opened = open(path, O_RDONLY);
        sum += close(opened) == 0;
    }
    return sum;
}

static void finish(void) {
    unlink(path);
    rmdir(folder);
}

#define CALL(call)                                                                                           \
    { .argument = #call, .name = "lat_syscall(" #call ")", .ops = CALLS, .pass = call##_pass }

static const struct parameter calls[] = {CALL(null), CALL(read),  CALL(write), CALL(io),
                                         CALL(stat), CALL(fstat), CALL(open),  {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .finish = finish, .parameters = calls);
