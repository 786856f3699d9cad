// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Mode `tasks`: what one program executed, with all processes and threads that descend from it.
 *
 *     points=FILE
 *
 * Each line of FILE is LETTERS ADDRESS END NAME: what begins at an address of an instruction, or what is from
 * ADDRESS up to END. src/swapstone/parts/vm/machine/task_counts.py makes it of the kernel's functions.
 *
 *     m    the agent is about to execute the program
 *     r    its system call: the task is the root
 *     c    a system call, whose function is NAME
 *     e i  the kernel was entered, or interrupted: by an exception or a system call; by an interrupt
 *     u v  it was entered from user mode; v is on arm64, where the reason follows
 *     s f  the reason is a system call; a page fault (on x86_64 that comes before u)
 *     l    an interrupt ends
 *     x    a 32-bit program entered the kernel: its system calls have no names here
 *     n    from here to END the kernel copies a task
 *     w    from here to END it switches tasks
 *
 * A task is known by the address where its stack pointer (x86_64) or program counter (arm64) is saved while
 * another one runs: the last load of the function that switches tasks has that of the next task, and the last
 * store that of the previous one. The function that copies a task stores there first: the task that runs then
 * is the parent.
 *
 * An instruction counts when it begins, less one for each that a fault interrupts, since it begins again.
 * User code that was left inside a block faulted: its first instruction began more often than its last. If
 * it was left at the last one, either that faulted, or the next one could not be fetched. These faults are
 * `uncertain`: each may count an instruction too many.
 *
 * The kernel's instructions count for the last reason why the task entered it, and those of interrupts for
 * `interrupts`. A new task continues its parent's system call.
 *
 * Output: lines NAME VALUE, which become facts of the run; of each system call that was executed calls.NAME,
 * and kernel.NAME with its instructions.
 */
#include "blocks.h"
#include "instruction.h"
#include "plugin.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_POINTS = 1 << 12, TASKS = 1 << 16, KEY_BITS = 6, STORE_BITS = 3 };

/* Why the kernel is executed. */
enum reason { OTHER, FAULT, INTERRUPT, FIRST_CALL };

struct point {
    uint64_t address, end;
    char letters[8], name[64];
    unsigned reason;
};

struct task {
    uint64_t key;                      /* 0 for none */
    bool counted, marked, left_inside; /* left_inside: user code was left inside a block */
    bool unexplained;                  /* it entered the kernel for a reason that is not known yet */
    unsigned reason, interrupts;       /* interrupts: that have not ended */
};

const char *tasks_points;

static struct point points[MOST_POINTS], switching, copying;
static size_t point_count;
static enum architecture architecture;

static struct task tasks[TASKS], copied[TASKS], unknown, *current = &unknown;
static enum reason pending;

/* Incremented before instructions: by those in user mode and in the kernel, of them turns of REP, and the
 * first and last ones of user blocks that can be left inside. */
static struct { uint64_t user, kernel, turns, firsts, lasts; } now, before;

static uint64_t times[MOST_POINTS + FIRST_CALL], executed[MOST_POINTS + FIRST_CALL];

enum count {
    ROOTS,
    SEEN,
    COPIED,
    FULL,
    FOREIGN,
    SWITCHES,
    USER,
    TURNS,
    CALLS,
    USER_FAULTS,
    KERNEL_FAULTS,
    UNCERTAIN,
    COUNTS
};

static const char *const names[COUNTS] = {
    "roots",
    "tasks",
    "copied",
    "full",
    "foreign",
    "task_switches",
    "user_instructions",
    "rep_turns",
    "syscalls",
    "user_faults",
    "kernel_faults",
    "uncertain_instructions",
};

static uint64_t counts[COUNTS];

/* ==== Tasks ==== */

static void add(enum count count, uint64_t number) {
    counts[count] += current->counted ? number : 0;
}

/* Counts what was executed since the last call. */
static void account(void) {
    add(USER, now.user - before.user);
    add(TURNS, now.turns - before.turns);
    if (current->counted)
        executed[current->interrupts ? INTERRUPT : current->reason] += now.kernel - before.kernel;
    before = now;
}

