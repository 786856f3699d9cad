// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads a file of 4 MiB that is in the page cache and sums its words, 4 times. lmbench: bw_file_rd io_only,
 * bw_mmap_rd mmap_only; the summary's rows File reread and Mmap reread.
 *
 * The parameter is how: with read() of 64 KiB at a time, or through a mapping that is made before the pass.
 * An operation is the whole file. */
#include "mapped_file.h"

enum { SIZE = 4 << 20, ROUNDS = 4 };

static unsigned long block[FILE_BLOCK / sizeof(long)];
static unsigned long *mapped;
static int file;

static void prepare(void) {
    file = create_file(SIZE);
    mapped = map_file(file, SIZE, PROT_READ);
}

static uint64_t read_pass(void) {
    unsigned long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (lseek(file, 0, SEEK_SET) != 0)
            fail("lseek: %s", strerror(errno));
        for (size_t at = 0; at < SIZE; at += sizeof block) {
            if (read(file, block, sizeof block) != sizeof block)
                fail("read from a file: %s", strerror(errno));
            sum += sum_of_longs(block, sizeof block);
        }
    }
    return sum * sizeof *block;
}

static uint64_t mmap_pass(void) {
    unsigned long sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        sum += sum_of_longs(mapped, SIZE);
        compiler_barrier();
    }
    return sum * sizeof *mapped;
}

static const struct parameter ways[] = {
    {.argument = "read", .name = "bw_file_rd", .ops = ROUNDS, .pass = read_pass},
    {.argument = "mmap", .name = "bw_mmap_rd", .ops = ROUNDS, .pass = mmap_pass},
    {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .parameters = ways);
