// SPDX-License-Identifier: MIT OR Apache-2.0
/* Shared by the files that manage the connections of TCP: index.c, input.c, timers.c, acks.c, recovery.c. */
#ifndef LW_INDEX_H
#define LW_INDEX_H

#include "glue.h"

#include "lwip/priv/tcp_priv.h"

/* What a control block has beside lwIP's own data: LWIP_TCP_PCB_NUM_EXT_ARGS of them. */
enum { SELF, BACK, CHAIN, WIRE_MSS, LIST, RECOVER };

#define PCB(pointer) ((struct tcp_pcb *)(pointer))
#define BACK_OF(pcb) ((pcb)->ext_args[BACK].data)
#define CHAIN_OF(pcb) ((pcb)->ext_args[CHAIN].data)
#define LIST_OF(pcb) ((pcb)->ext_args[LIST].data)

/* index.c */
extern struct tcp_pcb *lw_current; /* the connection of the current segment; NULL once it is freed */
extern struct tcp_pcb *lw_idle;    /* from here to the end, no active connection needs a timer */
void lw_to_front(struct tcp_pcb *pcb);
struct tcp_pcb *lw_find_listener(const ip_addr_t *local, u16_t port);

/* acks.c */
void lw_owe_ack(struct tcp_pcb *pcb);
void lw_forget_owed(const struct tcp_pcb *pcb);
void lw_forget_all_owed(void);

/* recovery.c */
/* The state before an ACK was processed. */
struct lw_before_ack {
    int fast_recovery;
    int sack; /* the ACK has a SACK option */
    tcpwnd_size_t window;
    u32_t lastack;
    s16_t rtime; /* ticks since the retransmission timer was started */
};

int lw_has_sack_option(const struct tcp_hdr *header, u16_t size);
void lw_recover(struct tcp_pcb *pcb, const struct lw_before_ack *before);
void lw_limited_transmit(struct tcp_pcb *pcb, u8_t dupacks);
void lw_time_handshake(struct tcp_pcb *pcb);
void lw_order_before_timer(struct tcp_pcb *pcb);

#endif
