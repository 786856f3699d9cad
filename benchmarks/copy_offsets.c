// SPDX-License-Identifier: MIT OR Apache-2.0
/* Copies pages from sources at various offsets in their page, and prints how long each copy took.
 *
 * Usage: copy_offsets PASSES OFFSET...
 * Each line: the offset in bytes, "cached" or "memory", and the nanoseconds of copying 10^6 bytes.
 * "cached" copies to the same 1 MiB again and again, "memory" to 32 MiB in turn. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE 4096
#define FRAME (15 * PAGE)    /* the pages of one copy, as a large frame of a network device has */
#define CACHED (17 * FRAME)  /* about 1 MiB */
#define MEMORY (545 * FRAME) /* about 32 MiB */

/* Linux copies from user space by "rep movsb" if the processor has the feature ERMS or FSRM. */
static void copy(void *to, const void *from, size_t size) {
#if defined(__x86_64__)
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(size) : : "memory");
#else
    memcpy(to, from, size);
    __asm__ volatile("" : : "r"(to) : "memory");
#endif
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e9 * (double)time.tv_sec + (double)time.tv_nsec;
}

static double each(char *to, size_t reach, const char *from) {
    size_t at = 0, done = 0;
    double begin = now();
    while (done < MEMORY) {
        for (size_t page = 0; page < FRAME; page += PAGE) {
            copy(to + at + page, from + page, PAGE);
        }
        done += FRAME;
        at = (at + FRAME) % reach;
    }
    return (now() - begin) / ((double)done / 1e6);
}

int main(int count, char **words) {
    char *from = aligned_alloc(PAGE, FRAME + 2 * PAGE), *to = aligned_alloc(PAGE, MEMORY);
    if (count < 3 || from == NULL || to == NULL) {
        fputs("usage: copy_offsets PASSES OFFSET...\n", stderr);
        return 2;
    }
    memset(from, 1, FRAME + 2 * PAGE);
    memset(to, 1, MEMORY);
    for (long pass = strtol(words[1], NULL, 10); pass > 0; pass--) {
        for (int word = 2; word < count; word++) {
            long offset = strtol(words[word], NULL, 10);
            if (offset < 0 || offset >= PAGE) {
                fputs("an offset is 0 to 4095\n", stderr);
                return 2;
            }
            printf("%ld cached %.0f\n", offset, each(to, CACHED, from + offset));
            printf("%ld memory %.0f\n", offset, each(to, MEMORY, from + offset));
        }
    }
    return fflush(stdout) == 0 ? 0 : 1;
}
