// SPDX-License-Identifier: MIT OR Apache-2.0
/* Access to pbufs for Rust. */
#include "glue.h"

const u8_t *lw_pbuf_bytes(const struct pbuf *p, size_t *size) {
    *size = p->len;
    return p->payload;
}

size_t lw_pbuf_total(const struct pbuf *p) {
    return p->tot_len;
}

/* Remove the first `size` bytes and empty pbufs; returns the rest or NULL. */
struct pbuf *lw_pbuf_advance(struct pbuf *p, size_t size) {
    if (size > 0) {
        p = pbuf_free_header(p, (u16_t)size);
    }
    while (p != NULL && p->len == 0) {
        struct pbuf *rest = p->next;
        p->next = NULL;
        pbuf_free(p);
        p = rest;
    }
    return p;
}

void lw_pbuf_free(struct pbuf *p) {
    pbuf_free(p);
}

void lw_pbuf_copy(const struct pbuf *p, void *to) {
    pbuf_copy_partial(p, to, p->tot_len, 0);
}
