// SPDX-License-Identifier: MIT OR Apache-2.0
/* Reads the state of a process and of the machine. A fact that can't be read stays unknown. */
#ifndef AGENT_OBSERVE_H
#define AGENT_OBSERVE_H

#include "../port/port.h"
#include "../wire/words.h"
#include "text.h"

struct facts {
    int64_t values[FACT_COUNT];
    bool known[FACT_COUNT];
};

/* Opens /proc/PID/NAME. */
int open_proc_file(int pid, const char *name);
/* Opens a file for reading, whose path is formatted as in `text_format`. Returns a negative errno on
 * failure. */
int open_path(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Closes a file if it is open, and marks it as closed. */
void close_file(int *fd);
/* Reads the beginning of a file as text and closes it. Returns false if it is empty or can't be read; `bytes`
 * may then be unchanged. */
bool read_text(int fd, char *bytes, size_t room);
/* Reads the beginning of a file that stays open, as it is now. */
bool reread_text(int fd, char *bytes, size_t room);
/* Reads field `number` of /proc/PID/stat, counted from 1 as in proc(5), after the name in field 2. */
bool stat_field(const char *stat, int number, int64_t *value);
/* Reads the number after the first `mark`, and after blanks. */
bool number_after(const char *text, const char *mark, int64_t *number);

void fact_set(struct facts *facts, enum fact fact, int64_t value);

/* Files with the counters of the machine and its load average. They stay open: opening one takes longer than
 * reading it. A negative descriptor is a file that can't be opened. */
struct machine_files {
    int pressure_cpu, pressure_memory, pressure_io, stat, loadavg;
};
void open_machine_files(struct machine_files *files);
void observe_machine(struct facts *facts, const struct machine_files *files);
/* Replaces the counters in `after` by their growth since `before`, and the load average by that of `before`.
 */
void facts_grow(struct facts *after, const struct facts *before);
/* Files of a process that stay readable until it is reaped, also if it executes another program. */
struct task_files {
    int comm, schedstat;
};
void open_task_files(struct task_files *files, int pid);
void close_task_files(struct task_files *files);
/* The first two fields of /proc/PID/schedstat: for how long a thread was on a processor, and on a run queue.
 * Negative numbers if they can't be read. */
struct run_times {
    int64_t cpu_ns, delay_ns;
};
struct run_times read_run_times(int fd);
/* Reads nice value and affinity of a process that runs or is a zombie, and the growth of its run times since
 * they were `before`. */
void observe_task(struct facts *facts, const struct task_files *files, int pid, struct run_times before);

enum { OBJECT_BYTES = 256 << 10, INTERP_BYTES = 4096 };
struct image {
    bool has_interp;
    char interp[INTERP_BYTES];
    char name[32];       /* of its main thread */
    struct text objects; /* each ends with a zero byte */
    char object_bytes[OBJECT_BYTES];
    int failed; /* negative errno of the file that could not be read, or 0 */
};

/* Reads the loader and the mapped objects of a process whose memory still exists. */
void observe_image(struct image *image, const struct task_files *files, int pid);

/* Whether a zombie still has the name under which its image was observed. The exec of another thread than the
 * main one is not observed; it changes the name. */
bool is_same_program(const struct image *image, const struct task_files *files);

/* Whether a process has threads besides its main one, which may have ended. */
bool has_more_threads(int pid);

/* Calls `found` for each process whose parent is `parent`. Returns their number. */
int for_each_child(int parent, void (*found)(int pid, int group));

#endif
