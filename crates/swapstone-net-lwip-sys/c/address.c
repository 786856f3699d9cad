// SPDX-License-Identifier: MIT OR Apache-2.0
/* Conversion of addresses between lwIP and Rust. */
#include "glue.h"
#include <string.h>

void lw_to_ip(ip_addr_t *to, const struct lw_address *from) {
    memset(to, 0, sizeof *to);
    if (from->kind == 4) {
        IP_SET_TYPE_VAL(*to, IPADDR_TYPE_V4);
        ip_2_ip4(to)->addr = from->words[0];
    } else {
        IP_SET_TYPE_VAL(*to, from->kind == 6 ? IPADDR_TYPE_V6 : IPADDR_TYPE_ANY);
        memcpy(ip_2_ip6(to)->addr, from->words, 16);
    }
}

void lw_from_ip(struct lw_address *to, const ip_addr_t *from) {
    memset(to, 0, sizeof *to);
    if (IP_IS_ANY_TYPE_VAL(*from)) {
        return;
    }
    if (IP_IS_V6(from)) {
        to->kind = 6;
        memcpy(to->words, ip_2_ip6(from)->addr, 16);
    } else {
        to->kind = 4;
        to->words[0] = ip_2_ip4(from)->addr;
    }
}
