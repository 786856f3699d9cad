// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Mode `wakeups`: what the machine executed before the worst value that a program counted in a histogram.
 *
 *     text=FILE,low=ADDRESS,entry=ADDRESS[,mark=ADDRESS,keep=N]
 *
 * FILE has the bytes of the program's executable segment, which begins at address `low` of its ELF file, and
 * `entry` is the address of the program's first instruction. The program may be loaded at any address, and
 * another one may be at the same address. So a block belongs to the program if its bytes are those of the
 * segment; the first one at `entry` gives the difference of the addresses.
 *
 * Without `mark`, each instruction of the program that writes to memory is listed, with the addresses that it
 * wrote to. The one that increments the histogram is recognised by them (instruments/wakeup_trace.py). `mark`
 * is its address in the ELF file. Then every block that the machine executes is kept in a ring. When the mark
 * writes to a higher address than before, its value is a new maximum, and the ring is copied. Output is the
 * last copy: about the `keep` instructions before the maximum.
 *
 * Output, after the lines of text and an empty line (all numbers little-endian):
 *
 *     for each write    6 * 8 bytes: address of the instruction in the ELF file, its executions, the
 *                       address that it wrote to first, the lowest, the highest, and the sum of the
 *                       distances from the first
 *     the blocks (blocks.h)
 *     for each step     4 bytes number of a block, from 1; 0 for one that found no room. 4 bytes how
 *                       many of its instructions began
 */
#include "blocks.h"
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096, RING = 1 << 22, MOST_TEXT = 16 << 20 };

struct write {
    struct write *next;
    uint64_t instruction, executions, lowest, highest, distances, first;
};

/* A block, and the number of instructions that were executed before it, modulo 2^32. */
struct step {
    uint32_t block, before;
};

struct watched watched;

static unsigned char *text;
static size_t text_size;
static uint64_t base; /* virtual address minus address in the ELF file */
static bool base_known;

static struct write *writes, **write_at; /* all; by position in the text */
static uint64_t marks, maximum, cycle;

static uint64_t executed; /* incremented before each instruction */
static struct step *ring, *kept;
static uint64_t steps, kept_steps;
static uint32_t kept_executed;

/* ==== The program ==== */

/* Returns why nothing can be observed; NULL if it can. */
static const char *start(const char *target) {
    (void)target;
    FILE *in = watched.text ? fopen(watched.text, "rb") : NULL;
    text = in ? malloc(MOST_TEXT) : NULL;
    text_size = text ? fread(text, 1, MOST_TEXT, in) : 0;
    bool whole = text_size && feof(in);
    if (in)
        fclose(in);
    if (!whole)
        return "text=FILE can't be read, or has no or too many bytes";
    write_at = calloc(text_size, sizeof *write_at);
    ring = calloc(RING, sizeof *ring);
    kept = calloc(RING, sizeof *kept);
    return blocks_init() && write_at && ring && kept ? NULL : "there is no memory";
}

/* Returns whether the program has a block's bytes at an address of the ELF file. */
static bool has(uint64_t address, const struct block *block) {
    uint64_t at = address - watched.low;
    return at < text_size && block->code_size <= text_size - at &&
           memcmp(text + at, block->code, block->code_size) == 0;
}

/* Returns whether a block is the program's. */
static bool is_program(const struct block *block) {
    uint64_t distance = block->address - watched.entry;
    if (!base_known && distance % PAGE == 0 && has(watched.entry, block)) {
        base = distance;
        base_known = true;
    }
    return base_known && has(block->address - base, block);
}

/* ==== Writes to memory ==== */

static void wrote(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor;
    struct write *write = data;
    if (!qemu_plugin_mem_is_store(access)) /* QEMU 7.2 also reports the loads of instructions that do both */
        return;
    if (write->executions++ == 0)
        write->first = write->lowest = write->highest = address;
    write->lowest = address < write->lowest ? address : write->lowest;
    write->highest = address > write->highest ? address : write->highest;
    write->distances += address - write->first;
}

static struct write *find_write(uint64_t instruction) {
    struct write **place = &write_at[instruction - watched.low];
    if (!*place && (*place = calloc(1, sizeof **place))) {
        (*place)->instruction = instruction;
        (*place)->next = writes;
        writes = *place;
    }
    return *place;
}

static void reached_mark(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor, (void)data;
    if (!qemu_plugin_mem_is_store(access))
        return;
    marks++;
    if (address <= maximum)
        return;
    maximum = address;
    cycle = marks;
    kept_steps = steps < RING ? steps : RING;
    kept_executed = (uint32_t)executed;
    for (uint64_t i = 0; i < kept_steps; i++)
        kept[i] = ring[(steps - kept_steps + i) % RING];
}

static void watch_program(struct qemu_plugin_tb *tb, size_t count) {
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        uint64_t address = qemu_plugin_insn_vaddr(instruction) - base;
        struct write *write = watched.mark ? NULL : find_write(address);
        if (write || (watched.mark && address == watched.mark))
            qemu_plugin_register_vcpu_mem_cb(instruction, write ? wrote : reached_mark,
                                             QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W, write);
    }
}

/* ==== Blocks ==== */

static void began(unsigned processor, void *data) {
    (void)processor;
    ring[steps++ % RING] = (struct step){(uint32_t)(uintptr_t)data, (uint32_t)executed};
}

static void translated(struct qemu_plugin_tb *tb, size_t count) {
    uint32_t number = find_block(tb, count);
    if (number && is_program(&blocks[number]))
        watch_program(tb, count);
    if (!watched.mark)
        return;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, began, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)number);
    for (size_t i = 0; i < count; i++)
        count_executions(qemu_plugin_tb_get_insn(tb, i), &executed, 1);
}

/* The whole run is observed. */
static void open_window(void) {}
static void close_window(void) {}

/* ==== Output ==== */

static void put_write(FILE *out, const struct write *write) {
    const uint64_t numbers[] = {write->instruction, write->executions, write->first,
                                write->lowest,      write->highest,    write->distances};
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        put(out, numbers[i], 8);
}

static uint32_t after(uint64_t step) {
    return step + 1 < kept_steps ? kept[step + 1].before : kept_executed;
}

/* Returns the first of the kept steps that are written: with it they have `keep` instructions. */
static uint64_t first_written(void) {
    uint64_t first = kept_steps, sum = 0;
    for (; first && sum < watched.keep; first--)
        sum += after(first - 1) - kept[first - 1].before;
    return first;
}

static void write_wakeups(FILE *out) {
    uint64_t first = first_written(), written = 0;
    for (uint64_t i = first; i < kept_steps; i++)
        blocks[kept[i].block].number = 1;
    for (struct write *one = writes; one; one = one->next)
        written += one->executions != 0;
    const struct line lines[] = {{"base", base},
                                 {"marks", marks},
                                 {"cycle", cycle},
                                 {"maximum", maximum},
                                 {"writes", written},
                                 {"cut", first > 0 || steps > RING},
                                 {"blocks", number_blocks()},
                                 {"steps", kept_steps - first}};
    fprintf(out, "swapstone-wakeups 2\n");
    put_lines(out, lines, sizeof lines / sizeof *lines);
    putc('\n', out);
    for (struct write *one = writes; one; one = one->next)
        if (one->executions)
            put_write(out, one);
    put_blocks(out);
    for (uint64_t i = first; i < kept_steps; i++) {
        put(out, blocks[kept[i].block].number, 4);
        put(out, after(i) - kept[i].before, 4);
    }
}

const struct mode wakeups_mode = {"wakeups", translated, open_window, close_window, write_wakeups, start};
