// SPDX-License-Identifier: MIT OR Apache-2.0
/* Copies a file to another with read() and write() of one buffer at a time, until read() returns 0, several
 * times. UnixBench: File Copy 1024 bufsize 2000 maxblocks, 256 bufsize 500, and 4096 bufsize 8000. Its
 * maxblocks counts blocks of 1024 bytes, so each file has 2000 buffers (1000 of 4096 bytes in the suite
 * `throughput`, whose eight tasks would need too much memory).
 *
 * The parameter is BLOCK:TASKS, the size of a buffer in bytes and the number of tasks: `one` and `all` for
 * the copies of the suite `unix`. The table at the end has the number of buffers and repeats. An operation is
 * 1024 bytes. Each task has two unlinked files in the working directory. */
#include "tasks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_BLOCK_BYTES = 4096 };

static struct { int from, to; } files[MAX_TASKS];
static size_t block_size, blocks, repeats;

/* The block in memory. Its first bytes are a number that differs from block to block. */
static union {
    uint64_t number;
    char bytes[MAX_BLOCK_BYTES];
} block;

static void seek_to_start(int file) {
    if (lseek(file, 0, SEEK_SET) != 0)
        fail("lseek: %s", strerror(errno));
}

static void write_block(int file) {
    if (write(file, block.bytes, block_size) != (ssize_t)block_size)
        fail("write to a file: %s", strerror(errno));
}

static void read_block(int file) {
    if (read(file, block.bytes, block_size) != (ssize_t)block_size)
        fail("read from a file: %s", strerror(errno));
}

static void prepare(void) {
    unsigned count = tasks_of_parameter();
    if (sscanf(parameter->argument, "%zu:", &block_size) != 1 ||
        sscanf(parameter->text, "%zu blocks %zu times", &blocks, &repeats) != 2 ||
        parameter->ops * 1024 != block_size * blocks * repeats * (parameter->copies ? 1 : count))
        fail("the parameter is not BLOCK:TASKS of the table");
    memset(block.bytes, 'x', sizeof block.bytes);
    for (unsigned task = 0; task < count; task++) {
        files[task].from = unnamed_file();
        files[task].to = unnamed_file();
        for (size_t i = 0; i < blocks; i++) {
            block.number = i * i;
            write_block(files[task].from);
        }
        seek_to_start(files[task].from);
    }
}

static void expect_end(int file) {
    if (read(file, block.bytes, block_size) != 0)
        fail("a file is longer than what was written to it");
}

static uint64_t copy(unsigned task) {
    uint64_t sum = 0;
    for (size_t i = 0; i < blocks; i++) {
        read_block(files[task].from);
        write_block(files[task].to);
        sum += block.number;
    }
    expect_end(files[task].from);
    seek_to_start(files[task].from);
    seek_to_start(files[task].to);
    return sum;
}

static uint64_t work(unsigned task) {
    uint64_t sum = 0;
    for (size_t i = 0; i < repeats; i++)
        sum += copy(task);
    return sum;
}

/* Compares the copy with the original; not measured. */
static void finish(void) {
    for (unsigned task = 0; task < tasks_of_parameter(); task++) {
        seek_to_start(files[task].to);
        for (size_t i = 0; i < blocks; i++) {
            read_block(files[task].to);
            if (block.number != i * i || block.bytes[block_size - 1] != 'x')
                fail("the copy differs from the original");
        }
        expect_end(files[task].to);
    }
}

#define COPY(bytes, blocks, kibibytes)                                                                       \
    {.argument = bytes ":1",                                                                                 \
     .name = "file_copy(" bytes ")",                                                                         \
     .ops = (kibibytes),                                                                                     \
     .size = 1,                                                                                              \
     .text = (blocks)},                                                                                      \
    {                                                                                                        \
        .argument = bytes ":8", .name = "file_copy(" bytes ") (8 tasks)", .ops = EIGHT_TASKS * (kibibytes),  \
        .size = EIGHT_TASKS, .text = (blocks)                                                                \
    }

#define UNIX_COPY(test, bytes, blocks, kibibytes)                                                            \
    {.argument = bytes ":one", .name = test " (1 copy)", .ops = (kibibytes), .text = (blocks), .copies = 1}, \
    {                                                                                                        \
        .argument = bytes ":all", .name = test " (n copies)", .ops = (kibibytes), .text = (blocks),          \
        .copies = ALL_PROCESSORS                                                                             \
    }

static const struct parameter copies[] = {COPY("1024", "2000 blocks 1 times", 2000),
                                          COPY("256", "2000 blocks 2 times", 1000),
                                          COPY("4096", "1000 blocks 1 times", 4000),
                                          UNIX_COPY("fstime", "1024", "2000 blocks 1 times", 2000),
                                          UNIX_COPY("fsbuffer", "256", "2000 blocks 2 times", 1000),
                                          UNIX_COPY("fsdisk", "4096", "2000 blocks 1 times", 8000),
                                          {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = run_in_tasks, .finish = finish, .parameters = copies);
