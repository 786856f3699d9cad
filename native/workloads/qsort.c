// SPDX-License-Identifier: MIT OR Apache-2.0
/* Sorts 10000 random numbers with qsort(). Each pass sorts the same numbers. Not from a published benchmark.
 */
#include "harness.h"

#include <stdlib.h>
#include <string.h>

enum { NUMBERS = 10000 };

static uint32_t unsorted[NUMBERS], numbers[NUMBERS];

static void prepare(void) {
    uint32_t random = 1;
    for (size_t i = 0; i < NUMBERS; i++)
        unsorted[i] = next_random(&random);
}

static int compare(const void *left, const void *right) {
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    return (a > b) - (a < b);
}

static uint64_t pass(void) {
    memcpy(numbers, unsorted, sizeof numbers);
    qsort(numbers, NUMBERS, sizeof *numbers, compare);
    uint64_t check = 0;
    for (size_t i = 0; i < NUMBERS; i++)
        check = check * 31 + numbers[i];
    return check;
}

WORKLOAD(.name = "qsort", .mode = WARM, .ops = 1, .prepare = prepare, .pass = pass);
