// SPDX-License-Identifier: MIT OR Apache-2.0
/* The content of the pages that fill and touch write. */
#ifndef SWAPSTONE_PAGE_CONTENT_H
#define SWAPSTONE_PAGE_CONTENT_H

#include <stddef.h>
#include <stdint.h>

/* Fills a page: its number plus 1, then pseudo-random words (xorshift64) up to `percent` of the page, then
 * zeros. The number keeps zram from storing the page as one repeated word, without compressing it
 * (same-filled pages, Documentation/admin-guide/blockdev/zram.rst). */
static inline void fill_page(uint64_t *page, size_t words, uint64_t number, unsigned percent) {
    uint64_t state = (number + 1) * 0x9e3779b97f4a7c15;
    size_t random_words = words * percent / 100;
    page[0] = number + 1;
    for (size_t i = 1; i < random_words; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        page[i] = state;
    }
    for (size_t i = random_words > 1 ? random_words : 1; i < words; i++)
        page[i] = 0;
}

#endif
