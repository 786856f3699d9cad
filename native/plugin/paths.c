// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Mode `paths`: how often each block was executed in the windows, by the calls that led to it.
 *
 *     [follow=1][,exec=ADDRESS][,switch=ADDRESS,switch_end=ADDRESS,vectors=ADDRESS]
 *
 * Without `follow` no call is followed: nothing has a path. `exec` is the address of the kernel's function
 * where a thread gets a new program: it has none of the former callers. The others are needed on arm64: where
 * the function that switches threads begins and where it ends, and the exception vectors. Calls are followed
 * by shadow_stacks.c on x86_64 and by link_stacks.c on arm64.
 *
 * A path is a list of blocks that end with a call and have not been returned to. Below user code, the last
 * block before the kernel was entered is a part of it too. Paths are nodes of a tree: each is a block below a
 * path. A leaf is one, too: a block below the path that led to it, of which some instructions began.
 *
 * Instructions are counted when they begin. One that faults begins again when it is repeated, but QEMU's
 * clock counts it once. So an instruction counts as completed when the next one of its block begins; of the
 * last one of a block, attempts are counted. An access to a device in the middle of a block makes QEMU leave
 * the block and execute this instruction in a block of its own, for which it calls back accesses to memory
 * only (QEMU 7.2, accel/tcg/translate-all.c: cpu_io_recompile).
 *
 * Output, after the lines of text and an empty line (all numbers little-endian):
 *
 *     the blocks (blocks.h)
 *     for each path     4 bytes number of the path above it, from 1; 0 for none. 4 bytes number of a block,
 *                       from 1; 0 if there was no room for this path, so it stands for all such
 *     for each leaf     4 bytes number of a path, or 0. 4 bytes number of the block, 4 bytes how many of its
 *                       instructions began, 4 bytes that are 0, 8 bytes how often
 *
 * A path is behind the one above it.
 */
#include "blocks.h"
#include "instruction.h"
#include "interface.h"
#include "link_stacks.h"
#include "plugin.h"
#include "shadow_stacks.h"

#include <stdlib.h>

enum {
    BUCKETS = 1 << 19,
    MOST_OF_EACH = 1 << 20, /* paths, and leaves */
    MOST_SINGLES = 1 << 20,
    MOST_DEPTH = 200,
    FULL = 1 /* the path that stands for those that found no room */
};

#define NUMBER(pointer) ((uint32_t)(uintptr_t)(pointer))

/* What is known of a block. */
struct site {
    enum flow flow;        /* behind its last instruction, on arm64 */
    uint32_t caller, path; /* the last path that was extended by this block, and the result */
    uint32_t leaf;         /* the last one that was executed whole */
};

/* A path, or a leaf. */
struct node {
    uint64_t times; /* that the leaf was executed */
    uint32_t above, block, same_bucket, number;
    unsigned began, depth; /* instructions of the leaf that began, 0 of a path; blocks of the path */
};

/* A translation of a block of one instruction. */
struct single {
    uint32_t block;
    bool begun;
};

uint64_t paths_follow, paths_exec, paths_switch, paths_switch_end, paths_vectors;

static enum architecture architecture = OTHER_ARCHITECTURE; /* whose calls are followed */

/* The first of each stands for none. */
static struct site *sites; /* by the number of a block */
static struct node *nodes;
static uint32_t node_count = FULL + 1, counts[] = {FULL + 1, 1}; /* all; paths and leaves, with 0 */
static uint32_t buckets[BUCKETS], single_count;

static uint64_t lost, full, deep, accesses;
static bool counting, in_kernel = true;
static bool moved;       /* the last return loaded from where no call had stored */
static uint32_t current; /* path */

/* The block that is executed. */
static struct {
    uint32_t block, path;
    uint64_t entered; /* instructions that were executed before it */
    uint64_t before;  /* the same, or before the window, if that began later */
} run;

/* ==== Tables ==== */

