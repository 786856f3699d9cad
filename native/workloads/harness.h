// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The interface between a workload and the harness. Read this page before you add a workload.
 *
 * A workload is one .c file with one WORKLOAD(...) declaration, linked with harness.c. The workload defines
 * the work. The harness defines main(), reads the clocks and prints the report (docs/wire.md, section 3).
 * docs/workloads.md lists all workloads.
 *
 * Example: native/workloads/strcmp.c
 *
 *     // Compares two equal strings of 63 bytes, 500000 times. Not from a published benchmark.
 *     #include "harness.h"
 *
 *     #include <string.h>
 *
 *     enum { CALLS = 500000, LENGTH = 63 };
 *
 *     static char left[LENGTH + 1], right[LENGTH + 1];
 *
 *     static void prepare(void) {
 *         memset(left, 'a', LENGTH);
 *         memset(right, 'a', LENGTH);
 *     }
 *
 *     static uint64_t pass(void) {
 *         uint64_t equal = 0;
 *         for (int i = 0; i < CALLS; i++) {
 *             equal += strcmp(left, right) == 0;
 *             compiler_barrier();
 *         }
 *         return equal;
 *     }
 *
 *     WORKLOAD(.name = "strcmp", .mode = WARM, .ops = CALLS, .prepare = prepare, .pass = pass);
 *
 * Compile it and run two passes:
 *
 *     $ cc -O2 -fno-builtin strcmp.c harness.c -o strcmp && ./strcmp 2
 *     swapstone-workload 2
 *     name strcmp
 *     ops 500000
 *     passes 2
 *     pass 2197105 2241942 0 2 0 0 0
 *     pass 2306017 2307549 0 0 0 0 0
 *     ...
 *     check 000000000007a120
 *     end
 *
 * Then add one line to a suite in src/swapstone/parts/published/suites/ and one row to docs/workloads.md.
 *
 * Requirements for a pass:
 *
 * - It returns the same checksum for the same work, with every C library, in every pass. The checksum
 *   does not depend on addresses, on time or on scheduling.
 * - It takes about 1 ms or more. Each pass adds a line to the report.
 * - It checks every call that can fail, and calls fail().
 * - The compiler can't drop or merge the measured calls. A compiler that treats a function as pure (strlen,
 *   memchr) may do that even with -fno-builtin: put compiler_barrier() into the loop.
 *   tests/unit/workloads/test_calls.py counts the calls of a pass.
 * - It uses ISO C, POSIX and Linux's /proc only, so that it compiles with every C library.
 *
 * The comment at the top of the file states what one pass does, which row of a published benchmark it
 * corresponds to, and the unit of each parameter.
 */
#ifndef SWAPSTONE_HARNESS_H
#define SWAPSTONE_HARNESS_H

/* glibc's headers define some functions inline when the compiler optimizes for speed: putc_unlocked(),
 * getc_unlocked(), atoi() and others. This macro, which GCC defines itself with -O0, turns them into calls
 * (__USE_EXTERN_INLINES in glibc's features.h). Include harness.h before any header of the C library. */
#ifndef __NO_INLINE__
#define __NO_INLINE__ 1
#endif

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mode {
    FRESH, /* Each pass runs in a new child. Only one puts() to /dev/null has used its heap. */
    WARM,  /* One child runs all passes, after one pass that is not measured. */
};

/* A row of a file that offers several. The program's second argument selects it. Unused fields stay zero. */
struct parameter {
    const char *argument;   /* the value of the program's second argument */
    const char *name;       /* the workload's name in the report */
    uint64_t ops;           /* operations in one pass; wall and CPU time are divided by it */
    size_t size;            /* free for the workload; its header comment states the unit */
    const char *text;       /* free for the workload */
    uint64_t (*pass)(void); /* used in place of the workload's, unless it is NULL */
    unsigned copies;        /* `ops` is of one of so many tasks, or ALL_PROCESSORS; 0 if it is of the pass */
};

/* A task for each processor that is online. */
enum { ALL_PROCESSORS = ~0 };

/* The number of tasks that a number of copies stands for. */
unsigned task_count(unsigned copies);

/* The fields of WORKLOAD(...). `name` and `ops` are ignored if there are parameters. */
struct workload {
    const char *name; /* the workload's name in the report */
    enum mode mode;
    uint64_t ops;           /* operations in one pass; wall and CPU time are divided by it */
    void (*prepare)(void);  /* optional: set-up before the measurement, in the measured process */
    uint64_t (*pass)(void); /* the measured work; returns the checksum */
    void (*finish)(void);   /* optional: tear-down after the memory is read; skipped after fail() */
    const struct parameter *parameters; /* optional; the last element's `argument` is NULL */
    /* Optional: replaces main() if the program's first argument is "-". A pass can execute its own program
     * again (see exec.c). Without it such a program returns 0 at once. */
    int (*reexec_main)(int count, char **arguments);
};

#define WORKLOAD(...) const struct workload swapstone_workload = {__VA_ARGS__}

extern const struct workload swapstone_workload;

/* The selected parameter, or NULL if the workload has none. */
extern const struct parameter *parameter;

/* Ends the process. The report becomes one `error` line with this text (a printf format). Any thread or child
 * of the workload may call it; the report holds the first text. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Calls fail() with `what` and the text of errno, unless `holds`. */
void require(bool holds, const char *what);

/* Creates a file in the working directory, without a name. Calls fail() on an error. */
int unnamed_file(void);

/* Writes the path of the running program to `path`, which has `size` bytes. */
void program_path(char *path, size_t size);

/* Writes the path of the file `name` in the running program's directory to `path`, which has `size` bytes.
 * Calls fail() if it does not fit. */
void path_beside_program(char *path, size_t size, const char *name);

/* Makes the compiler assume that all memory is read and written here. It moves, merges and drops no call
 * across this line. */
static inline void compiler_barrier(void) {
    __asm__ volatile("" ::: "memory");
}

/* Returns the next number of the linear congruential generator whose constants ISO C gives for rand(),
 * modulo 2^32. The low bits have short periods. */
static inline uint32_t next_random(uint32_t *state) {
    return *state = *state * 1103515245u + 12345u;
}

/* FNV-1a, 64 bits (http://www.isthe.com/chongo/tech/comp/fnv/). A hash starts with FNV1A_OFFSET_BASIS. */
#define FNV1A_OFFSET_BASIS 14695981039346656037u

static inline uint64_t fnv1a_byte(uint64_t hash, unsigned char byte) {
    return (hash ^ byte) * 1099511628211u;
}

/* Adds the eight bytes of a number, the least significant first. */
static inline uint64_t fnv1a_number(uint64_t hash, uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
        hash = fnv1a_byte(hash, (unsigned char)(number >> shift));
    return hash;
}

#endif
