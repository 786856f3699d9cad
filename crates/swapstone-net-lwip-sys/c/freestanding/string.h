// SPDX-License-Identifier: MIT OR Apache-2.0
/* For targets without a libc: what compiler_builtins has. */
#ifndef LW_STRING_H
#define LW_STRING_H
#include <stddef.h>
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *one, const void *other, size_t size);
int strncmp(const char *one, const char *other, size_t size); /* not linked: its callers are not called */
size_t strlen(const char *text);
#endif
