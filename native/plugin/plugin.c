// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * A plugin of QEMU's code generator, which observes a machine on the instruction clock. The guest can't
 * observe it: a run with the plugin gives the same bytes (docs/explain.md, "Records of virtual machines").
 *
 *     -plugin swapstone-plugin.so,out=FILE,mode=paths[,begin=ADDRESS,end=ADDRESS[,cycle=N,first=N,last=N]]
 *
 * FILE must not exist. It is written when the machine ends. Without `begin` the whole run is observed. With
 * it, a window begins before the instruction at address `begin` is executed for the n-th time, if n modulo
 * `cycle` is `first`, and ends before that at `end` is executed for the n-th time, if n modulo `cycle` is
 * `last`.
 *
 * Each mode is one file with a `struct mode`. A file of output starts with lines of text, NAME VALUE, of
 * which the first is the format with its version. It ends with "end\n", so a truncated one is recognised.
 */
#include "plugin.h"

#include "instruction.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

__attribute__((visibility("default"))) int qemu_plugin_version = 1;
__attribute__((visibility("default"))) int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info,
                                                               int count, char **arguments);

enum { PAGE_BYTES = 4096, LONGEST_BYTES = 15 }; /* of an instruction of x86_64 */

struct window window = {.cycle = 1};

static const struct mode *const modes[] = {&paths_mode, &tasks_mode, &wakeups_mode};
static const struct mode *mode;
static enum architecture architecture;
static const char *out_path;
static FILE *out;

static bool copies; /* whether qemu_plugin_insn_data() does */

/* QEMU reads the version after this. Up to QEMU 8.2 it must be 1, and later it must not. */
__attribute__((constructor)) static void choose_version(void) {
    if (!qemu_plugin_register_vcpu_insn_exec_inline)
        qemu_plugin_version = 2;
}

void count_executions(struct qemu_plugin_insn *instruction, uint64_t *counter, uint64_t summand) {
    static struct qemu_plugin_scoreboard *board;
    static uintptr_t only; /* element: the machine has one processor */
    if (qemu_plugin_register_vcpu_insn_exec_inline) {
        qemu_plugin_register_vcpu_insn_exec_inline(instruction, QEMU_PLUGIN_INLINE_ADD_U64, counter, summand);
        return;
    }
    if (!board) {
        board = qemu_plugin_scoreboard_new(sizeof *counter);
        only = (uintptr_t)qemu_plugin_scoreboard_find(board, 0);
    }
    /* QEMU adds the offset to the element's address. */
    qemu_plugin_u64 place = {board, (uintptr_t)counter - only};
    qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(instruction, QEMU_PLUGIN_INLINE_ADD_U64, place,
                                                        summand);
}

const unsigned char *instruction_bytes(const struct qemu_plugin_insn *instruction) {
    static unsigned char copy[UCHAR_MAX];
    uintptr_t found = qemu_plugin_insn_data(instruction, copy, sizeof copy);
    return copies ? copy : (const unsigned char *)found;
}

static int complain(const char *what, const char *text) {
    fprintf(stderr, "swapstone-plugin: %s: %s\n", what, text);
    return 1;
}

static void reached_begin(unsigned processor, void *data) {
    (void)processor, (void)data;
    if (++window.begins % window.cycle == window.first && !window.open) {
        window.open = true;
        mode->open();
    }
}

static void reached_end(unsigned processor, void *data) {
    (void)processor, (void)data;
    if (++window.ends % window.cycle == window.last && window.open) {
        window.open = false;
        window.closed++;
        mode->close();
    }
}

/* Returns how many instructions a block has. QEMU 7.2 lists one more on x86_64 if that crosses a page: it
 * drops it when it has read its bytes on the first page (target/i386/tcg/translate.c: advance_pc), and
 * translates it in the next block. */
