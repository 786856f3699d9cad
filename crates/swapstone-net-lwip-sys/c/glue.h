// SPDX-License-Identifier: MIT OR Apache-2.0
/* Declarations shared by the C files, and by C and Rust (src/ffi.rs has the same). */
#ifndef LW_GLUE_H
#define LW_GLUE_H

#include "lwip/netif.h"
#include "lwip/pbuf.h"
#include "lwip/tcp.h"
#include "lwip/udp.h"

#include "hooks.h"

/* An address in the format of Rust. */
struct lw_address {
    u32_t words[4]; /* in network byte order; an IPv4 address is the first word */
    u8_t kind;      /* 4, 6, or 0 for the wildcard of both families */
};

struct lw_part {
    const void *bytes;
    size_t size;
};

struct lw_offload {
    u16_t start, offset; /* of the checksum; start 0: no checksum offload */
    u16_t size, headers; /* of the segments; size 0: no segmentation */
    u8_t ipv6;
};

struct lw_settings {
    u8_t hardware_address[6];
    u8_t slaac;
    u8_t checksum_offload;
    u16_t mtu;
    u16_t segments; /* the largest IP packet that the device splits; 0 without TSO */
    u32_t receive_buffer, send_buffer;
    u64_t key[4];
    struct lw_address v4, mask_v4, gateway_v4, gateway_v6; /* kind 0 if unset */
    void *table;
    size_t buckets; /* a power of two */
    u32_t fixes;    /* bit N: the fix N of enum lw_fix is on */
};

/* Corrections of lwIP that can be switched off; swapstone-net-lwip/src/fixes.rs has their names. */
enum lw_fix {
    LW_BACKLOG_RECYCLING,
    LW_SYN_WITH_FIN,
    LW_LEAST_MSS,
    LW_LIMITED_TRANSMIT,
    LW_LARGE_SEGMENTS,
    LW_ICMP_ERROR_RATE,
    LW_HANDSHAKE_TIMED,
    LW_ACK_AFTER_READ,
    LW_ACK_FILLED_GAP,
    LW_REORDERING_WINDOW, /* in Rust */
    LW_SIMULTANEOUS_OPEN,
    LW_RETRANSMISSION_ORDER,
    LW_DUPLICATE_ACK_WINDOW, /* in Rust */
    LW_TIMESTAMPS,
};
#define LW_FIX(fix) (lw_settings.fixes >> (fix)&1)

/* The queue of data out of order, and whether the peer permits SACK; without that queue, neither exists. */
#if TCP_QUEUE_OOSEQ
#define LW_EARLY(pcb) ((pcb)->ooseq)
#define LW_SACK(pcb) ((pcb)->flags & TF_SACK)
#else
#define LW_EARLY(pcb) ((const struct tcp_seg *)NULL)
#define LW_SACK(pcb) 0
#endif

/* A received frame: lwIP's pbuf, followed by data of Rust. */
struct lw_received {
    struct pbuf_custom custom;
};

struct lw_counts {
    u64_t no_room, malformed, retransmitted;
    u64_t out_of_parts;
    size_t active, waiting;
    u64_t timers_visited; /* connections that the timers have examined */
};

/* state.c */
extern struct lw_counts lw_counts;
extern struct lw_settings lw_settings;
extern struct netif lw_netif;
extern ip6_addr_t lw_default_gateway_v6;
u16_t lw_segments(void);
u16_t lw_checksum_flags(int verified);
int lw_router_known(void);

/* address.c */
void lw_to_ip(ip_addr_t *to, const struct lw_address *from);
void lw_from_ip(struct lw_address *to, const ip_addr_t *from);

/* pbuf.c */
struct pbuf *lw_pbuf_advance(struct pbuf *p, size_t size);

/* index.c. `half_open` is called for each connection that enters SYN_RCVD. */
void lw_index_start(void *memory, size_t buckets, void (*half_open)(struct tcp_pcb *pcb));
void lw_watch(struct tcp_pcb *pcb);
struct tcp_pcb *lw_find(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote, u16_t remote_port);
u32_t lw_wire_mss(const struct tcp_pcb *pcb);
void lw_set_wire_mss(struct tcp_pcb *pcb, u32_t mss);
void lw_limit_waiting(size_t most);
err_t lw_simultaneously_open(void *argument, struct tcp_pcb *pcb, err_t error);
void lw_wake(struct tcp_pcb *pcb);

/* timers.c */
void lw_tcp_tick(void);

/* acks.c */
void lw_acknowledge(struct tcp_pcb *pcb);

/* timestamps.c */
void lw_timestamps_start(void);
u16_t lw_timestamps_length(const struct tcp_pcb *pcb);

/* recovery.c: to be called before data or a FIN is queued */
void lw_order_before_append(struct tcp_pcb *pcb);

/* tcp.c */
void lw_tcp_stop(void);
void lw_half_open(struct tcp_pcb *pcb);

/* hash.c */
void lw_hash_start(const u64_t from[4]);
u64_t lw_tuple_hash(u8_t what, const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote,
                    u16_t remote_port);

/* checks.c */
int lw_extensions_fit(const u8_t *packet, size_t length);

/* device.c */
err_t lw_transmit(struct netif *netif, struct pbuf *p);

/* Rust */
void lw_rust_gone(uintptr_t token);
int lw_rust_time_wait(uintptr_t token);             /* whether the socket was closed by its owner */
int lw_rust_room(uintptr_t listener);               /* whether the listener accepts another SYN */
struct tcp_pcb *lw_rust_oldest(uintptr_t listener); /* its oldest half-open connection, or NULL */
int lw_rust_full(uintptr_t token);                  /* whether the accept queue is full */
uintptr_t lw_rust_half_open(uintptr_t listener, struct tcp_pcb *pcb);
void lw_rust_accepted(uintptr_t token);
void lw_rust_connected(uintptr_t token);
void lw_rust_received(uintptr_t token, struct pbuf *data); /* NULL: FIN */
void lw_rust_sent(uintptr_t token, u16_t size);
void lw_rust_failed(uintptr_t token, int error);
int lw_rust_overdue(uintptr_t token);
void lw_rust_datagram(uintptr_t token, struct pbuf *data, const struct lw_address *from, u16_t port);
int lw_rust_transmit(const struct lw_part *parts, size_t count, const struct lw_offload *offload);
void lw_rust_received_free(void *received);
u64_t lw_rust_micros(void);

#endif
