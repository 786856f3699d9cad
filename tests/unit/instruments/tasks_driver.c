// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Runs the plugin's mode `tasks` without an emulator, for tests: `tasks_driver TARGET POINTS`.
 *
 * Reads lines:
 *
 *     b ADDRESS BYTES...           translate a block: the address of its first instruction, the bytes of each
 *     x ADDRESS COUNT              execute the first COUNT instructions of the block at an address
 *     s ADDRESS PLACE              the instruction at an address, of any block, stores to a place
 *     l ADDRESS PLACE              it loads from there
 *
 * At the end it prints what the mode writes.
 */
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

enum { MOST = 64, CALLBACKS = 4 };

struct qemu_plugin_insn {
    uint64_t address;
    unsigned char code[16];
    size_t size;
    uint64_t *counters[CALLBACKS], summands[CALLBACKS];
    executed_callback executed;
    access_callback accessed;
    void *data;
};

struct qemu_plugin_tb {
    struct qemu_plugin_insn instructions[MOST];
    size_t count;
};

static struct qemu_plugin_tb blocks[MOST];
static size_t block_count;
struct window window;
struct watched watched;

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block) {
    return block->count;
}
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index) {
    return (struct qemu_plugin_insn *)&block->instructions[index];
}
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block) {
    return block->instructions[0].address;
}
const unsigned char *instruction_bytes(const struct qemu_plugin_insn *instruction) {
    return instruction->code;
}
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *instruction) {
    return instruction->size;
}
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction) {
    return instruction->address;
}
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t access) {
    return access;
}
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction, executed_callback function,
                                            enum qemu_plugin_cb_flags flags, void *data) {
    (void)flags;
    instruction->executed = function;
    instruction->data = data;
}
void count_executions(struct qemu_plugin_insn *instruction, uint64_t *counter, uint64_t summand) {
    size_t place = 0;
    while (instruction->counters[place])
        place++;
    instruction->counters[place] = counter;
    instruction->summands[place] = summand;
}
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *instruction, access_callback function,
                                      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw kind,
                                      void *data) {
    (void)flags, (void)kind, (void)data;
    instruction->accessed = function;
}

static void translate(uint64_t address, char *codes) {
    struct qemu_plugin_tb *block = &blocks[block_count++];
    for (char *code = strtok(codes, " \n"); code; code = strtok(NULL, " \n")) {
        struct qemu_plugin_insn *one = &block->instructions[block->count++];
        one->address = address;
        for (unsigned byte; sscanf(code, "%2x", &byte) == 1; code += 2)
            one->code[one->size++] = (unsigned char)byte;
        address += one->size;
    }
    tasks_mode.translated(block, block->count);
}

static void execute(uint64_t address, size_t count) {
    for (size_t i = block_count; i--;)
        if (blocks[i].instructions[0].address == address) {
            for (size_t at = 0; at < count; at++) {
                struct qemu_plugin_insn *one = &blocks[i].instructions[at];
                if (one->executed)
                    one->executed(0, one->data);
                for (size_t place = 0; one->counters[place]; place++)
                    *one->counters[place] += one->summands[place];
            }
            return;
        }
}

static void touch(uint64_t address, uint64_t place, bool store) {
    for (size_t i = 0; i < block_count; i++)
        for (size_t at = 0; at < blocks[i].count; at++)
            if (blocks[i].instructions[at].address == address && blocks[i].instructions[at].accessed)
                blocks[i].instructions[at].accessed(0, store, place, NULL);
}

int main(int count, char **arguments) {
    tasks_points = count > 2 ? arguments[2] : NULL;
    const char *problem = tasks_mode.start(count > 1 ? arguments[1] : "");
    if (problem) {
        puts(problem);
        return 0;
    }
    static char line[4096];
    unsigned long long address, number;
    int used;
    while (fgets(line, sizeof line, stdin))
        if (sscanf(line, "b %llx%n", &address, &used) == 1)
            translate(address, line + used);
        else if (sscanf(line, "x %llx %llu", &address, &number) == 2)
            execute(address, number);
        else if (sscanf(line, "%*1[sl] %llx %llx", &address, &number) == 2)
            touch(address, number, *line == 's');
        else
            return 2;
    tasks_mode.write(stdout);
    return 0;
}
