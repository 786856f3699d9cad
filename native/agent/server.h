// SPDX-License-Identifier: MIT OR Apache-2.0
/* Measures a server: waits for its port, runs the load generator, and stops the server (docs/wire.md, section
 * 2). */
#ifndef AGENT_SERVER_H
#define AGENT_SERVER_H

#include "answer.h"
#include "counters.h"
#include "start.h"

enum server_phase {
    PHASE_NONE,
    PHASE_CONNECT, /* until the server accepts a connection */
    PHASE_WARM_UP, /* the load generator runs, and is killed */
    PHASE_PAUSE,   /* between warm-up and window */
    PHASE_WINDOW,  /* the load generator runs, and the server's counters are read before and after */
    PHASE_DRAIN,
    PHASE_STOP, /* SIGTERM was sent */
};

struct server {
    const struct request *request;
    struct answer *answer;
    enum server_phase phase;
    int pid; /* of the server */
    const struct task_files *files;
    int64_t until_ns; /* end of the phase */
    int64_t begun_ns; /* start of the phase */
    bool running;     /* the load generator */
    bool killed;      /* the load generator, at the end of the warm-up */
    bool finished;    /* the trial is over; events of the load generator no longer count */
    struct started generator;
    struct counters before, after;
};

/* Begins after the server's process has been started. */
void server_begin(struct server *server, const struct request *request, struct answer *answer,
                  const struct started *program);

/* Starts the next phase if it is due. Returns false when the trial has failed; `outcome`, `code` and a note
 * of the answer then say why. */
bool server_step(struct server *server);

/* Latest time for the next call of `server_step`. */
int64_t server_next_ns(const struct server *server);

/* Handles an event of the load generator. Returns false if the event is of another process. Sets `*good` to
 * false when the load generator failed; the answer then says why. */
bool server_handle_event(struct server *server, const struct port_event *event, bool *good);

/* Ends the measurement: kills the load generator if it runs. */
void server_abandon(struct server *server);

#endif
