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
extern const char *target_name; /* QEMU's name of the machine's architecture */

/* A way to observe the machine. */
struct mode {
    const char *name;
    void (*translated)(struct qemu_plugin_tb *block, size_t count); /* QEMU translated a block */
    void (*open)(void);                                             /* a window begins */
    void (*close)(void);                                            /* it ends */
    void (*write)(FILE *out);                                       /* the machine has ended */
    const char *(*start)(void); /* before all of it; returns why it can't. May be NULL */
};

extern const struct mode counts_mode, model_mode;

#endif