static struct task *find_task(uint64_t key) {
    for (uint64_t i = 0; i < TASKS; i++) {
        struct task *one = &tasks[((key >> KEY_BITS) + i) % TASKS];
        if (!one->key)
            one->key = key;
        if (one->key == key)
            return one;
    }
    counts[FULL]++;
    return &unknown;
}

static void switched(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor, (void)data;
    struct task *one = find_task(address), *copy = &copied[(address >> STORE_BITS) % TASKS];
    if (qemu_plugin_mem_is_store(access)) {
        if (current == &unknown) { /* the task that ran when the machine began */
            *one = unknown;
            one->key = address;
            current = one;
        }
        return;
    }
    account();
    add(SWITCHES, 1);
    current = one;
    if (copy->key == address) {
        *one = *copy;
        copy->key = 0;
        add(SEEN, 1);
    }
}

static void stored(unsigned processor, qemu_plugin_meminfo_t access, uint64_t address, void *data) {
    (void)processor, (void)data;
    if (qemu_plugin_mem_is_store(access))
        copied[(address >> STORE_BITS) % TASKS] =
            (struct task){.key = address, .counted = current->counted, .reason = current->reason};
}

static void begin_root(void) {
    account();
    current->counted = true;
    current->marked = false;
    add(ROOTS, 1);
    add(SEEN, 1);
    add(CALLS, 1); /* it entered the kernel before */
}

/* ==== The kernel ==== */

static void enter_from_user(void) {
    current->left_inside = now.firsts != now.lasts;
    now.user -= current->left_inside;
    now.lasts = now.firsts;
    current->reason = pending;
    current->interrupts = 0;
}

static void add_user_fault(void) {
    add(USER_FAULTS, 1);
    add(UNCERTAIN, !current->left_inside);
}

/* A fault is one of the kernel's until it is known to be of user mode. */
static void add_kernel_fault(uint64_t number) {
    now.kernel -= number;
    add(KERNEL_FAULTS, number);
}

static void act(char letter, const struct point *point) {
    switch (letter) {
    case 'm':
        current->marked = true;
        break;
    case 'r':
        if (current->marked)
            begin_root();
        break;
    case 'c':
        current->reason = point->reason;
        times[point->reason] += current->counted;
        break;
    case 'e':
    case 'i':
        account();
        pending = letter == 'i' ? INTERRUPT : OTHER;
        current->interrupts += letter == 'i' || current->interrupts;
        break;
    case 'u':
    case 'v':
        enter_from_user();
        current->unexplained = letter == 'v' && pending == OTHER;
        if (pending == FAULT) {
            add_kernel_fault((uint64_t)-1);
            add_user_fault();
        }
        pending = OTHER;
        break;
    case 's':
        current->unexplained = false;
        add(CALLS, 1);
        break;
    case 'f':
        if (current->unexplained) {
            current->unexplained = false;
            current->reason = FAULT;
            add_user_fault();
        } else {
            pending = FAULT;
            add_kernel_fault(1);
        }
        break;
    case 'l':
        account();
        pending = OTHER;
        current->interrupts -= current->interrupts != 0;
        break;
    case 'x':
        add(FOREIGN, 1);
        break;
    case 'n':
        add(COPIED, 1);
        break;
    }
}

static void reached(unsigned processor, void *data) {
    (void)processor;
    const struct point *point = data;
    for (const char *letter = point->letters; *letter; letter++)
        act(*letter, point);
}

/* ==== Translation ==== */

static int compare(const void *left, const void *right) {
    uint64_t one = *(const uint64_t *)left, other = *(const uint64_t *)right; /* addresses come first */
    return one < other ? -1 : one > other;
}

static bool is_in(const struct point *range, uint64_t address) {
    return address >= range->address && address < range->end;
}

/* Returns whether an instruction of the function that switches tasks saves or loads what a task is known by:
 * MOV between RSP and a member of a structure, or LDR and STR of X30. */
static bool switches(const unsigned char *code, size_t size) {
    bool on_stack;
    if (architecture == ARM64)
        return moves_link(code, size, &on_stack) && !on_stack;
    return size == 7 && (memcmp(code, "\x48\x8b\xa6", 3) == 0 || memcmp(code, "\x48\x89\xa7", 3) == 0);
}

