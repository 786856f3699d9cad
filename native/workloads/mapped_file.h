// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the workloads of the suite `os` that read or map a large file: an unnamed file in the working
 * directory, whose content is in the page cache. */
#ifndef SWAPSTONE_MAPPED_FILE_H
#define SWAPSTONE_MAPPED_FILE_H

#include "harness.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { FILE_BLOCK = 65536 };

/* Each word of the file, an unsigned long, is 1. */
static inline int create_file(size_t size) {
    static unsigned long block[FILE_BLOCK / sizeof(long)];
    int file = unnamed_file();
    for (size_t i = 0; i < sizeof block / sizeof *block; i++)
        block[i] = 1;
    for (size_t written = 0; written < size; written += sizeof block)
        require(write(file, block, sizeof block) == sizeof block, "write to a file");
    return file;
}

static inline void *map_file(int file, size_t size, int protection) {
    void *start = mmap(NULL, size, protection, MAP_SHARED, file, 0);
    if (start == MAP_FAILED)
        fail("mmap: %s", strerror(errno));
    return start;
}

static inline void unmap(void *start, size_t size) {
    if (munmap(start, size) != 0)
        fail("munmap: %s", strerror(errno));
}

#define SUM_OF_SIXTEEN(word)                                                                                 \
    ((word)[0] + (word)[1] + (word)[2] + (word)[3] + (word)[4] + (word)[5] + (word)[6] + (word)[7] +         \
     (word)[8] + (word)[9] + (word)[10] + (word)[11] + (word)[12] + (word)[13] + (word)[14] + (word)[15])

/* Sums words of the processor's width, as lmbench does where it reads a file or an array of a process; `size`
 * is a multiple of 128 bytes. */
static inline unsigned long sum_of_longs(const unsigned long *word, size_t size) {
    const unsigned long *end = word + size / sizeof *word;
    unsigned long sum = 0;
    for (; word < end; word += 16)
        sum += SUM_OF_SIXTEEN(word);
    return sum;
}

/* Sums words of 32 bits, as lmbench's bw_mem does; `size` is a multiple of 64 bytes. */
static inline uint32_t sum_of_words(const uint32_t *word, size_t size) {
    const uint32_t *end = word + size / sizeof *word;
    uint32_t sum = 0;
    for (; word < end; word += 16)
        sum += SUM_OF_SIXTEEN(word);
    return sum;
}

#endif
