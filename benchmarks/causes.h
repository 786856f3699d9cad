/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the files of planted causes share. Each cause is a function: with 0 it does its work, with 1 the same work at an added cost. */
#ifndef CAUSES_H
#define CAUSES_H

#include <stdint.h>

enum { MIB = 1 << 20, PAGE = 4096 };

struct cause {
    const char *name;
    void (*run)(int planted);
};

extern const struct cause MORE_CAUSES[]; /* ends with a name of NULL */
extern volatile uint64_t sink;           /* keeps the compiler from removing a computation */

void compute(unsigned turns);
uint32_t next_random(uint32_t *state);
void check(int good, const char *what); /* exit with the error of `what` unless `good` */
void pin(int number);                   /* to one of the processors that the thread may use, another one for each number */

#endif
