// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Mode `counts`: how often each instruction was executed in the windows.
 *
 * Every instruction of a translated block has a counter, which is incremented before the instruction. An
 * instruction that faults is counted then, and again when it is repeated, but QEMU's clock counts it once. So
 * an instruction counts as completed when the next one of its block begins. The last one of a block has no
 * next one; there, attempts are counted. An access to a device in the middle of a block makes QEMU leave the
 * block and execute this instruction in a block of its own, for which it calls back accesses to memory only.
 * So blocks of one instruction count these (QEMU 7.2, accel/tcg/translate-all.c: cpu_io_recompile).
 *
 * Output, after the lines of text and an empty line, for each block (all numbers little-endian):
 *
 *     8 bytes     virtual address of its first instruction
 *     2 bytes     N, the number of its instructions
 *     2 bytes     size of these instructions in bytes
 *     N bytes     size of each instruction
 *     the bytes of the instructions
 *     N * 8 bytes how often each was completed
 */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 18, MOST_BLOCKS = 1 << 20, MOST_INSTRUCTIONS = 1 << 12, MOST_CODE = 1 << 15 };

#define MOST_OUTPUT_BYTES (256u << 20)

struct counter {
    uint64_t now, opened, windows; /* executions in all; when the window began; in complete windows */
};

struct block {
    struct block *next, *same_bucket;
    uint64_t address;
    struct counter accesses; /* to devices, if the block is a single instruction */
    unsigned count, code_size;
    unsigned char *code, *sizes;
    struct counter counters[];
};

static struct block *blocks, *buckets[BUCKETS];
static size_t block_count;
static struct counter lost;
static unsigned char code[MOST_CODE], sizes[MOST_INSTRUCTIONS];

/* ==== Blocks ==== */

/* FNV-1a, 64 bits. */
static uint64_t hash(uint64_t value, const unsigned char *bytes, size_t size) {
    while (size--)
        value = (value ^ *bytes++) * 1099511628211u;
    return value;
}

static struct block *new_block(uint64_t address, unsigned count, unsigned code_size) {
    if (block_count == MOST_BLOCKS)
        return NULL;
    struct block *made = calloc(1, sizeof *made + count * sizeof *made->counters);
    unsigned char *texts = made ? malloc(code_size + count + 1) : NULL;
    if (!texts) {
        free(made);
        return NULL;
    }
    made->address = address;
    made->count = count;
    made->code_size = code_size;
    made->code = memcpy(texts, code, code_size);
    made->sizes = memcpy(texts + code_size, sizes, count);
    made->next = blocks;
    blocks = made;
    block_count++;
    return made;
}

/* Returns the block with this address and the code in `code`; NULL if there is no room. QEMU translates a
 * block again after it discarded its translation. Blocks of one instruction are kept apart: their two kinds
 * count differently. */
static struct block *find_block(uint64_t address, unsigned count, unsigned code_size) {
    if (count == 1)
        return new_block(address, count, code_size);
    uint64_t digest = hash(14695981039346656037u, (const unsigned char *)&address, sizeof address);
    digest = hash(hash(digest, code, code_size), sizes, count);
    struct block **bucket = &buckets[digest % BUCKETS];
    for (struct block *one = *bucket; one; one = one->same_bucket)
        if (one->address == address && one->count == count && one->code_size == code_size &&
            memcmp(one->code, code, code_size) == 0 && memcmp(one->sizes, sizes, count) == 0)
            return one;
    struct block *made = new_block(address, count, code_size);
    if (made) {
        made->same_bucket = *bucket;
        *bucket = made;
    }
    return made;
}

static void accessed(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor;
    struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(access, address);
    if (place && qemu_plugin_hwaddr_is_io(place))
        ((struct block *)data)->accesses.now++;
}

