/* Driving a server: it is awaited, warmed up, driven, drained and told to end (docs/wire.md, section 1). */
#ifndef AGENT_DRIVE_H
#define AGENT_DRIVE_H

#include "answer.h"
#include "counters.h"
#include "start.h"

enum drive_phase {
    NO_SERVER,
    AWAITED,  /* nothing accepts connections on its port yet */
    WARMED,   /* the driver runs for the first time; it is killed */
    RESTING,  /* between the two */
    MEASURED, /* the driver runs, and what the server uses is counted */
    DRAINED,
    ENDING, /* it has been told to end */
};

struct drive {
    const struct request *request;
    struct answer *answer;
    enum drive_phase phase;
    int server;       /* its process */
    int64_t until_ns; /* when the phase is over by itself */
    int64_t begun_ns; /* the phase */
    bool running;     /* the driver */
    bool killed;      /* the driver, at the end of its warm-up */
    bool abandoned;   /* the trial is over, whatever becomes of the driver */
    bool insisted;    /* the server did not end when it was told to, and was killed */
    struct started driver;
    struct counters before, after;
};

/* Begins with a server that has just been started. */
void drive_begin(struct drive *drive, const struct request *request, struct answer *answer, int server);

/* Does what is due. Returns false when the trial has failed: `how` and `code` of the answer then say why, and
 * a note.
 */
bool drive_step(struct drive *drive);

/* When `drive_step` should look again, at the latest. */
int64_t drive_next_ns(const struct drive *drive);

/* Takes note of an event of the driver. Returns false when the event is another process's; `*good` becomes
 * false when the driver failed, as after `drive_step`. */
bool drive_see(struct drive *drive, const struct port_event *event, bool *good);

/* Gives the trial up: kills the driver, if it runs, and asks no more of it. */
void drive_abandon(struct drive *drive);

#endif
