/* Between the C files, and between them and Rust (src/ffi.rs has the same declarations). */
#ifndef LW_GLUE_H
#define LW_GLUE_H

#include "lwip/netif.h"
#include "lwip/pbuf.h"
#include "lwip/tcp.h"
#include "lwip/udp.h"

#include "hooks.h"

/* An address as Rust has it. */
struct lw_address {
    u32_t words[4]; /* in network order; an IPv4 address is the first */
    u8_t kind;      /* 4, 6, or 0 for any of both kinds */
};

struct lw_part {
    const void *bytes;
    size_t size;
};

struct lw_offload {
    u16_t start, offset; /* of the checksum; start 0: it is complete */
    u16_t size, headers; /* of the segments; size 0: not to be cut */
    u8_t ipv6;
};

struct lw_settings {
    u8_t hardware_address[6];
    u8_t slaac;
    u8_t finishes_checksums;
    u16_t mtu;
    u16_t segments; /* the largest IP packet that the device cuts up; 0 if it cuts none */
    u32_t receive_buffer, send_buffer;
    u64_t key[4];
    struct lw_address v4, mask_v4, gateway_v4, gateway_v6; /* kind 0 if there is none */
    void *table;
    size_t buckets; /* a power of two */
};

/* A received frame: lwIP's pbuf first, then what Rust keeps beside it. */
struct lw_received {
    struct pbuf_custom custom;
};

struct lw_counts {
    u64_t no_room, malformed, retransmitted;
    u64_t out_of_parts;
    size_t active, waiting;
    u64_t timers_visited; /* connections that a tick of the timers has looked at */
};
extern struct lw_counts lw_counts;

/* index.c */
void lw_index_start(void *memory, size_t buckets);
void lw_watch(struct tcp_pcb *pcb);
struct tcp_pcb *lw_find(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote, u16_t remote_port);
uintptr_t lw_mark(struct tcp_pcb *pcb);
void lw_set_mark(struct tcp_pcb *pcb, uintptr_t mark);
void lw_limit_waiting(size_t most);
void lw_wake(struct tcp_pcb *pcb);
void lw_tcp_tick(void);

/* tcp.c */
void lw_tcp_stop(void);
u32_t lw_wire_mss(struct tcp_pcb *pcb);
void lw_half_open(struct tcp_pcb *pcb);

/* hash.c */
void lw_hash_start(const u64_t from[4]);
u64_t lw_tuple_hash(u8_t what, const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote,
                    u16_t remote_port);

/* checks.c */
int lw_extensions_fit(const u8_t *packet, size_t length);

/* glue.c */
extern struct netif lw_netif;
void lw_to_ip(ip_addr_t *to, const struct lw_address *from);
void lw_from_ip(struct lw_address *to, const ip_addr_t *from);
u16_t lw_segments(void);
struct pbuf *lw_pbuf_advance(struct pbuf *p, size_t size);

/* Rust */
void lw_rust_gone(uintptr_t token);
int lw_rust_time_wait(uintptr_t token); /* true: nobody asks for it any more */
int lw_rust_room(uintptr_t listener);   /* for one more SYN */
int lw_rust_full(uintptr_t token);      /* whether too many wait to be accepted already */
uintptr_t lw_rust_half_open(uintptr_t listener, struct tcp_pcb *pcb);
void lw_rust_accepted(uintptr_t token);
void lw_rust_connected(uintptr_t token);
void lw_rust_received(uintptr_t token, struct pbuf *data); /* null: the end */
void lw_rust_sent(uintptr_t token, u16_t size);
void lw_rust_failed(uintptr_t token, int error);
int lw_rust_overdue(uintptr_t token);
void lw_rust_datagram(uintptr_t token, struct pbuf *data, const struct lw_address *from, u16_t port);
int lw_rust_transmit(const struct lw_part *parts, size_t count, const struct lw_offload *offload);
void lw_rust_received_free(void *received);
u64_t lw_rust_micros(void);

#endif
