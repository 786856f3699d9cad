// SPDX-License-Identifier: MIT OR Apache-2.0
/* For targets without a libc: mem.c includes it, and uses it only with checks that are off. */
