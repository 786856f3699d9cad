// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The part of QEMU's plugin interface that is used here: versions 1 (QEMU 7.2) to 4 (10.0). QEMU resolves
 * these names when it loads a plugin. Their meaning is documented in QEMU's "TCG Plugins" page
 * (docs/devel/tcg-plugins.rst) and in include/qemu/qemu-plugin.h.
 */
#ifndef SWAPSTONE_QEMU_PLUGIN_H
#define SWAPSTONE_QEMU_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SOME_VERSIONS __attribute__((weak)) /* null in the others */

typedef uint64_t qemu_plugin_id_t;
typedef uint32_t qemu_plugin_meminfo_t;

/* What QEMU passes to qemu_plugin_install(). The versions are those of the interface that it supports. */
typedef struct {
    const char *target_name;
    struct {
        int min, cur;
    } version;
    bool system_emulation;
    struct {
        int smp_vcpus, max_vcpus;
    } system;
} qemu_info_t;

struct qemu_plugin_tb;     /* a block of instructions that are translated together */
struct qemu_plugin_insn;   /* an instruction of it; valid while the block is translated */
struct qemu_plugin_hwaddr; /* a place in physical memory or of a device */

enum qemu_plugin_cb_flags { QEMU_PLUGIN_CB_NO_REGS };
enum qemu_plugin_mem_rw { QEMU_PLUGIN_MEM_W = 2, QEMU_PLUGIN_MEM_RW = 3 };
enum qemu_plugin_op { QEMU_PLUGIN_INLINE_ADD_U64 };

typedef void (*translated_callback)(qemu_plugin_id_t id, struct qemu_plugin_tb *block);
typedef void (*executed_callback)(unsigned processor, void *data);
typedef void (*access_callback)(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address,
                                void *data);
typedef void (*exit_callback)(qemu_plugin_id_t id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(qemu_plugin_id_t id, translated_callback function);
void qemu_plugin_register_atexit_cb(qemu_plugin_id_t id, exit_callback function, void *data);
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *block, executed_callback function,
                                          enum qemu_plugin_cb_flags flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *instruction, executed_callback function,
                                            enum qemu_plugin_cb_flags flags, void *data);
/* In version 1 alone. */
SOME_VERSIONS void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *instruction,
                                                              enum qemu_plugin_op operation, void *counter,
                                                              uint64_t summand);
/* From version 2 on: counters of each processor are the elements of a scoreboard. */
struct qemu_plugin_scoreboard;
typedef struct {
    struct qemu_plugin_scoreboard *board;
    size_t offset; /* of the counter in an element */
} qemu_plugin_u64;
SOME_VERSIONS struct qemu_plugin_scoreboard *qemu_plugin_scoreboard_new(size_t element_size);
SOME_VERSIONS void *qemu_plugin_scoreboard_find(struct qemu_plugin_scoreboard *board, unsigned processor);
SOME_VERSIONS void qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(struct qemu_plugin_insn *instruction,
                                                                       enum qemu_plugin_op operation,
                                                                       qemu_plugin_u64 counter,
                                                                       uint64_t summand);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *instruction, access_callback function,
                                      enum qemu_plugin_cb_flags flags, enum qemu_plugin_mem_rw kind,
                                      void *data);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(qemu_plugin_meminfo_t access, uint64_t address);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *place);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *place);
bool qemu_plugin_mem_is_store(qemu_plugin_meminfo_t access);
unsigned qemu_plugin_mem_size_shift(qemu_plugin_meminfo_t access);

size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *block);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *block);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *block, size_t index);
/* From version 3 on it copies an instruction and returns its size. Before, it has one argument and returns
 * the address of the instruction. */
uintptr_t qemu_plugin_insn_data(const struct qemu_plugin_insn *instruction, void *copy, size_t size);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *instruction);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *instruction);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *instruction); /* of its copy in QEMU's memory */

#endif
