// SPDX-License-Identifier: MIT OR Apache-2.0
/* The types and macros that lwIP needs from the compiler and the machine. No libc is needed but memcpy, memmove, memset, memcmp and
 * strlen. */
#ifndef LW_ARCH_CC_H
#define LW_ARCH_CC_H

#include <stddef.h>
#include <stdint.h>

#define LWIP_NO_INTTYPES_H 1
#define LWIP_NO_UNISTD_H 1
#define LWIP_NO_CTYPE_H 1
#define X8_F "02x"
#define U16_F "u"
#define S16_F "d"
#define X16_F "x"
#define U32_F "u"
#define S32_F "d"
#define X32_F "x"
#define SZT_F "zu"

/* A broken invariant inside lwIP ends the program with its text: going on would be undefined. */
void lw_rust_broken(const char *text, int line);
#define LWIP_PLATFORM_ASSERT(text) lw_rust_broken(text, __LINE__)
#define LWIP_PLATFORM_DIAG(text)                                                                             \
    do {                                                                                                     \
    } while (0)

uint32_t lw_random(void);
#define LWIP_RAND() lw_random()

#endif
