// SPDX-License-Identifier: MIT OR Apache-2.0
// Programs for benchmarks/exact-rows: `PROGRAM TURNS`. PROGRAM is loop, texts or calls; WORK a share of more
// turns, CALLS and PAGES numbers of more system calls and pages. They are compiled as two units, so that
// their order can be changed.

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef UNIT
#define UNIT unit
#endif
#ifndef VERSION
#define VERSION "1.0.0"
#endif
#ifndef WORK
#define WORK 0.0
#endif
#ifndef CALLS
#define CALLS 0
#endif
#ifndef PAGES
#define PAGES 0
#endif

uint64_t UNIT(uint64_t seed);

#ifdef PART_UNIT

// One unit of work: 250 turns of xorshift64 (Marsaglia 2003).
uint64_t UNIT(uint64_t seed) {
    for (int i = 0; i < 250; i++) {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
    }
    return seed;
}

#ifdef UNUSED
int never_called(int value);
int never_called(int value) {
    return value * 3 + 1;
}
#endif

#else

static const char version[] = "version " VERSION;

static int by_text(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static uint64_t loop(long turns) {
    uint64_t value = 88172645463325252U;
    for (long i = 0; i < turns; i++) {
        value = UNIT(value);
    }
    return value;
}

static uint64_t texts(long turns) {
    uint64_t value = 88172645463325252U, sum = 0;
    char *held[64];
    for (long left = turns; left > 0; left -= 64) {
        int count = left < 64 ? (int)left : 64;
        for (int j = 0; j < count; j++) {
            value = value * 6364136223846793005U + 1442695040888963407U;
            held[j] = malloc(24);
            if (!held[j]) {
                exit(1);
            }
            snprintf(held[j], 24, "%016llx", (unsigned long long)value);
        }
        qsort(held, (size_t)count, sizeof *held, by_text);
        for (int j = 0; j < count; j++) {
            sum = sum * 31 + (unsigned char)held[j][j % 16];
            free(held[j]);
        }
    }
    return sum;
}

static uint64_t calls(long turns) {
    uint64_t sum = loop(turns);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (child == 0) {
            _exit((int)(UNIT(sum) & 1));
        }
        int status = 0;
        waitpid(child, &status, 0);
        sum += (uint64_t)WEXITSTATUS(status);
    }
    return sum;
}

int main(int count, char **words) {
    long turns = count > 1 ? atol(words[1]) : 1000;
    turns += (long)(WORK * (double)turns + 0.5);
    for (int i = 0; i < 1000 + CALLS; i++) {
        getppid();
    }
    long page = sysconf(_SC_PAGESIZE), pages = 100 + PAGES;
    // Of another page each: without huge pages each touched page is one fault.
    char *memory =
        mmap(NULL, (size_t)(pages * page), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        return 1;
    }
    madvise(memory, (size_t)(pages * page), MADV_NOHUGEPAGE);
    for (long i = 0; i < pages; i++) {
        memory[i * page] = 1;
    }
    printf("%d %zu\n", PROGRAM(turns) != 0, strlen(version));
    return 0;
}

#endif
