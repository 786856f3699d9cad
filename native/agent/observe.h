/* What can be seen of a process, and of the machine around it. What can't be read is left out: it stays
 * unknown. */
#ifndef AGENT_OBSERVE_H
#define AGENT_OBSERVE_H

#include "../port/port.h"
#include "text.h"

/* The facts of docs/wire.md, in the order in which they are answered. */
enum fact {
    FACT_WALL,
    FACT_LAUNCH,
    FACT_USER,
    FACT_SYSTEM,
    FACT_MAXRSS,
    FACT_MINFLT,
    FACT_MAJFLT,
    FACT_NVCSW,
    FACT_NIVCSW,
    FACT_RUN_DELAY,
    FACT_NICE,
    FACT_CPUS,
    FACT_PSI_CPU,
    FACT_PSI_MEMORY,
    FACT_PSI_IO,
    FACT_STEAL,
    FACT_TICKS,
    FACT_LOAD,
    FACT_PID,
    FACT_READY, /* this one and all that follow: of a server alone */
    FACT_DRIVEN,
    FACT_SERVER_CPU,
    FACT_SERVER_USER,
    FACT_SERVER_SYSTEM,
    FACT_SERVER_MINFLT,
    FACT_SERVER_MAJFLT,
    FACT_SERVER_NVCSW,
    FACT_SERVER_NIVCSW,
    FACT_SERVER_UNSEEN,
    FACT_SERVER_RSS,
    FACT_SERVER_PEAK,
    FACT_SERVER_PROCESSES,
    FACT_SERVER_THREADS,
    FACT_DRIVER_USER,
    FACT_DRIVER_SYSTEM,
    FACTS,
};

extern const char *const fact_names[FACTS];

struct facts {
    int64_t values[FACTS];
    bool known[FACTS];
};

/* Opens /proc/PID/NAME. */
int open_of(int pid, const char *name);
/* The beginning of a file as text; false when there is none. Closes the file. */
bool read_start(int fd, char *bytes, size_t room);
/* The number after the first `mark`. */
bool number_after(const char *text, const char *mark, int64_t *number);

void fact_set(struct facts *facts, enum fact fact, int64_t value);

/* The counters of the machine, to be subtracted from each other, and its load. */
void observe_machine(struct facts *facts);
/* Turns `after` into its growth since `before`, where both are known; the load is taken from `before`. */
void facts_grow(struct facts *after, const struct facts *before);
/* Run-queue delay, nice and affinity of a process that runs or has just ended. */
void observe_task(struct facts *facts, int pid);

enum { OBJECT_BYTES = 256 << 10, INTERP_BYTES = 4096 };
struct image {
    bool has_interp;
    char interp[INTERP_BYTES];
    char name[32];       /* of its main thread */
    struct text objects; /* each ends with a zero byte */
    char object_bytes[OBJECT_BYTES];
    int failed; /* negative errno of the file that could not be read, or 0 */
};

/* The loader and the mapped objects of a process that has not given back its memory yet. */
void observe_image(struct image *image, int pid);

/* Whether a process that has just ended still has the name under which its image was observed. A program that
 * is executed by another thread than the main one takes over the process unseen; its name is all that then
 * tells. */
bool is_same_program(const struct image *image, int pid);

/* Calls `found` for each process whose parent is `parent`; returns how many there are. */
int observe_children(int parent, void (*found)(int pid, int group));

#endif