/* Returns a path or a leaf; 0 if there is no room. */
static uint32_t find_node(uint32_t above, uint32_t block, unsigned began) {
    const uint32_t key[] = {above, block, began};
    uint32_t *bucket = &buckets[hash(HASH_START, key, sizeof key) % BUCKETS];
    for (uint32_t one = *bucket; one; one = nodes[one].same_bucket)
        if (nodes[one].above == above && nodes[one].block == block && nodes[one].began == began)
            return one;
    if (counts[began != 0] == MOST_OF_EACH)
        return 0;
    counts[began != 0]++;
    nodes[node_count] = (struct node){.above = above,
                                      .block = block,
                                      .same_bucket = *bucket,
                                      .began = began,
                                      .depth = nodes[above].depth + 1};
    return *bucket = node_count++;
}

/* Returns the path of what a block calls. */
static uint32_t extend(uint32_t path, uint32_t block) {
    struct site *site = &sites[block];
    if (path == FULL || !block)
        return FULL;
    if (site->path && site->caller == path)
        return site->path;
    if (nodes[path].depth == MOST_DEPTH) {
        deep++;
        return path;
    }
    uint32_t found = find_node(path, block, 0);
    if (!found) {
        full++;
        return FULL;
    }
    site->caller = path;
    site->path = found;
    return found;
}

/* ==== Execution ==== */

static void count_leaf(uint32_t path, uint32_t block, unsigned began) {
    struct site *site = &sites[block];
    bool whole = began == blocks[block].count;
    bool known = whole && site->leaf && nodes[site->leaf].above == path;
    uint32_t leaf = known ? site->leaf : block ? find_node(path, block, began) : 0;
    if (whole)
        site->leaf = leaf;
    if (leaf)
        nodes[leaf].times++;
    else
        lost += began;
}

/* Counts what was executed of the last block. */
static void finish(void) {
    if (counting && *counters != run.before)
        count_leaf(run.path, run.block, (unsigned)(*counters - run.before));
}

/* Returns whether an address is behind the call that a path ends with. */
static bool is_behind(uint32_t path, uint64_t address) {
    const struct block *site = &blocks[nodes[path].block];
    return nodes[path].block && site->address + site->code_size == address;
}

static bool is_whole(void) {
    return run.block && *counters - run.entered == blocks[run.block].count;
}

/* x86_64: calls and returns were followed where they accessed memory. */
static void follow_stack(uint32_t block, bool kernel) {
    if (moved && block && is_behind(current, blocks[block].address))
        current = stacks_leave();
    moved = false;
    if (kernel != in_kernel)
        current = kernel ? stacks_enter_kernel(run.block, extend) : stacks_leave_kernel();
}

/* Returns whether an exception that interrupts the kernel begins at an address. Arm ARM, "Exception vectors":
 * four of 0x80 bytes each are for the current exception level with SP_ELx. */
static bool is_vector(uint64_t address) {
    uint64_t offset = address - paths_vectors;
    return offset >= 0x200 && offset < 0x400 && offset % 0x80 == 0;
}

/* arm64: the flow of control shows calls and returns. */
static void follow_link(uint32_t block, bool kernel) {
    const struct block *last = &blocks[run.block];
    uint64_t address = blocks[block].address;
    enum flow flow = is_whole() ? sites[run.block].flow : FLOW_OTHER;
    if (flow == FLOW_CALL)
        current = links_called(last->address + last->code_size, run.block, extend);
    else if (flow == FLOW_RETURN)
        links_returning();
    if (kernel && !in_kernel)
        links_enter_kernel(flow == FLOW_CALL ? current : extend(current, run.block));
    else if (!kernel && in_kernel)
        links_leave_kernel();
    else if (kernel && flow == FLOW_EXCEPTION_RETURN)
        links_end_exception();
    else if (kernel && is_vector(address))
        links_begin_exception();
    current = links_arrived(address);
}

