// SPDX-License-Identifier: MIT OR Apache-2.0
/* For targets without a libc: netif.c includes it, for a function that is not used. */
#ifndef LW_STDLIB_H
#define LW_STDLIB_H
static inline int atoi(const char *text) {
    (void)text;
    return 0;
}
#endif
