// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A model of a processor's caches and of its prediction of conditional branches. It counts; what an event
 * costs in cycles is decided by the reader of the counts
 * (src/swapstone/parts/explain/model/instruction_counts.py).
 *
 * Three caches: L1I for instructions, L1D for loads and stores, and L2 for what both miss. Each is
 * set-associative with lines of 64 bytes, replaces the least recently used line, and allocates a line for a
 * store that misses. L2 need not contain what L1 does. Not modelled: write-backs, prefetching, TLBs, buffers,
 * overlapping misses.
 *
 * The predictor is gshare (S. McFarling, Combining Branch Predictors, WRL Technical Note TN-36, 1993): a
 * table of 2-bit saturating counters, indexed by the exclusive or of the branch's address and the outcomes of
 * the last branches. The counters start at 1, weakly not taken.
 */
#ifndef SWAPSTONE_PROCESSOR_H
#define SWAPSTONE_PROCESSOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LINE_BITS = 6, LINE_BYTES = 1 << LINE_BITS, HISTORY_BITS = 12 };

struct geometry {
    unsigned bytes, ways; /* bytes / ways / 64, the number of sets, is a power of two */
};

struct cache {
    unsigned sets, ways;
    uint64_t *lines; /* sets * ways: in each set the most recently used first; 0 for none, else line + 1 */
};

struct predictor {
    unsigned history; /* the last HISTORY_BITS outcomes, the newest in bit 0 */
    unsigned char counters[1 << HISTORY_BITS];
};

/* The caches of one processor. Lines of code and of data are numbers that differ. */
struct processor {
    struct cache l1i, l1d, l2;
    struct predictor predictor;
};

enum level { L1_HIT, L2_HIT, L2_MISS };

/* Makes empty caches. Returns whether there is memory for them and the geometry is possible. */
bool processor_init(struct processor *processor, struct geometry l1i, struct geometry l1d,
                    struct geometry l2);

/* Accesses a line through L1I or L1D. Returns where it was found. */
enum level processor_access(struct processor *processor, struct cache *l1, uint64_t line);

/* Predicts a branch at an address, and learns its outcome. Returns whether the prediction was wrong. */
bool processor_mispredicts(struct processor *processor, uint64_t address, bool taken);

#endif
