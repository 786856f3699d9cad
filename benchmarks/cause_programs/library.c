/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A shared library whose builds differ: the model of its thread-local variables, and the optimization of one function. */
#include <stddef.h>
#include <stdint.h>

#ifndef SMOOTH
#define SMOOTH
#endif

static _Thread_local uint64_t tallies[8];

void tally(unsigned kind) {
    tallies[kind % 8]++;
}

SMOOTH void smooth(float *line, size_t length) {
    for (size_t i = 1; i + 1 < length; i++)
        line[i] = (line[i - 1] + 2 * line[i] + line[i + 1]) / 4;
}

void brighten(float *line, size_t length) {
    for (size_t i = 0; i < length; i++)
        line[i] = line[i] * 0.999f + 0.25f;
}