/* Returns whether something is done before the instruction. */
static bool watch(struct qemu_plugin_insn *instruction, uint64_t address) {
    struct point *point = bsearch(&address, points, point_count, sizeof *points, compare);
    if (point)
        qemu_plugin_register_vcpu_insn_exec_cb(instruction, reached, QEMU_PLUGIN_CB_NO_REGS, point);
    bool copies = is_in(&copying, address);
    if (copies || (is_in(&switching, address) &&
                   switches(instruction_bytes(instruction), qemu_plugin_insn_size(instruction))))
        qemu_plugin_register_vcpu_mem_cb(instruction, copies ? stored : switched, QEMU_PLUGIN_CB_NO_REGS,
                                         QEMU_PLUGIN_MEM_RW, NULL);
    return point;
}

/* Instructions that can't fault are counted together with the one that follows, before the first of them. */
static void translated(struct qemu_plugin_tb *tb, size_t count) {
    struct qemu_plugin_insn *begin = qemu_plugin_tb_get_insn(tb, 0);
    bool user = !(qemu_plugin_insn_vaddr(begin) >> 63);
    for (size_t i = count, number = 1; i-- > 0; number++) {
        struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(tb, i);
        struct qemu_plugin_insn *before = i ? qemu_plugin_tb_get_insn(tb, i - 1) : NULL;
        if (user && architecture == X86_64 && repeats(instruction_bytes(one), qemu_plugin_insn_size(one)))
            count_executions(one, &now.turns, 1);
        if (!watch(one, qemu_plugin_insn_vaddr(one)) && before &&
            !may_fault(architecture, instruction_bytes(before), qemu_plugin_insn_size(before)))
            continue;
        count_executions(one, user ? &now.user : &now.kernel, number);
        if (user && i && i + number == count) { /* it can be left inside */
            count_executions(begin, &now.firsts, 1);
            count_executions(one, &now.lasts, 1);
        }
        number = 0;
    }
}

/* ==== Points and output ==== */

static const char *start(const char *target) {
    architecture = architecture_of(target);
    FILE *in = tasks_points ? fopen(tasks_points, "r") : NULL;
    struct point one = {0};
    unsigned long long address, end;
    int fields = 0;
    while (in && point_count < MOST_POINTS &&
           (fields = fscanf(in, "%7s %llx %llx %63s", one.letters, &address, &end, one.name)) == 4) {
        one.address = address;
        one.end = end;
        one.reason = FIRST_CALL + (unsigned)point_count;
        if (strchr(one.letters, 'w'))
            switching = one;
        if (strchr(one.letters, 'n'))
            copying = one;
        points[point_count++] = one;
    }
    bool whole = in && fields == EOF && feof(in);
    if (in)
        fclose(in);
    qsort(points, point_count, sizeof *points, compare);
    if (!whole || !switching.end || !copying.end)
        return "points=FILE can't be read, is damaged, or has too many lines";
    return architecture == OTHER_ARCHITECTURE ? "tasks are followed on x86_64 and arm64 only" : NULL;
}

/* The whole run is observed. */
static void open_window(void) {}
static void close_window(void) {}

static void write_tasks(FILE *out) {
    uint64_t calls = 0;
    account();
    counts[USER] -= counts[TURNS];
    fprintf(out, "swapstone-tasks 1\n");
    for (unsigned i = 0; i < COUNTS; i++)
        put_lines(out, &(struct line){names[i], counts[i]}, 1);
    for (size_t i = 0; i < point_count; i++) {
        unsigned reason = points[i].reason;
        calls += executed[reason];
        if (times[reason])
            fprintf(out, "calls.%s %llu\nkernel.%s %llu\n", points[i].name, (unsigned long long)times[reason],
                    points[i].name, (unsigned long long)executed[reason]);
    }
    const struct line lines[] = {
        {"kernel_instructions", calls + executed[OTHER] + executed[FAULT] + executed[INTERRUPT]},
        {"call_instructions", calls},
        {"fault_instructions", executed[FAULT]},
        {"interrupt_instructions", executed[INTERRUPT]}};
    put_lines(out, lines, sizeof lines / sizeof *lines);
}

const struct mode tasks_mode = {"tasks", translated, open_window, close_window, write_tasks, start};
