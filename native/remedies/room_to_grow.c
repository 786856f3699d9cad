/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A block that grows gets half more than it requests. */
#include "intercept.h"
#include <malloc.h>

void *realloc(void *block, size_t size) {
    if (!block || !size)
        return NEXT(realloc)(block, size);
    count();
    if (malloc_usable_size(block) >= size)
        return block;
    void *found = NEXT(realloc)(block, size + size / 2);
    return found ? found : NEXT(realloc)(block, size);
}