static size_t count_instructions(const struct qemu_plugin_tb *block) {
    size_t count = qemu_plugin_tb_n_insns(block);
    const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(block, count - 1);
    bool at_end = qemu_plugin_insn_vaddr(last) % PAGE_BYTES + LONGEST_BYTES > PAGE_BYTES;
    bool listed = architecture == X86_64 && count > 1 && at_end &&
                  !is_complete(instruction_bytes(last), qemu_plugin_insn_size(last));
    return count - listed;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *block) {
    (void)id;
    size_t count = count_instructions(block);
    for (size_t i = 0; window.limited && i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(block, i);
        uint64_t address = qemu_plugin_insn_vaddr(instruction);
        if (address == window.end)
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, reached_end, QEMU_PLUGIN_CB_NO_REGS, NULL);
        if (address == window.begin)
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, reached_begin, QEMU_PLUGIN_CB_NO_REGS, NULL);
    }
    mode->translated(block, count);
}

static void ended(qemu_plugin_id_t id, void *data) {
    (void)id, (void)data;
    if (window.open)
        mode->close();
    mode->write(out);
    fputs("end\n", out);
    if (ferror(out) || fclose(out) != 0)
        complain(out_path, strerror(errno));
}

/* Parses a whole unsigned number, decimal or with 0x. Returns whether the text is one. */
static bool parse(const char *text, uint64_t *number) {
    char *rest;
    errno = 0;
    *number = strtoull(text, &rest, 0);
    return *text >= '0' && *text <= '9' && errno == 0 && *rest == 0;
}

/* Applies one argument NAME=VALUE. Returns whether it is valid. */
static bool set(const char *argument) {
    static const struct {
        const char *name;
        uint64_t *number;
        const char **text; /* in place of a number */
    } known[] = {
        {"begin", &window.begin, NULL},    {"end", &window.end, NULL},
        {"cycle", &window.cycle, NULL},    {"first", &window.first, NULL},
        {"last", &window.last, NULL},      {"low", &watched.low, NULL},
        {"entry", &watched.entry, NULL},   {"mark", &watched.mark, NULL},
        {"keep", &watched.keep, NULL},     {"exec", &paths_exec, NULL},
        {"switch", &paths_switch, NULL},   {"switch_end", &paths_switch_end, NULL},
        {"vectors", &paths_vectors, NULL}, {"follow", &paths_follow, NULL},
        {"out", NULL, &out_path},          {"text", NULL, &watched.text},
        {"points", NULL, &tasks_points},
    };
    const char *value = strchr(argument, '=');
    size_t length = value ? (size_t)(value - argument) : 0;
    if (!value++)
        return false;
    if (length == 4 && memcmp(argument, "mode", length) == 0) {
        for (size_t i = 0; i < sizeof modes / sizeof *modes; i++)
            if (strcmp(value, modes[i]->name) == 0)
                mode = modes[i];
        return mode != NULL;
    }
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (length == strlen(known[i].name) && memcmp(argument, known[i].name, length) == 0) {
            window.limited |= known[i].number == &window.begin;
            if (known[i].text)
                *known[i].text = value;
            return known[i].text || parse(value, known[i].number);
        }
    return false;
}

int qemu_plugin_install(qemu_plugin_id_t id, const qemu_info_t *info, int count, char **arguments) {
    if (!info->system_emulation || info->system.max_vcpus != 1)
        return complain("unsupported", "the machine has more than one processor");
    copies = info->version.cur >= 3;
    for (int i = 0; i < count; i++)
        if (!set(arguments[i]))
            return complain("invalid argument", arguments[i]);
    if (!out_path || !mode || window.cycle == 0)
        return complain("usage", "out=FILE,mode=NAME[,begin=ADDRESS,end=ADDRESS[,cycle=N,first=N,last=N]]");
    architecture = architecture_of(info->target_name);
    const char *problem = mode->start ? mode->start(info->target_name) : NULL;
    if (problem)
        return complain(mode->name, problem);
    int file = open(out_path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    out = file < 0 ? NULL : fdopen(file, "wb");
    if (!out)
        return complain(out_path, strerror(errno));
    if (!window.limited) {
        window.open = true;
        mode->open();
    }
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_atexit_cb(id, ended, NULL);
    return 0;
}
