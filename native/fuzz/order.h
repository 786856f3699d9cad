// SPDX-License-Identifier: MIT OR Apache-2.0
/* The decoder of the order that a guest's first process reads. */
#ifndef FUZZ_ORDER_H
#define FUZZ_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Reads the lines of an order before its plan. Returns false if the machine would stop with an error. */
bool read_order(const uint8_t *data, size_t size);

#endif