static void begin(uint32_t block) {
    finish();
    bool kernel = block ? blocks[block].address >> 63 : in_kernel;
    if (architecture == ARM64)
        follow_link(block, kernel);
    else if (architecture == X86_64)
        follow_stack(block, kernel);
    in_kernel = kernel;
    run.block = block;
    run.path = current;
    run.entered = run.before = *counters;
}

static void began(unsigned processor, void *data) {
    (void)processor;
    begin(NUMBER(data));
}

static void began_single(unsigned processor, void *data) {
    (void)processor;
    struct single *single = data;
    single->begun = true;
    begin(single->block);
}

/* An access to a device, for which QEMU made a block without callbacks of execution. */
static void accessed(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor;
    const struct single *single = data;
    struct qemu_plugin_hwaddr *place = single->begun ? NULL : qemu_plugin_get_hwaddr(access, address);
    if (counting && place && qemu_plugin_hwaddr_is_io(place)) {
        count_leaf(current, single->block, 1);
        accesses++;
    }
}

/* Returns whether a block's last instruction is executed. After an exception QEMU 7.2 calls back for accesses
 * of later instructions, too, if these call its helpers and have no callback of their own
 * (cpu->plugin_mem_cbs). */
static bool is_at_end(uint32_t block) {
    return run.block == block && is_whole();
}

static void called(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor;
    if (qemu_plugin_mem_is_store(access) && is_at_end(NUMBER(data)))
        current = stacks_called(address, NUMBER(data), extend);
}

static void returned(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor;
    if (!qemu_plugin_mem_is_store(access) && is_at_end(NUMBER(data))) {
        bool known;
        current = stacks_returned(address, &known);
        moved = !known;
    }
}

/* User code of arm64 accessed its return address on the stack. The block is compared as in is_at_end(). */
static void accessed_link(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor;
    if (qemu_plugin_mem_is_store(access) && run.block == NUMBER(data))
        run.path = current = links_stored(address, extend);
}

/* The kernel of arm64 switches threads. */
static void switched(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor;
    if (run.block == NUMBER(data))
        (qemu_plugin_mem_is_store(access) ? links_leave_thread : links_enter_thread)(address);
}

static void new_program(unsigned processor, void *data) {
    (void)processor, (void)data;
    (architecture == ARM64 ? links_execute : stacks_execute)();
}

/* ==== Translation ==== */

static void watch_block(struct qemu_plugin_tb *tb, size_t count, uint32_t block) {
    struct single *single =
        count == 1 && block && single_count < MOST_SINGLES ? calloc(1, sizeof *single) : NULL;
    if (!single) {
        qemu_plugin_register_vcpu_tb_exec_cb(tb, began, QEMU_PLUGIN_CB_NO_REGS, (void *)(uintptr_t)block);
        return;
    }
    single_count++;
    single->block = block;
    qemu_plugin_register_vcpu_tb_exec_cb(tb, began_single, QEMU_PLUGIN_CB_NO_REGS, single);
    qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, 0), accessed, QEMU_PLUGIN_CB_NO_REGS,
                                     QEMU_PLUGIN_MEM_RW, single);
}

/* QEMU 7.2 takes loads for stores when it selects callbacks (accel/tcg/plugin-gen.c: op_rw). */
static void watch_end(struct qemu_plugin_insn *last, uint32_t block) {
    const unsigned char *bytes = code_of(last);
    size_t size = qemu_plugin_insn_size(last);
    if (is_call(bytes, size))
        qemu_plugin_register_vcpu_mem_cb(last, called, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
                                         (void *)(uintptr_t)block);
    else if (is_return(bytes, size))
        qemu_plugin_register_vcpu_mem_cb(last, returned, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                         (void *)(uintptr_t)block);
}

