// SPDX-License-Identifier: MIT OR Apache-2.0
/* For targets without a libc: arch.h needs INT_MAX. */
#ifndef LW_LIMITS_H
#define LW_LIMITS_H
#define INT_MAX __INT_MAX__
#endif
