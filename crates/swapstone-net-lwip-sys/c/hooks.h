/* Included by lwIP's files after its own headers (LWIP_HOOK_FILENAME): where the index takes over the lists
 * of TCP, and other hooks. */
#ifndef LW_HOOKS_H
#define LW_HOOKS_H

#include "lwip/err.h"
#include "lwip/ip_addr.h"

struct netif;
struct tcp_pcb;

void lw_listed(struct tcp_pcb **list, struct tcp_pcb *pcb);
void lw_unlisted(struct tcp_pcb **list, struct tcp_pcb *pcb);

/* The same lists as lwIP's own macros make, with links back and an index beside them. */
#ifdef LWIP_HDR_TCP_PRIV_H
#undef TCP_REG
#undef TCP_RMV
#define TCP_REG(pcbs, npcb) lw_listed((pcbs), (npcb))
#define TCP_RMV(pcbs, npcb) lw_unlisted((pcbs), (npcb))
#endif

/* Memory that is sent without a copy is the caller's only until it is acknowledged: what waits for an address
   to be resolved must be copied, which lwIP does for PBUF_REF only. */
#ifdef LW_TCP_OUT
#define PBUF_ROM PBUF_REF
#endif

uint32_t lw_first_sequence_number(const ip_addr_t *local, uint16_t local_port, const ip_addr_t *remote,
                                  uint16_t remote_port);
#define LWIP_HOOK_TCP_ISN(local, local_port, remote, remote_port)                                            \
    lw_first_sequence_number((local), (local_port), (remote), (remote_port))

/* lwIP asks for options of ours where it sends a segment: the place to count those that are sent again. */
struct tcp_hdr;
void lw_segment_out(const struct tcp_pcb *pcb, const struct tcp_hdr *header, u16_t size);
#define LWIP_HOOK_TCP_OUT_ADD_TCPOPTS(p, header, pcb, options)                                               \
    (lw_segment_out((pcb), (header), (p)->tot_len), (options))

/* Looked at before lwIP believes it: checks.c says why. tcplen is a variable of tcp_in.c, what the segment
 * takes of the numbers. */
struct pbuf;
void lw_segment_size_out(struct tcp_hdr *header, u16_t length, u16_t first, u8_t *rest);
u16_t lw_into_window(const struct tcp_pcb *pcb, struct tcp_hdr *header, struct pbuf *p, u16_t length);
#define LWIP_HOOK_TCP_INPACKET_PCB(pcb, header, length, first, rest, p)                                      \
    (lw_segment_size_out((header), (length), (first), (rest)),                                               \
     tcplen = lw_into_window((pcb), (header), (p), tcplen), ERR_OK)

const ip6_addr_t *lw_gateway_v6(void);
#define LWIP_HOOK_ND6_GET_GW(netif, destination) lw_gateway_v6()

#endif
