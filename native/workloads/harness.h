/*
 * What a workload says of itself, and what the harness offers it.
 *
 * A workload is one .c file with one WORKLOAD(...) in it, linked with harness.c. The harness owns main(), the
 * clocks and the report (docs/wire.md, section 3); the workload owns the work. docs/workloads.md lists them
 * all.
 *
 * Only ISO C, POSIX and what Linux shows under /proc: a workload builds with every C library that is
 * compared.
 */
#ifndef SWAPSTONE_HARNESS_H
#define SWAPSTONE_HARNESS_H

#include <stddef.h>
#include <stdint.h>

enum mode {
    FRESH, /* each pass in a child of its own, which has done nothing before but put one line into stdout */
    WARM,  /* all passes in one child, after one pass that is not measured */
};

/* One of the works that a file offers; chosen by the program's second argument. Fields it does not need stay
 * zero. */
struct parameter {
    const char *argument;   /* as on the command line */
    const char *name;       /* as the report prints it */
    uint64_t ops;           /* operations in one pass */
    size_t size;            /* for the workload's own use */
    const char *text;       /* for the workload's own use */
    uint64_t (*pass)(void); /* in place of the workload's */
};

struct workload {
    const char *name; /* as the report prints it; unused where there are parameters */
    enum mode mode;
    uint64_t ops;          /* operations in one pass; unused where there are parameters */
    void (*prepare)(void); /* optional: before the measured region, in the process that will be measured */
    uint64_t (*pass)(
        void);            /* the work; returns a checksum that is equal for equal work, in every C library */
    void (*finish)(void); /* optional: after memory was read; not called when the work failed */
    const struct parameter *parameters;               /* optional: ends with one whose argument is NULL */
    int (*started_anew)(int count, char **arguments); /* optional: main() of the program where its first
                                                         argument is "-" */
};

#define WORKLOAD(...) const struct workload swapstone_workload = {__VA_ARGS__}

extern const struct workload swapstone_workload;

/* The parameter that was chosen, or NULL where the workload has none. */
extern const struct parameter *parameter;

/* Give up: the report becomes one `error` line with this text (printf's format). Any thread or child of the
 * work may call it; the first is heard. */
_Noreturn void fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Write the path of the directory that holds the running program, and a name in it, to `path`; fails where it
 * does not fit. */
void beside_program(char *path, size_t size, const char *name);

/* Tell the compiler that all memory may have been read and written here: no call may be moved across it,
 * merged or dropped. */
static inline void compiler_barrier(void) {
    __asm__ volatile("" ::: "memory");
}

/* One step of the linear congruential generator with ANSI C's example constants, modulo 2^32. */
static inline uint32_t next_random(uint32_t *state) {
    return *state = *state * 1103515245u + 12345u;
}

/* One byte into a running FNV-1a hash of 64 bits; start with HASH_START. */
#define HASH_START 14695981039346656037u

static inline uint64_t hash_byte(uint64_t hash, unsigned char byte) {
    return (hash ^ byte) * 1099511628211u;
}

static inline uint64_t hash_number(uint64_t hash, uint64_t number) {
    for (int shift = 0; shift < 64; shift += 8)
        hash = hash_byte(hash, (unsigned char)(number >> shift));
    return hash;
}

static inline uint64_t hash_text(uint64_t hash, const char *text) {
    while (*text)
        hash = hash_byte(hash, (unsigned char)*text++);
    return hash;
}

#endif
