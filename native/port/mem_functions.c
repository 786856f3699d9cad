/* The functions that a compiler may call in any program, even one without a library. Compiled so that none of
 * these loops is turned into a call of itself. */
#include <stddef.h>

void *memcpy(void *restrict to, const void *restrict from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *left, const void *right, size_t size);

void *memcpy(void *restrict to, const void *restrict from, size_t size) {
    unsigned char *t = to;
    const unsigned char *f = from;
    while (size--)
        *t++ = *f++;
    return to;
}

void *memmove(void *to, const void *from, size_t size) {
    unsigned char *t = to;
    const unsigned char *f = from;
    if (t < f)
        return memcpy(to, from, size);
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
/* The compiler's division calls it for a divisor of 0, which no caller here passes. */
int raise(int signal);
int raise(int signal) {
    (void)signal;
    __builtin_trap();
}
#endif
