// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Pairs of small programs with known behaviour of caches, branches and divides, for
 * benchmarks/model-programs.
 *
 *     model_programs PROGRAM VARIANT
 *
 * The variant is 0 or 1. A pass runs twice; the second run is measured, between the marks of Swapstone's
 * workloads (two calls of getrusage before it and two after it). Prints "NAME CHECKSUM NANOSECONDS". Without
 * arguments it prints the names.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { STEPS = 1 << 18, LARGE = 8 << 20, FUNCTION_BYTES = 64, FUNCTIONS = 2048, ROW = 1 << 10, LINE = 64 };

static int variant;
static char *memory; /* LARGE bytes, aligned to a page */
static uint32_t state = 1;

static uint32_t next_random(void) {
    state ^= state << 13;
    state ^= state >> 17;
    return state ^= state << 5;
}

/* Keeps a value in a register, and makes it unknown to the compiler. */
#define OPAQUE(value) __asm__ volatile("" : "+r"(value))

/* ==== Linked lists ==== */

/* Makes one cycle of all nodes of `size` bytes in the first `bytes` bytes, in order or shuffled (Sattolo). */
static void make_list(size_t bytes, size_t size, int shuffled) {
    size_t count = bytes / size;
    uint32_t *order = malloc(count * sizeof *order);
    if (!order)
        exit(1);
    for (size_t i = 0; i < count; i++)
        order[i] = (uint32_t)i;
    for (size_t i = count - 1; shuffled && i > 0; i--) {
        size_t other = next_random() % i;
        uint32_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < count; i++)
        *(void **)(memory + order[i] * size) = memory + order[(i + 1) % count] * size;
    free(order);
}

static uint64_t follow(void) {
    char *at = memory;
    for (int i = 0; i < STEPS * 4; i++) {
        at = *(char **)at;
        OPAQUE(at);
    }
    return (uint64_t)(at - memory);
}

/* ==== Arrays ==== */

static uint64_t strided(void) {
    size_t stride = variant ? LINE : 8, at = 0;
    uint64_t sum = 0;
    for (int i = 0; i < STEPS; i++) {
        sum += *(uint64_t *)(memory + at);
        at = (at + stride) & (LARGE - 1);
        OPAQUE(sum);
    }
    return sum;
}

/* Writes a matrix of 512 rows of 1024 numbers: row by row, or column by column. */
static uint64_t fill(void) {
    uint64_t *matrix = (uint64_t *)memory;
    size_t step = variant ? ROW : 1, turn = variant ? 1 : 0, at = 0, count = (size_t)ROW * 512;
    for (size_t i = 0; i < count; i++) {
        matrix[at] = i;
        at += step;
        size_t wrap = at >= count; /* without a branch */
        at -= wrap * count;
        at += wrap * turn;
        OPAQUE(at);
    }
    return matrix[7];
}

/* ==== Branches ==== */

static void prepare_branches(void) {
    for (int i = 0; i < STEPS; i++)
        memory[i] = (char)(i & 1);
    for (int i = STEPS - 1; variant && i > 0; i--) { /* as many of each, shuffled (Fisher and Yates) */
        int other = (int)(next_random() % (uint32_t)(i + 1));
        char kept = memory[i];
        memory[i] = memory[other];
        memory[other] = kept;
    }
}

static uint64_t branches(void) {
    uint64_t ones = 0, zeros = 0;
    for (int i = 0; i < STEPS; i++)
        if (memory[i]) {
            ones++;
            OPAQUE(ones);
        } else {
            zeros += 3;
            OPAQUE(zeros);
        }
    return ones + zeros;
}

/* ==== Arithmetic ==== */

/* Loops of STEPS turns, in which each variant has the same number of instructions. */
#if defined __x86_64__
#define LOOP(body) "1: " body " sub $1, %[left]\n jnz 1b"
#define ADD(to, from) "add %[" from "], %[" to "]\n"
#define INTEGER(operation) "mov %[value], %%rax\n xor %%edx, %%edx\n" operation "\n"
#define DIVIDE INTEGER("div %[other]")
#define SUM INTEGER("add %[other], %%rax")
#define DIVIDE_DOUBLE "divsd %[other], %[value]\n"
#define MULTIPLY_DOUBLE "mulsd %[other], %[value]\n"
#define REGISTER "+x"
#define OTHER "x"
#define CLOBBERED "rax", "rdx", "cc"
#elif defined __aarch64__
#define LOOP(body) "1: " body " subs %[left], %[left], 1\n b.ne 1b"
#define ADD(to, from) "add %[" to "], %[" to "], %[" from "]\n"
#define DIVIDE "udiv x9, %[value], %[other]\n"
#define SUM "add x9, %[value], %[other]\n"
#define DIVIDE_DOUBLE "fdiv %d[value], %d[value], %d[other]\n"
#define MULTIPLY_DOUBLE "fmul %d[value], %d[value], %d[other]\n"
#define REGISTER "+w"
#define OTHER "w"
#define CLOBBERED "x9", "cc"
#endif
#define CHAIN ADD("a", "one") ADD("a", "one") ADD("a", "one") ADD("a", "one")
#define APART ADD("a", "one") ADD("b", "one") ADD("c", "one") ADD("d", "one")

static uint64_t divide(void) {
    uint64_t value = UINT64_MAX, other = 3, left = STEPS;
    if (variant)
        __asm__ volatile(LOOP(DIVIDE)
                         : [left] "+r"(left)
                         : [value] "r"(value), [other] "r"(other)
                         : CLOBBERED);
    else
        __asm__ volatile(LOOP(SUM) : [left] "+r"(left) : [value] "r"(value), [other] "r"(other) : CLOBBERED);
    return left;
}

