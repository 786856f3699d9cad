// SPDX-License-Identifier: MIT OR Apache-2.0
/* Maps a file of 4 MiB, calls msync() with MS_INVALIDATE for it, reads one byte of each of its 1024 pages of
 * 4096 bytes in random order, and unmaps it, 10 times. The file is in the page cache. lmbench: lat_pagefault;
 * the summary's row Page Fault.
 *
 * The parameter is what is done of it: all, or the calls alone, 400 times (`mmap`). lmbench's figure is the
 * time of a page less that of its share of the calls. An operation is one page. Linux maps up to 16 cached
 * pages around the one that is read, so that there are fewer faults than pages. */
#include "mapped_file.h"

enum { PAGES = 1024, PAGE = 4096, MAPPINGS = 10, EMPTY_MAPPINGS = 400, SIZE = PAGES * PAGE };

static int file;
static uint32_t order[PAGES];

static void prepare(void) {
    uint32_t random = 1;
    file = create_file(SIZE);
    for (uint32_t i = 0; i < PAGES; i++)
        order[i] = i;
    for (uint32_t i = PAGES - 1; i > 0; i--) {
        uint32_t other = (next_random(&random) >> 16) % (i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
}

static void *map(void) {
    void *start = map_file(file, SIZE, PROT_READ);
    if (msync(start, SIZE, MS_INVALIDATE) != 0)
        fail("msync: %s", strerror(errno));
    return start;
}

static uint64_t read_pass(void) {
    uint64_t sum = 0;
    for (int mapping = 0; mapping < MAPPINGS; mapping++) {
        volatile char *start = map();
        for (int i = 0; i < PAGES; i++)
            sum += (uint64_t)start[order[i] * PAGE];
        unmap((void *)start, SIZE);
    }
    return sum;
}

static uint64_t mmap_pass(void) {
    for (int mapping = 0; mapping < EMPTY_MAPPINGS; mapping++)
        unmap(map(), SIZE);
    return EMPTY_MAPPINGS;
}

static const struct parameter parts[] = {
    {.argument = "read", .name = "lat_pagefault", .ops = MAPPINGS * PAGES, .pass = read_pass},
    {.argument = "mmap", .name = "lat_pagefault(mmap)", .ops = EMPTY_MAPPINGS * PAGES, .pass = mmap_pass},
    {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .parameters = parts);
