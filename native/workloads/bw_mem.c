// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads, writes or copies memory. lmbench: bw_mem frd, fwr, fcp, bcopy; the summary's rows Mem read, Mem
 * write, Bcopy(hand) and Bcopy (libc).
 *
 * The parameter is SIZE:WAY. `size` is the bytes of an array. Ways: sum every word of an array; store to
 * every word; copy every word of one array to another; call bcopy() of the C library. The loops have 16 words
 * in each round. An operation is one time through the array. */
#include "mapped_file.h"

#include <strings.h>

static uint32_t *from, *to;

static void *allocate(size_t size) {
    void *start = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    require(start != MAP_FAILED, "mmap");
    return start;
}

static void prepare(void) {
    from = allocate(parameter->size);
    to = allocate(parameter->size);
    for (size_t i = 0; i < parameter->size / sizeof *from; i++) {
        from[i] = 1;
        to[i] = 0;
    }
}

static uint64_t frd_pass(void) {
    uint32_t sum = 0;
    for (uint64_t i = 0; i < parameter->ops; i++) {
        sum += sum_of_words(from, parameter->size);
        compiler_barrier();
    }
    return sum;
}

#define FOUR(store, at) store(at) store(at + 1) store(at + 2) store(at + 3)
#define SIXTEEN(store) FOUR(store, 0) FOUR(store, 4) FOUR(store, 8) FOUR(store, 12)
#define SET(at) word[at] = 3;
#define COPY(at) word[at] = source[at];

static uint64_t fwr_pass(void) {
    for (uint64_t i = 0; i < parameter->ops; i++) {
        for (uint32_t *word = to, *end = to + parameter->size / sizeof *to; word < end; word += 16) {
            SIXTEEN(SET)
        }
        compiler_barrier();
    }
    return to[0] + to[parameter->size / sizeof *to - 1];
}

static uint64_t fcp_pass(void) {
    for (uint64_t i = 0; i < parameter->ops; i++) {
        const uint32_t *source = from;
        for (uint32_t *word = to, *end = to + parameter->size / sizeof *to; word < end;
             word += 16, source += 16) {
            SIXTEEN(COPY)
        }
        compiler_barrier();
    }
    return to[0] + to[parameter->size / sizeof *to - 1];
}

static uint64_t bcopy_pass(void) {
    for (uint64_t i = 0; i < parameter->ops; i++) {
        bcopy(from, to, parameter->size);
        compiler_barrier();
    }
    return to[0] + to[parameter->size / sizeof *to - 1];
}

#define WAY(text, way, bytes, rounds)                                                                        \
    {                                                                                                        \
        .argument = text ":" #way, .name = "bw_mem(" text "," #way ")", .ops = rounds, .size = bytes,        \
        .pass = way##_pass                                                                                   \
    }
#define WAYS(text, bytes, rounds)                                                                            \
    WAY(text, frd, bytes, rounds), WAY(text, fwr, bytes, rounds), WAY(text, fcp, bytes, rounds),             \
        WAY(text, bcopy, bytes, rounds)

static const struct parameter ways[] = {WAYS("16k", 16 << 10, 1000), WAYS("8m", 8 << 20, 2), {0}};

WORKLOAD(.mode = WARM, .prepare = prepare, .parameters = ways);
