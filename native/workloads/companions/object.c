// SPDX-License-Identifier: MIT OR Apache-2.0
/* A small shared object for the workload dlopen: one function, and one pointer that needs a relocation. */

static int number = 42;
int *object_number = &number;

int object_answer(void);

int object_answer(void) {
    return *object_number;
}
