// SPDX-License-Identifier: MIT OR Apache-2.0
/* Blocks of instructions that QEMU translated, each once, and how the modes write their output. */
#ifndef SWAPSTONE_BLOCKS_H
#define SWAPSTONE_BLOCKS_H

#include "qemu_plugin.h"

#include <stdio.h>

enum { MOST_BLOCKS = 1 << 20 };

struct block {
    uint64_t address;
    unsigned count, code_size;
    unsigned char *code, *sizes; /* of all instructions; of each */
    uint32_t same_bucket;
    uint32_t number; /* in the output, from 1; 0 if it is not written */
};

/* Block 0 stands for those that found no room. */
extern struct block *blocks;
extern uint32_t block_count;

/* Makes an empty table. Returns whether there is memory for it. */
bool blocks_init(void);

/* Returns the number of the block with these instructions at this address; 0 if there is no room. QEMU
 * translates a block again after it discarded its translation. */
uint32_t find_block(struct qemu_plugin_tb *tb, size_t count);

/* FNV-1a, 64 bits; begins with HASH_START. */
#define HASH_START 14695981039346656037u
uint64_t hash(uint64_t value, const void *bytes, size_t size);

/* A line of text, NAME VALUE. */
struct line {
    const char *name;
    uint64_t value;
};

void put_lines(FILE *out, const struct line *lines, size_t count);

/* Writes a number, little-endian. */
void put(FILE *out, uint64_t number, unsigned bytes);

/* Numbers the blocks whose `number` is set, and returns how many they are. */
uint32_t number_blocks(void);

/* Writes the numbered blocks: 8 bytes virtual address, 2 bytes number of the instructions, 2 bytes size of
 * their code, a byte for the size of each instruction, the code. */
void put_blocks(FILE *out);

#endif
