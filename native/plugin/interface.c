// SPDX-License-Identifier: MIT OR Apache-2.0
#include "interface.h"

enum { LONGEST = 256, WITH_COPY = 3 };

/* QEMU 9.0 and newer load only plugins that request a version from 2 on, and older ones no later than 1. */
__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((constructor)) static void choose_version(void) {
    if (qemu_plugin_scoreboard_new)
        qemu_plugin_version = 2;
}

static uint64_t own[MOST_COUNTERS];
uint64_t *counters = own;
static struct qemu_plugin_scoreboard *board;
static bool copies;

void interface_start(int version) {
    copies = version >= WITH_COPY;
    if (qemu_plugin_scoreboard_new)
        board = qemu_plugin_scoreboard_new(sizeof own);
}

void find_counters(void) {
    if (board)
        counters = qemu_plugin_scoreboard_find(board, 0);
}

void count_each_time(struct qemu_plugin_insn *instruction, const uint64_t *counter, uint64_t summand) {
    size_t place = (size_t)(counter - counters);
    if (board)
        qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
            instruction, QEMU_PLUGIN_INLINE_ADD_U64, (qemu_plugin_u64){board, place * sizeof *own}, summand);
    else
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, QEMU_PLUGIN_INLINE_ADD_U64, own + place,
                                                   summand);
}

const unsigned char *code_of(const struct qemu_plugin_insn *instruction) {
    static unsigned char copy[LONGEST];
    const void *bytes = qemu_plugin_insn_data(instruction, copy, sizeof copy);
    return copies ? copy : bytes;
}
