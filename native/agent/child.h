// SPDX-License-Identifier: MIT OR Apache-2.0
/* The memory that the agent's children have before exec, besides the stack and memory that is shared. A fork
 * copies no other memory that can be written, so it takes less time, the agent's writes after it are no page
 * faults, and exec has less to free. */
#ifndef AGENT_CHILD_H
#define AGENT_CHILD_H

#include "../port/port.h"

struct child_memory {
    int schedstat;    /* descriptor of its /proc/self/schedstat */
    const char *root; /* mount point of its root file system */
    char path[8192], options[16384], mount_point[8192];
};

/* As large as the largest page, so that no other memory is in its pages. */
extern union child_room {
    struct child_memory memory;
    char bytes[64 << 10];
} child_room;

/* Keeps all memory that can be written from children that are forked later, except `child_room` and the
 * stack. Without /proc they have it all. */
void keep_memory_from_children(void);

#endif
