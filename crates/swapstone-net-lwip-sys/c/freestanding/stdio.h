/* For targets without a libc: mem.c includes it, and uses it only with checks that are off. */
