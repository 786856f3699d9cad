// SPDX-License-Identifier: MIT OR Apache-2.0
/* The operating system of a fuzzed agent: every file that it opens holds a part of the input. */
#ifndef FUZZ_PORT_H
#define FUZZ_PORT_H

#include <stddef.h>
#include <stdint.h>

/* Sets the input: its parts, separated by bytes 0x1e, are the files in the order in which their paths are
 * opened first; after the last part the first one is used again. */
void set_files(const uint8_t *data, size_t size);

#endif
