// SPDX-License-Identifier: MIT OR Apache-2.0
#include "blocks.h"

#include "plugin.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 1 << 18, MOST_CODE = 1 << 15, MOST_INSTRUCTIONS = 1 << 12 };

struct block *blocks;
uint32_t block_count = 1;

static uint32_t buckets[BUCKETS];
static unsigned char code[MOST_CODE], sizes[MOST_INSTRUCTIONS];

bool blocks_init(void) {
    blocks = calloc(MOST_BLOCKS, sizeof *blocks);
    return blocks != NULL;
}

uint64_t hash(uint64_t value, const void *bytes, size_t size) {
    for (const unsigned char *byte = bytes; size--; byte++)
        value = (value ^ *byte) * 1099511628211u;
    return value;
}

static bool is_block(const struct block *one, uint64_t address, size_t count, size_t code_size) {
    return one->address == address && one->count == count && one->code_size == code_size &&
           memcmp(one->code, code, code_size) == 0 && memcmp(one->sizes, sizes, count) == 0;
}

uint32_t find_block(struct qemu_plugin_tb *tb, size_t count) {
    uint64_t address = qemu_plugin_tb_vaddr(tb);
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        size_t size = qemu_plugin_insn_size(instruction);
        if (i == MOST_INSTRUCTIONS || used + size > MOST_CODE || size > UCHAR_MAX)
            return 0;
        memcpy(code + used, instruction_bytes(instruction), size);
        sizes[i] = (unsigned char)size;
        used += size;
    }
    uint64_t digest = hash(HASH_START, &address, sizeof address);
    uint32_t *bucket = &buckets[hash(hash(digest, code, used), sizes, count) % BUCKETS];
    for (uint32_t one = *bucket; one; one = blocks[one].same_bucket)
        if (is_block(&blocks[one], address, count, used))
            return one;
    unsigned char *bytes = block_count < MOST_BLOCKS ? malloc(used + count) : NULL;
    if (!bytes)
        return 0;
    memcpy(bytes, code, used);
    memcpy(bytes + used, sizes, count);
    blocks[block_count] = (struct block){.address = address,
                                         .count = (unsigned)count,
                                         .code_size = (unsigned)used,
                                         .code = bytes,
                                         .sizes = bytes + used,
                                         .same_bucket = *bucket};
    return *bucket = block_count++;
}

void put_lines(FILE *out, const struct line *lines, size_t count) {
    for (size_t i = 0; i < count; i++)
        fprintf(out, "%s %llu\n", lines[i].name, (unsigned long long)lines[i].value);
}

void put(FILE *out, uint64_t number, unsigned bytes) {
    for (; bytes; bytes--, number >>= 8)
        putc((int)(number & 255), out);
}

uint32_t number_blocks(void) {
    uint32_t used = 0;
    blocks[0].number = 0;
    for (uint32_t i = 1; i < block_count; i++)
        if (blocks[i].number)
            blocks[i].number = ++used;
    return used;
}

void put_blocks(FILE *out) {
    for (uint32_t i = 1; i < block_count; i++)
        if (blocks[i].number) {
            put(out, blocks[i].address, 8);
            put(out, blocks[i].count, 2);
            put(out, blocks[i].code_size, 2);
            fwrite(blocks[i].sizes, 1, blocks[i].count, out);
            fwrite(blocks[i].code, 1, blocks[i].code_size, out);
        }
}
