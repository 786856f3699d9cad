// SPDX-License-Identifier: MIT OR Apache-2.0
/* Maps a file of 8 MiB shared, writes one byte in every 16 KiB of its first tenth, and unmaps it, 20 times.
 * lmbench: lat_mmap without -r; the summary's row Mmap Latency. */
#include "mapped_file.h"

enum { MAPPINGS = 20, SIZE = 8 << 20, WRITTEN = SIZE / 10, STRIDE = 16 << 10 };

static int file;

static void prepare(void) {
    file = create_file(SIZE);
}

static uint64_t pass(void) {
    uint64_t touched = 0;
    for (int i = 0; i < MAPPINGS; i++) {
        volatile char *start = map_file(file, SIZE, PROT_READ | PROT_WRITE);
        for (size_t at = 0; at < WRITTEN; at += STRIDE, touched++)
            start[at] = 1;
        unmap((void *)start, SIZE);
    }
    return touched;
}

WORKLOAD(.name = "lat_mmap", .mode = WARM, .ops = MAPPINGS, .prepare = prepare, .pass = pass);
