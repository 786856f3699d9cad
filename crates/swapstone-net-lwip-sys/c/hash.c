// SPDX-License-Identifier: MIT OR Apache-2.0
/* Unpredictable numbers: SipHash-2-4 (Aumasson and Bernstein, 2012) of a tuple of addresses and ports. */
#include "glue.h"
#include <string.h>

static u64_t key[4], random_state;

void lw_hash_start(const u64_t from[4]) {
    memcpy(key, from, sizeof key);
    random_state = 0;
}

static u64_t rotate(u64_t value, int bits) {
    return (value << bits) | (value >> (64 - bits));
}

static void sip_round(u64_t v[4]) {
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static u64_t sip(const u64_t *words, size_t count) {
    u64_t v[4];
    size_t at;
    v[0] = key[0] ^ 0x736f6d6570736575u;
    v[1] = key[1] ^ 0x646f72616e646f6du;
    v[2] = key[0] ^ 0x6c7967656e657261u;
    v[3] = key[1] ^ 0x7465646279746573u;
    for (at = 0; at <= count; at++) {
        u64_t word = at < count ? words[at] : (u64_t)(count * 8) << 56;
        v[3] ^= word;
        sip_round(v);
        sip_round(v);
        v[0] ^= word;
    }
    v[2] ^= 0xff;
    for (at = 0; at < 4; at++) {
        sip_round(v);
    }
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

static size_t address_words(u64_t *to, const ip_addr_t *from) {
    if (IP_IS_V6(from)) {
        const u32_t *words = ip_2_ip6(from)->addr;
        to[0] = (u64_t)words[0] << 32 | words[1];
        to[1] = (u64_t)words[2] << 32 | words[3];
        return 2;
    }
    to[0] = ip4_addr_get_u32(ip_2_ip4(from));
    return 1;
}

u64_t lw_tuple_hash(u8_t what, const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote,
                    u16_t remote_port) {
    u64_t words[5];
    size_t count = address_words(words, local);
    count += address_words(words + count, remote);
    words[count++] = (u64_t)what << 32 | (u32_t)local_port << 16 | remote_port;
    return sip(words, count);
}

/* Initial sequence numbers (RFC 6528): a 4 us clock plus a keyed hash. */
u32_t lw_first_sequence_number(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote,
                               u16_t remote_port) {
    return (u32_t)lw_tuple_hash(1, local, local_port, remote, remote_port) + (u32_t)(lw_rust_micros() / 4);
}

/* The offset of the search for an ephemeral port (RFC 6056, algorithm 3). */
u32_t lw_first_port(const struct lw_address *local, const struct lw_address *remote, u16_t port) {
    ip_addr_t one, other;
    lw_to_ip(&one, local);
    lw_to_ip(&other, remote);
    return (u32_t)lw_tuple_hash(2, &one, 0, &other, port);
}

u32_t lw_random(void) {
    u64_t words[2] = {3, random_state++};
    return (u32_t)sip(words, 2);
}