static void translated(struct qemu_plugin_tb *tb, size_t count) {
    size_t used = 0;
    bool fits = count <= MOST_INSTRUCTIONS;
    for (size_t i = 0; i < count && fits; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        size_t size = qemu_plugin_insn_size(instruction);
        fits = size < 256 && used + size <= sizeof code;
        if (fits) {
            memcpy(code + used, qemu_plugin_insn_data(instruction), size);
            sizes[i] = (unsigned char)size;
            used += size;
        }
    }
    struct block *block = fits ? find_block(qemu_plugin_tb_vaddr(tb), (unsigned)count, (unsigned)used) : NULL;
    for (size_t i = 0; i < count; i++)
        qemu_plugin_register_vcpu_insn_exec_inline(qemu_plugin_tb_get_insn(tb, i), QEMU_PLUGIN_INLINE_ADD_U64,
                                                   block ? &block->counters[i].now : &lost.now, 1);
    if (block && count == 1)
        qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, 0), accessed, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, block);
}

/* ==== Windows ==== */

static void each_counter(void (*apply)(struct counter *counter)) {
    apply(&lost);
    for (struct block *one = blocks; one; one = one->next) {
        apply(&one->accesses);
        for (unsigned i = 0; i < one->count; i++)
            apply(&one->counters[i]);
    }
}

static void open_counter(struct counter *counter) {
    counter->opened = counter->now;
}

static void close_counter(struct counter *counter) {
    counter->windows += counter->now - counter->opened;
    counter->opened = counter->now;
}

static void open_window(void) {
    each_counter(open_counter);
}

static void close_window(void) {
    each_counter(close_counter);
}

/* ==== Output ==== */

static uint64_t completed(const struct block *block, unsigned at) {
    if (block->count == 1 && block->counters[0].now == 0)
        return block->accesses.windows;
    return block->counters[at + 1 < block->count ? at + 1 : at].windows;
}

/* Returns how often a block was left before its last instruction began. */
static uint64_t left(const struct block *block) {
    uint64_t first = block->counters[0].windows, last = block->counters[block->count - 1].windows;
    return first > last ? first - last : 0; /* a window may begin inside a block */
}

static bool was_executed(const struct block *block) {
    return block->counters[0].windows || completed(block, 0);
}

static size_t size_of(const struct block *block) {
    return 12 + block->count + block->code_size + (size_t)block->count * 8;
}

static void put(FILE *out, uint64_t number, unsigned bytes) {
    for (; bytes; bytes--, number >>= 8)
        putc((int)(number & 255), out);
}

static void write_counts(FILE *out) {
    uint64_t written = 0, most = 0, leaves = 0, accesses = 0, bytes = 0;
    for (struct block *one = blocks; one; one = one->next)
        if (was_executed(one)) {
            bytes += size_of(one);
            leaves += left(one);
            accesses += one->counters[0].now ? 0 : one->accesses.windows;
            if (bytes <= MOST_OUTPUT_BYTES)
                most++;
            else
                for (unsigned i = 0; i < one->count; i++)
                    lost.windows += completed(one, i);
        }
    fprintf(out, "swapstone-counts 1\n");
    fprintf(out, "begins %llu\n", (unsigned long long)window.begins);
    fprintf(out, "windows %llu\n", (unsigned long long)window.closed);
    fprintf(out, "open %d\n", window.open);
    fprintf(out, "left %llu\n", (unsigned long long)leaves);
    fprintf(out, "accesses %llu\n", (unsigned long long)accesses);
    fprintf(out, "lost %llu\n", (unsigned long long)lost.windows);
    fprintf(out, "blocks %llu\n\n", (unsigned long long)most);
    for (struct block *one = blocks; one && written < most; one = one->next)
        if (was_executed(one)) {
            put(out, one->address, 8);
            put(out, one->count, 2);
            put(out, one->code_size, 2);
            fwrite(one->sizes, 1, one->count, out);
            fwrite(one->code, 1, one->code_size, out);
            for (unsigned i = 0; i < one->count; i++)
                put(out, completed(one, i), 8);
            written++;
        }
}

const struct mode counts_mode = {"counts", translated, open_window, close_window, write_counts, NULL};
