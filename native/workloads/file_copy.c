/* Copy a file into another with blocks of one size, both from their beginning, as often as the table below
 * says. Each task has two files of its own in the working directory, which have no name, so that nothing is
 * left of them. The parameter is the size of a block, and the number of tasks behind a colon. An operation
 * is 1024 bytes. */
#include "tasks.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

enum { LARGEST = 4096 };

static struct { int from, to; } files[MOST_TASKS];
static size_t block_size, blocks, repeats;

static union {
    uint64_t number;
    char bytes[LARGEST];
} block;

static int open_unnamed(void) {
    char path[] = "./swapstone-XXXXXX";
    int file = mkstemp(path);
    if (file < 0 || unlink(path) != 0)
        fail("a file in the working directory: %s", strerror(errno));
    return file;
}

static void rewind_to_start(int file) {
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
    unsigned count;
    if (sscanf(parameter->argument, "%zu:%u", &block_size, &count) != 2 || count != parameter->size ||
        sscanf(parameter->text, "%zu blocks %zu times", &blocks, &repeats) != 2 ||
        parameter->ops * 1024 != block_size * blocks * repeats * count)
        fail("the parameter is not understood");
    memset(block.bytes, 'x', sizeof block.bytes);
    for (unsigned task = 0; task < count; task++) {
        files[task].from = open_unnamed();
        files[task].to = open_unnamed();
        for (size_t i = 0; i < blocks; i++) {
            block.number = i * i;
            write_block(files[task].from);
        }
    }
}

static uint64_t copy(unsigned task) {
    uint64_t sum = 0;
    rewind_to_start(files[task].from);
    rewind_to_start(files[task].to);
    for (size_t i = 0; i < blocks; i++) {
        read_block(files[task].from);
        write_block(files[task].to);
        sum += block.number;
    }
    return sum;
}

static uint64_t work(unsigned task) {
    uint64_t sum = 0;
    for (size_t i = 0; i < repeats; i++)
        sum += copy(task);
    return sum;
}

static uint64_t pass(void) {
    return in_tasks(work);
}

/* Not measured: what was written is what was read. */
static void finish(void) {
    for (unsigned task = 0; task < parameter->size; task++) {
        rewind_to_start(files[task].to);
        for (size_t i = 0; i < blocks; i++) {
            read_block(files[task].to);
            if (block.number != i * i || block.bytes[block_size - 1] != 'x')
                fail("the copy differs from the original");
        }
        if (read(files[task].to, block.bytes, 1) != 0)
            fail("the copy is longer than the original");
    }
}

#define COPY(bytes, how, kibibytes)                                                                          \
    {.argument = bytes ":1", .name = "file_copy(" bytes ")", .ops = (kibibytes), .size = 1, .text = (how)},  \
    {                                                                                                        \
        .argument = bytes ":8", .name = "file_copy(" bytes ") (8 tasks)", .ops = MOST_TASKS * (kibibytes),   \
        .size = MOST_TASKS, .text = (how)                                                                    \
    }

static const struct parameter copies[] = {COPY("1024", "2000 blocks 1 times", 2000),
                                          COPY("256", "500 blocks 8 times", 1000),
                                          COPY("4096", "1000 blocks 1 times", 4000),
                                          {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .pass = pass, .finish = finish, .parameters = copies);
