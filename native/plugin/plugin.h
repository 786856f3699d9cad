// SPDX-License-Identifier: MIT OR Apache-2.0
/* What the modes of the plugin share; plugin.c describes it. */
#ifndef SWAPSTONE_PLUGIN_H
#define SWAPSTONE_PLUGIN_H

#include "qemu_plugin.h"

#include <stdio.h>

/* The part of the run that is observed. */
struct window {
    bool limited;        /* by the addresses below; otherwise it is the whole run */
    uint64_t begin, end; /* addresses of instructions */
    uint64_t cycle, first, last;
    uint64_t begins, ends; /* how often these instructions were executed */
    uint64_t closed;       /* complete windows */
    bool open;             /* whether the machine is in a window */
};

extern struct window window;

/* Lets QEMU add `summand` to `counter` before each execution of an instruction. */
void count_executions(struct qemu_plugin_insn *instruction, uint64_t *counter, uint64_t summand);

/* Returns the bytes of an instruction, which are valid until the next call. */
const unsigned char *instruction_bytes(const struct qemu_plugin_insn *instruction);

/* A way to observe the machine. */
struct mode {
    const char *name;
    /* QEMU translated a block of `count` instructions, which may be fewer than QEMU lists. */
    void (*translated)(struct qemu_plugin_tb *block, size_t count);
    void (*open)(void);       /* a window begins */
    void (*close)(void);      /* it ends */
    void (*write)(FILE *out); /* the machine has ended */
    /* Before all of it, given QEMU's name of the machine's target; returns why it can't. May be NULL. */
    const char *(*start)(const char *target);
};

/* The program that the mode `wakeups` watches; wakeups.c describes it. */
struct watched {
    const char *text;
    uint64_t low, entry, mark, keep;
};

extern struct watched watched;

/* Whether the mode `paths` follows calls, and the addresses that it watches; paths.c describes them. */
extern uint64_t paths_follow, paths_exec, paths_switch, paths_switch_end, paths_vectors;

/* The file with the addresses that the mode `tasks` watches; tasks.c describes it. */
extern const char *tasks_points;

extern const struct mode paths_mode, tasks_mode, wakeups_mode;

#endif
