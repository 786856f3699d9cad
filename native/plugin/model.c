// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Mode `model`: events of a modelled processor in the windows (processor.h): misses of its caches,
 * mispredicted branches, divides. The caches and the predictor follow the whole run, so a window begins with
 * what was executed before it.
 *
 * Data has its physical address. Of code QEMU passes the address of its copy in the emulator's memory. QEMU
 * aligns a guest's memory to 2 MiB (QEMU_VMALLOC_ALIGN), so both select the same sets. A line that is read
 * both as code and as data counts as two lines.
 *
 * A conditional branch ends its block. It was taken if the next block begins at its target, and not taken if
 * that begins behind it. After an interrupt neither is known.
 *
 * Instructions count when they complete, as in the mode `paths` (paths.c).
 *
 * Output: lines NAME VALUE.
 */
#include "blocks.h"
#include "instruction.h"
#include "plugin.h"
#include "processor.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 18, MOST_TRANSLATED = 1 << 21, PAGE_BYTES = 1 << 12 };

#define CODE (1ull << 63) /* in the number of a line of code */

/* Sizes and ways of Arm Cortex-A72 (Technical Reference Manual, 100095, 6.1 and 7.1), with an L2 of 1 MiB. */
static const struct geometry l1i = {48 << 10, 3}, l1d = {32 << 10, 2}, l2 = {1 << 20, 16};

/* What is counted. Up to FIRST_HIDDEN it is written, by these names. */
enum event {
    INSTRUCTIONS,
    LOST, /* instructions in blocks for which there was no room: not fetched, and their branches not predicted
           */
    LOADS,
    STORES,
    DEVICES, /* accesses to devices, which are no loads or stores here */
    UNSEEN,  /* instructions that write memory without a callback */
    L1I_ACCESSES,
    L1I_MISSES,
    L1D_ACCESSES,
    L1D_MISSES,
    L2_CODE_MISSES,
    L2_DATA_MISSES,
    BRANCHES, /* conditional branches whose outcome is known */
    MISPREDICTIONS,
    INTERRUPTED, /* conditional branches whose outcome is not known */
    DIVIDE_EVENTS,
    FIRST_HIDDEN = DIVIDE_EVENTS + DIVIDES,
    BEGUN = FIRST_HIDDEN, /* instructions that began */
    ENTERED,              /* blocks whose first instruction began */
    FINISHED,             /* blocks whose last instruction began */
    REPEATED, /* accesses to devices by an instruction that QEMU repeats in a block without callbacks */
    EVENTS,
};

static const char *const names[FIRST_HIDDEN] = {
    "instructions",   "lost",           "loads",        "stores",     "devices",        "unseen",
    "l1i_accesses",   "l1i_misses",     "l1d_accesses", "l1d_misses", "l2_code_misses", "l2_data_misses",
    "branches",       "mispredictions", "interrupted",  "divides_32", "divides_64",     "divides_single",
    "divides_double", "roots_single",   "roots_double",
};

static uint64_t now[EVENTS], opened[EVENTS], windows[EVENTS];
static struct processor processor;
static enum architecture architecture = OTHER_ARCHITECTURE;

/* A translated block. Equal ones are one, except those of one instruction. */
struct translation {
    struct translation *same_bucket;
    struct facts {
        uint64_t start, branch, behind,
            target;              /* addresses: the last three if it ends with a conditional branch */
        uint64_t first_lines[2]; /* of its code, on one page or two */
        uint32_t lines[2];
        uint64_t conditional;
    } facts;
    bool begun; /* whether it was entered, if it is a single instruction */
};

static struct translation *buckets[BUCKETS];
static size_t translation_count;

/* ==== Events ==== */

static const struct translation *previous; /* the block that was entered before */
static uint64_t finished_before;           /* the number of finished blocks when it was */

static void count_level(enum level level, enum event access, enum event l2_miss) {
    now[access]++;
    now[access + 1] += level != L1_HIT;
    now[l2_miss] += level == L2_MISS;
}

/* Counts the branch at the end of the previous block, given where the next one begins. */
static void resolve_branch(uint64_t next) {
    if (!previous || !previous->facts.conditional || now[FINISHED] == finished_before)
        return; /* without a branch, or left before it by a fault */
    const struct facts *facts = &previous->facts;
    if (next != facts->behind && next != facts->target) {
        now[INTERRUPTED]++;
        return;
    }
    now[BRANCHES]++;
    now[MISPREDICTIONS] += processor_mispredicts(&processor, facts->branch, next != facts->behind);
}

static void entered(unsigned number, void *data) {
    (void)number;
    struct translation *block = data;
    resolve_branch(block->facts.start);
    block->begun = true;
    previous = block;
    finished_before = now[FINISHED];
    for (unsigned page = 0; page < 2; page++)
        for (uint32_t i = 0; i < block->facts.lines[page]; i++)
            count_level(processor_access(&processor, &processor.l1i, block->facts.first_lines[page] + i),
                        L1I_ACCESSES, L2_CODE_MISSES);
}

static void accessed(unsigned number, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)number;
    const struct translation *alone = data;
    struct qemu_plugin_hwaddr *place = qemu_plugin_get_hwaddr(access, address);
    if (!place || qemu_plugin_hwaddr_is_io(place)) {
        now[DEVICES]++;
        now[REPEATED] += place && alone && !alone->begun;
        return;
    }
    uint64_t line = qemu_plugin_hwaddr_phys_addr(place) >> LINE_BITS;
    unsigned size = 1u << qemu_plugin_mem_size_shift(access);
    now[qemu_plugin_mem_is_store(access) ? STORES : LOADS]++;
    count_level(processor_access(&processor, &processor.l1d, line), L1D_ACCESSES, L2_DATA_MISSES);
    bool crosses = (address & (LINE_BYTES - 1)) + size > LINE_BYTES;
    if (crosses && (address & (PAGE_BYTES - 1)) + size <= PAGE_BYTES) /* the next page may be anywhere */
        count_level(processor_access(&processor, &processor.l1d, line + 1), L1D_ACCESSES, L2_DATA_MISSES);
}

