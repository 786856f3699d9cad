/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Counts the requests for memory that a remedy of the allocator serves, and changes nothing. */
#include "intercept.h"

void *malloc(size_t size) {
    count();
    return NEXT(malloc)(size);
}

void *calloc(size_t number, size_t size) {
    count();
    return NEXT(calloc)(number, size);
}

void *realloc(void *block, size_t size) {
    count();
    return NEXT(realloc)(block, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    count();
    return NEXT(aligned_alloc)(alignment, size);
}

int posix_memalign(void **block, size_t alignment, size_t size) {
    count();
    return NEXT(posix_memalign)(block, alignment, size);
}
