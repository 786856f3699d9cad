// SPDX-License-Identifier: MIT OR Apache-2.0
/* For targets without a libc, and without the compiler's headers (-nostdinc): the compiler's predefined types. */
#ifndef LW_STDDEF_H
#define LW_STDDEF_H
typedef __SIZE_TYPE__ size_t;
typedef __PTRDIFF_TYPE__ ptrdiff_t;
#define NULL ((void *)0)
#define offsetof(type, member) __builtin_offsetof(type, member)
#endif