static uint64_t divide_double(void) {
    double value = 1.0, other = 1.0000001;
    uint64_t left = STEPS;
    if (variant)
        __asm__ volatile(LOOP(DIVIDE_DOUBLE)
                         : [left] "+r"(left), [value] REGISTER(value)
                         : [other] OTHER(other)
                         : "cc");
    else
        __asm__ volatile(LOOP(MULTIPLY_DOUBLE)
                         : [left] "+r"(left), [value] REGISTER(value)
                         : [other] OTHER(other)
                         : "cc");
    return left + (value > 0);
}

/* Eight additions that depend on each other, or of which four do not. */
static uint64_t additions(void) {
    uint64_t a = 1, b = 2, c = 3, d = 4, one = 1, left = STEPS;
#define SUMS [left] "+r"(left), [a] "+r"(a), [b] "+r"(b), [c] "+r"(c), [d] "+r"(d)
    if (variant)
        __asm__ volatile(LOOP(CHAIN CHAIN) : SUMS : [one] "r"(one) : "cc");
    else
        __asm__ volatile(LOOP(APART APART) : SUMS : [one] "r"(one) : "cc");
    return a + b + c + d;
}

static uint64_t atomic(void) {
    uint64_t *at = (uint64_t *)memory;
    *at = 0;
    for (int i = 0; i < STEPS; i++) {
#if defined __x86_64__
        if (variant)
            __asm__ volatile("lock addq $1, %0" : "+m"(*at) : : "cc");
        else
            __asm__ volatile("addq $1, %0" : "+m"(*at) : : "cc");
#elif defined __aarch64__
        uint64_t value;
        uint32_t failed = 0;
        if (variant)
            __asm__ volatile("1: ldaxr %0, [%2]\n add %0, %0, 1\n stlxr %w1, %0, [%2]\n cbnz %w1, 1b"
                             : "=&r"(value), "+&r"(failed)
                             : "r"(at)
                             : "memory");
        else
            __asm__ volatile("1: ldr %0, [%2]\n add %0, %0, 1\n str %0, [%2]\n cbnz %w1, 1b"
                             : "=&r"(value), "+&r"(failed)
                             : "r"(at)
                             : "memory");
#endif
    }
    return *at;
}

/* ==== Code ==== */

/* FUNCTIONS functions of one line each, which return their argument plus 1. */
#if defined __x86_64__
#define ADD_AND_RETURN "lea 1(%rdi), %rax\n ret\n"
#elif defined __aarch64__
#define ADD_AND_RETURN "add x0, x0, 1\n ret\n"
#endif
__asm__(".text\n .balign 4096\n many_functions:\n .rept 2048\n .balign 64\n" ADD_AND_RETURN
        ".endr\n .balign 64\n .zero 64\n");
extern char many_functions[];

static uint64_t calls(void) {
    size_t mask = (size_t)FUNCTION_BYTES * (variant ? FUNCTIONS : 64) - 1, at = 0;
    uint64_t sum = 0;
    for (int i = 0; i < STEPS; i++) {
        sum = ((uint64_t(*)(uint64_t))(void *)(many_functions + at))(sum);
        at = (at + FUNCTION_BYTES) & mask;
    }
    return sum;
}

/* ==== */

/* What a program needs before a pass: of a list, the bytes and the order of each variant, and the size of a
 * node. */
static const struct {
    const char *name;
    void (*prepare)(void);
    uint64_t (*pass)(void);
    size_t bytes[2], node;
    int shuffled[2];
} programs[] = {
    {"chase", NULL, follow, {LARGE, LARGE}, sizeof(void *), {0, 1}},
    {"l2-list", NULL, follow, {8 << 10, 256 << 10}, LINE, {1, 1}},
    {"memory-list", NULL, follow, {256 << 10, LARGE}, LINE, {1, 1}},
    {"stride", NULL, strided, {0}, 0, {0}},
    {"fill", NULL, fill, {0}, 0, {0}},
    {"branch", prepare_branches, branches, {0}, 0, {0}},
    {"divide", NULL, divide, {0}, 0, {0}},
    {"divide-double", NULL, divide_double, {0}, 0, {0}},
    {"code", NULL, calls, {0}, 0, {0}},
    {"line-chase", NULL, follow, {LARGE, LARGE}, LINE, {0, 1}},
    {"additions", NULL, additions, {0}, 0, {0}},
    {"atomic", NULL, atomic, {0}, 0, {0}},
};

enum { PROGRAMS = sizeof programs / sizeof *programs };

static int64_t now_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void mark(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
}

int main(int count, char **arguments) {
    for (int i = 0; i < PROGRAMS; i++) {
        if (count != 3) {
            puts(programs[i].name);
            continue;
        }
        if (strcmp(arguments[1], programs[i].name) != 0)
            continue;
        variant = arguments[2][0] == '1';
        memory = aligned_alloc(4096, LARGE);
        if (!memory)
            return 1;
        memset(memory, 1, LARGE);
        if (programs[i].node)
            make_list(programs[i].bytes[variant], programs[i].node, programs[i].shuffled[variant]);
        if (programs[i].prepare)
            programs[i].prepare();
        uint64_t before = programs[i].pass();
        mark();
        mark();
        int64_t start = now_ns();
        uint64_t sum = programs[i].pass();
        int64_t end = now_ns();
        mark();
        mark();
        printf("%s %llx %lld\n", programs[i].name, (unsigned long long)(before * 31 + sum),
               (long long)(end - start));
        return 0;
    }
    return count == 3;
}
