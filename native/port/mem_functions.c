// SPDX-License-Identifier: MIT OR Apache-2.0
/* The memory functions that a compiler may call even in a freestanding program (GCC manual, "Standards"). The
 * build uses -ffreestanding -fno-builtin, so that the compiler replaces none of these loops by a call of the
 * function that contains it. */
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *left, const void *right, size_t size);

/* Copies in ascending order, so `to` may overlap `from` if it is below. */
static void *copy_up(void *to, const void *from, size_t size) {
    typedef unsigned long word __attribute__((may_alias, aligned(1)));
    unsigned char *t = to;
    const unsigned char *f = from;
    for (; size >= sizeof(word); size -= sizeof(word), t += sizeof(word), f += sizeof(word))
        *(word *)t = *(const word *)f;
    while (size--)
        *t++ = *f++;
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    return copy_up(to, from, size);
}

void *memmove(void *to, const void *from, size_t size) {
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t < f)
        return copy_up(to, from, size);
    while (size--)
        t[size] = f[size];
    return to;
}

void *memset(void *to, int value, size_t size) {
    unsigned char *t = to;
    while (size--)
        *t++ = (unsigned char)value;
    return to;
}

int memcmp(const void *left, const void *right, size_t size) {
    const unsigned char *l = left, *r = right;
    for (; size--; l++, r++)
        if (*l != *r)
            return *l < *r ? -1 : 1;
    return 0;
}

#if defined(__arm__)
/* libgcc's integer division (__aeabi_idiv0) calls it if the divisor is 0, which does not occur here. */
int raise(int signal);
int raise(int signal) {
    (void)signal;
    __builtin_trap();
}
#endif