/* ==== Translation ==== */

static struct translation *new_translation(const struct facts *facts) {
    struct translation *made = translation_count < MOST_TRANSLATED ? calloc(1, sizeof *made) : NULL;
    if (made) {
        made->facts = *facts;
        translation_count++;
    }
    return made;
}

/* Returns the block with these facts; NULL if there is no room. QEMU translates a block again after it
 * discarded its translation. */
static struct translation *find_translation(const struct facts *facts) {
    struct translation **bucket = &buckets[hash(HASH_START, facts, sizeof *facts) % BUCKETS];
    for (struct translation *one = *bucket; one; one = one->same_bucket)
        if (memcmp(&one->facts, facts, sizeof *facts) == 0)
            return one;
    struct translation *made = new_translation(facts);
    if (made) {
        made->same_bucket = *bucket;
        *bucket = made;
    }
    return made;
}

/* Adds the lines of an instruction to those of its block. */
static void add_code(struct facts *facts, const struct qemu_plugin_insn *instruction) {
    uint64_t address = (uintptr_t)qemu_plugin_insn_haddr(instruction);
    if (!address)
        address = qemu_plugin_insn_vaddr(instruction);
    uint64_t line = address >> LINE_BITS | CODE,
             end = (address + qemu_plugin_insn_size(instruction) - 1) >> LINE_BITS | CODE;
    unsigned page = facts->lines[1] || (facts->lines[0] && line - facts->first_lines[0] > facts->lines[0]);
    if (!facts->lines[page]) {
        facts->first_lines[page] = line;
        facts->lines[page] = 1;
    }
    if (end - facts->first_lines[page] >= facts->lines[page])
        facts->lines[page] = (uint32_t)(end - facts->first_lines[page]) + 1;
}

static void add_each_time(struct qemu_plugin_insn *instruction, enum event event) {
    qemu_plugin_register_vcpu_insn_exec_inline(instruction, QEMU_PLUGIN_INLINE_ADD_U64, &now[event], 1);
}

static void count_kind(struct qemu_plugin_insn *instruction) {
    const unsigned char *code = qemu_plugin_insn_data(instruction);
    size_t size = qemu_plugin_insn_size(instruction);
    enum divide divide = divide_of(architecture, code, size);
    if (divide != DIVIDES)
        add_each_time(instruction, DIVIDE_EVENTS + divide);
    if (writes_unseen(architecture, code, size))
        add_each_time(instruction, UNSEEN);
}

static void find_branch(struct facts *facts, const struct qemu_plugin_insn *instruction) {
    uint64_t address = qemu_plugin_insn_vaddr(instruction);
    size_t size = qemu_plugin_insn_size(instruction);
    if (!is_conditional(architecture, qemu_plugin_insn_data(instruction), size, address, &facts->target))
        return;
    facts->conditional = 1;
    facts->behind = address + size;
    facts->branch =
        architecture == ARM64 ? address >> 2 : address; /* what the predictor's index is made of */
}

static void translated(struct qemu_plugin_tb *tb, size_t count) {
    struct facts facts = {.start = qemu_plugin_tb_vaddr(tb)};
    for (size_t i = 0; i < count; i++)
        add_code(&facts, qemu_plugin_tb_get_insn(tb, i));
    find_branch(&facts, qemu_plugin_tb_get_insn(tb, count - 1));
    struct translation *block = count == 1 ? new_translation(&facts) : find_translation(&facts);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        if (block && i == 0) {
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, entered, QEMU_PLUGIN_CB_NO_REGS, block);
            add_each_time(instruction, ENTERED);
        }
        if (block && i == count - 1)
            add_each_time(instruction, FINISHED);
        add_each_time(instruction, block ? BEGUN : LOST);
        count_kind(instruction);
        qemu_plugin_register_vcpu_mem_cb(instruction, accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                         count == 1 ? block : NULL);
    }
}

/* ==== Windows and output ==== */

static const char *start(const char *target) {
    architecture = architecture_of(target);
    if (architecture == OTHER_ARCHITECTURE)
        return "it does not observe machines of this architecture";
    return processor_init(&processor, l1i, l1d, l2) ? NULL : "there is no memory";
}

static void open_window(void) {
    memcpy(opened, now, sizeof opened);
}

static void close_window(void) {
    for (unsigned i = 0; i < EVENTS; i++)
        windows[i] += now[i] - opened[i];
}

static void write_events(FILE *out) {
    /* A window may begin inside a block, which was entered before it. */
    windows[INSTRUCTIONS] = windows[BEGUN] + windows[REPEATED] + windows[FINISHED] - windows[ENTERED];
    const struct line lines[] = {
        {"begins", window.begins},  {"windows", window.closed},    {"open", window.open},
        {"l1i_bytes", l1i.bytes},   {"l1i_ways", l1i.ways},        {"l1d_bytes", l1d.bytes},
        {"l1d_ways", l1d.ways},     {"l2_bytes", l2.bytes},        {"l2_ways", l2.ways},
        {"line_bytes", LINE_BYTES}, {"history_bits", HISTORY_BITS}};
    fprintf(out, "swapstone-model 1\n");
    put_lines(out, lines, sizeof lines / sizeof *lines);
    for (unsigned i = 0; i < FIRST_HIDDEN; i++)
        put_lines(out, &(struct line){names[i], windows[i]}, 1);
}

const struct mode model_mode = {"model", translated, open_window, close_window, write_events, start};
