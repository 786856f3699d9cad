// SPDX-License-Identifier: MIT OR Apache-2.0
/* Files that a virtual machine receives after it was saved (src/swapstone/parts/vm/machine/file_pool.py). */
#ifndef GUEST_POOL_H
#define GUEST_POOL_H

#include <stdint.h>

/* The folder of the pool. If its file `sizes` is missing, the machine has no pool. */
#define POOL "/swapstone/pool"

/* Makes a file for each line of `sizes` and finds their pages in physical memory, which nothing moves before
 * the machine is saved. Returns 0 or a negative errno. */
int make_pool(void);
/* Reads the files that the host sends into those pages, and moves them to their paths. Sets how long that may
 * take in all, 0 without a pool. Returns 0 or a negative errno. */
int receive_files(int64_t *most_ns);

#endif
