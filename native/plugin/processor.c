// SPDX-License-Identifier: MIT OR Apache-2.0
#include "processor.h"

#include <stdlib.h>
#include <string.h>

static bool cache_init(struct cache *cache, struct geometry geometry) {
    unsigned way = geometry.ways ? geometry.bytes / geometry.ways : 0;
    cache->sets = way >> LINE_BITS;
    cache->ways = geometry.ways;
    if (!cache->sets || cache->sets & (cache->sets - 1) || way * geometry.ways != geometry.bytes)
        return false;
    cache->lines = calloc((size_t)cache->sets * cache->ways, sizeof *cache->lines);
    return cache->lines != NULL;
}

/* Makes a line the most recently used one of its set. Returns whether the cache had it. */
static bool use(struct cache *cache, uint64_t line) {
    uint64_t *set = cache->lines + (line & (cache->sets - 1)) * cache->ways, kept = line + 1;
    if (set[0] == kept)
        return true;
    unsigned at = 1;
    while (at < cache->ways && set[at] != kept)
        at++;
    bool found = at < cache->ways;
    memmove(set + 1, set, (found ? at : cache->ways - 1) * sizeof *set);
    set[0] = kept;
    return found;
}

bool processor_init(struct processor *processor, struct geometry l1i, struct geometry l1d,
                    struct geometry l2) {
    memset(processor->predictor.counters, 1, sizeof processor->predictor.counters);
    processor->predictor.history = 0;
    return cache_init(&processor->l1i, l1i) && cache_init(&processor->l1d, l1d) &&
           cache_init(&processor->l2, l2);
}

enum level processor_access(struct processor *processor, struct cache *l1, uint64_t line) {
    return use(l1, line) ? L1_HIT : use(&processor->l2, line) ? L2_HIT : L2_MISS;
}

bool processor_mispredicts(struct processor *processor, uint64_t address, bool taken) {
    struct predictor *predictor = &processor->predictor;
    unsigned mask = (1u << HISTORY_BITS) - 1;
    unsigned char *counter = &predictor->counters[((unsigned)address ^ predictor->history) & mask];
    bool predicted = *counter >= 2;
    if (taken)
        *counter += *counter < 3;
    else
        *counter -= *counter > 0;
    predictor->history = (predictor->history << 1 | taken) & mask;
    return predicted != taken;
}
