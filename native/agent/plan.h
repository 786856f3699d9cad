// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads a plan (docs/wire.md, section 1). */
#ifndef AGENT_PLAN_H
#define AGENT_PLAN_H

#include "../port/port.h"
#include "observation.h"
#include "text.h"

enum {
    PLAN_ID = 64,
    PLAN_NONCE = 32,
    PLAN_GROUPS = 2,
    PLAN_WORDS = 4096,
    PLAN_BYTES = 1 << 20,
    PLAN_LINE = 400 << 10
};

/* A program to start: that of the trial, or a server's load generator. */
struct program {
    char *arguments[PLAN_WORDS + 1], *environment[PLAN_WORDS + 1]; /* each ends with NULL */
    unsigned argument_count, variable_count;
    bool pinned; /* to `cpus` */
    struct port_cpu_set cpus;
};

/* How a server is measured. `port` is 0 if the program is no server. */
struct server_request {
    int64_t port, ready_ms, warm_ms, drain_ms, stop_ms;
};

struct request {
    struct program program, generator;
    struct observation_request observations[MOST_OBSERVATIONS];
    /* What follows is zero unless the trial has a line for it. */
    char id[PLAN_ID + 1];
    const char *nonce; /* in memory that no child has; NULL if the trial has none */
    const char *folder;
    const char *root, *layer, *files; /* folders of its root file system; NULL: that of the agent */
    const char *in, *out;             /* paths; NULL: /dev/null, and the agent's pipe */
    bool has_nice;
    int nice;
    int64_t timeout_ms, output_bytes, disk_bytes;
    struct server_request server;
    const char *groups[PLAN_GROUPS]; /* files of cgroups by which a process enters them */
    unsigned group_count, observation_count;
    int64_t read_ns; /* time at which `run` was read */
};

enum plan_result { PLAN_TRIAL, PLAN_END, PLAN_STOPPED, PLAN_MALFORMED };

struct plan {
    struct lines lines;
    int64_t line;      /* number of the last line read, from 1 */
    const char *error; /* what is wrong with that line, after PLAN_MALFORMED */
};

/* Reads the first line. The texts of all requests are in memory that children share, so that one that was
 * forked earlier can read them. */
enum plan_result plan_open(struct plan *plan);
/* Reads up to the next `run` or to the end. The request is valid until the next call. */
enum plan_result plan_next(struct plan *plan, struct request *request);

#endif
