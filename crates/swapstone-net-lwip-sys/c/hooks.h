// SPDX-License-Identifier: MIT OR Apache-2.0
/* Hooks, included by lwIP after its own headers (LWIP_HOOK_FILENAME): index.c manages the lists of TCP. */
#ifndef LW_HOOKS_H
#define LW_HOOKS_H

#include "lwip/err.h"
#include "lwip/ip_addr.h"

struct netif;
struct tcp_pcb;

void lw_listed(struct tcp_pcb **list, struct tcp_pcb *pcb);
void lw_unlisted(struct tcp_pcb **list, struct tcp_pcb *pcb);

/* The lists of lwIP's macros, with back links and an index. */
#ifdef LWIP_HDR_TCP_PRIV_H
#undef TCP_REG
#undef TCP_RMV
#define TCP_REG(pcbs, npcb) lw_listed((pcbs), (npcb))
#define TCP_RMV(pcbs, npcb) lw_unlisted((pcbs), (npcb))
#endif

/* Memory that is sent without a copy stays unchanged only until it is acknowledged. A packet that waits for
 * address resolution must be copied, which lwIP does for PBUF_REF only. */
#ifdef LW_TCP_OUT
#define PBUF_ROM PBUF_REF
/* The flag of a segment with timestamps, or 0 without that fix: lwIP then sends none. */
extern u8_t lw_timestamp_flag;
#undef TF_SEG_OPTS_TS
#define TF_SEG_OPTS_TS lw_timestamp_flag
#endif

uint32_t lw_first_sequence_number(const ip_addr_t *local, uint16_t local_port, const ip_addr_t *remote,
                                  uint16_t remote_port);
#define LWIP_HOOK_TCP_ISN(local, local_port, remote, remote_port)                                            \
    lw_first_sequence_number((local), (local_port), (remote), (remote_port))

/* Called for each sent segment, for the length of its options and to add some: it counts retransmissions, and
 * adds the timestamps that lwIP leaves out. */
struct tcp_hdr;
u8_t lw_options_length(const struct tcp_pcb *pcb, u8_t length);
u32_t *lw_segment_out(const struct tcp_pcb *pcb, const struct tcp_hdr *header, u16_t size, u32_t *options);
#define LWIP_HOOK_TCP_OUT_TCPOPT_LENGTH(pcb, length) lw_options_length((pcb), (length))
#define LWIP_HOOK_TCP_OUT_ADD_TCPOPTS(p, header, pcb, options)                                               \
    lw_segment_out((pcb), (header), (p)->tot_len, (options))

/* Validation of received segments; see checks.c. tcplen is a variable of tcp_in.c: the length of the segment
 * in sequence numbers. */
struct pbuf;
void lw_remove_options(const struct tcp_pcb *pcb, struct tcp_hdr *header, u16_t length, u16_t first,
                       u8_t *rest);
u16_t lw_trim_to_window(const struct tcp_pcb *pcb, struct tcp_hdr *header, struct pbuf *p, u16_t length);
#define LWIP_HOOK_TCP_INPACKET_PCB(pcb, header, length, first, rest, p)                                      \
    (lw_remove_options((pcb), (header), (length), (first), (rest)),                                          \
     tcplen = lw_trim_to_window((pcb), (header), (p), tcplen), ERR_OK)

const ip6_addr_t *lw_gateway_v6(void);
#define LWIP_HOOK_ND6_GET_GW(netif, destination) lw_gateway_v6()

#endif