static void watch_link(struct qemu_plugin_insn *instruction, uint32_t block) {
    uint64_t address = qemu_plugin_insn_vaddr(instruction);
    bool switches = address >= paths_switch && address < paths_switch_end, on_stack;
    if (!moves_link(code_of(instruction), qemu_plugin_insn_size(instruction), &on_stack))
        return;
    access_callback watch = switches ? switched : on_stack && !(address >> 63) ? accessed_link : NULL;
    if (watch)
        qemu_plugin_register_vcpu_mem_cb(instruction, watch, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
                                         (void *)(uintptr_t)block);
}

static void translated(struct qemu_plugin_tb *tb, size_t count) {
    uint32_t block = find_block(tb, count);
    const struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, count - 1);
    if (architecture == ARM64)
        sites[block].flow = flow_of(code_of(last), qemu_plugin_insn_size(last));
    watch_block(tb, count, block);
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *instruction = qemu_plugin_tb_get_insn(tb, i);
        /* The call comes first: QEMU 10 keeps the order, and 7.2 counts after calls. */
        if (paths_exec && qemu_plugin_insn_vaddr(instruction) == paths_exec)
            qemu_plugin_register_vcpu_insn_exec_cb(instruction, new_program, QEMU_PLUGIN_CB_NO_REGS, NULL);
        count_each_time(instruction, counters, 1);
        if (architecture == ARM64)
            watch_link(instruction, block);
    }
    if (architecture == X86_64)
        watch_end(qemu_plugin_tb_get_insn(tb, count - 1), block);
}

/* ==== Windows and output ==== */

static const char *start(const char *target) {
    if (paths_follow && (architecture = architecture_of(target)) == OTHER_ARCHITECTURE)
        return "calls are followed on x86_64 and arm64 only";
    if (architecture == ARM64 && !(paths_switch && paths_switch_end && paths_vectors))
        return "on arm64 it needs switch=ADDRESS,switch_end=ADDRESS,vectors=ADDRESS";
    sites = calloc(MOST_BLOCKS, sizeof *sites);
    nodes = calloc(2 * MOST_OF_EACH, sizeof *nodes);
    return blocks_init() && sites && nodes ? NULL : "there is no memory";
}

static void open_window(void) {
    counting = true;
    run.before = *counters;
}

static void close_window(void) {
    finish();
    counting = false;
}

/* Marks the blocks of all leaves, and numbers their paths; returns how many those are. */
static uint32_t number_paths(void) {
    uint32_t used = 0;
    for (uint32_t i = 1; i < node_count; i++)
        for (uint32_t one = nodes[i].began ? i : 0; one && !nodes[one].number; one = nodes[one].above) {
            nodes[one].number = 1;
            blocks[nodes[one].block].number = 1;
        }
    for (uint32_t i = 1; i < node_count; i++)
        if (nodes[i].number && !nodes[i].began)
            nodes[i].number = ++used;
    return used;
}

static void write_paths(FILE *out) {
    uint32_t used_paths = number_paths(), used_blocks = number_blocks();
    const struct line lines[] = {{"begins", window.begins},
                                 {"windows", window.closed},
                                 {"open", window.open},
                                 {"accesses", accesses},
                                 {"lost", lost},
                                 {"full", full},
                                 {"deep", deep},
                                 {"blocks", used_blocks},
                                 {"paths", used_paths},
                                 {"leaves", counts[1] - 1}};
    fprintf(out, "swapstone-paths 2\n");
    put_lines(out, lines, sizeof lines / sizeof *lines);
    putc('\n', out);
    put_blocks(out);
    for (uint32_t i = 1; i < node_count; i++)
        if (nodes[i].number && !nodes[i].began) {
            put(out, nodes[nodes[i].above].number, 4);
            put(out, blocks[nodes[i].block].number, 4);
        }
    for (uint32_t i = 1; i < node_count; i++)
        if (nodes[i].began) {
            put(out, nodes[nodes[i].above].number, 4);
            put(out, blocks[nodes[i].block].number, 4);
            put(out, nodes[i].began, 4);
            put(out, 0, 4);
            put(out, nodes[i].times, 8);
        }
}

const struct mode paths_mode = {"paths", translated, open_window, close_window, write_paths, start};
