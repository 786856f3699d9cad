// SPDX-License-Identifier: MIT OR Apache-2.0
/* Validation of received packets before lwIP processes them. Malformed ones are dropped and counted. */
#include "glue.h"

#include "lwip/icmp6.h"
#include "lwip/nd6.h"
#include "lwip/priv/nd6_priv.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/prot/ip6.h"
#include "lwip/prot/nd6.h"
#include "lwip/udp.h"
#include <string.h>

/* ---- IPv6 extension headers ---- */

/* Whether the options of an extension header end exactly at its end. */
static int options_fit(const u8_t *header, size_t size) {
    size_t at = 2;
    while (at < size) {
        if (header[at] == 0) { /* Pad1 has no length */
            at++;
        } else if (at + 1 < size) {
            at += 2u + header[at + 1];
        } else {
            return 0;
        }
    }
    return at == size;
}

/*
 * Whether all extension headers are complete. lwIP reads them and their options before it checks lengths. In
 * a fragmented packet the first fragment must contain all of them (RFC 7112).
 */
int lw_extensions_fit(const u8_t *packet, size_t length) {
    size_t at = IP6_HLEN, end = LWIP_MIN(length, (size_t)IP6_HLEN + (packet[4] << 8 | packet[5]));
    u8_t next = packet[6];
    while (next == IP6_NEXTH_HOPBYHOP || next == IP6_NEXTH_DESTOPTS || next == IP6_NEXTH_ROUTING ||
           next == IP6_NEXTH_FRAGMENT) {
        size_t size = 8;
        if (end - at < size) {
            return 0;
        }
        if (next == IP6_NEXTH_FRAGMENT) {
            if (packet[at + 2] != 0 || (packet[at + 3] & 0xf8) != 0) {
                return 1; /* not the first fragment */
            }
        } else {
            size += 8u * packet[at + 1];
            if (end - at < size || (next != IP6_NEXTH_ROUTING && !options_fit(packet + at, size))) {
                return 0;
            }
        }
        next = packet[at];
        at += size;
    }
    return 1;
}

/* ---- UDP ---- */

/* Called by ip4.c and ip6.c instead of udp_input(), which accepts any length, and no checksum over IPv6. */
void lw_udp_input(struct pbuf *p, struct netif *inp) {
    const struct udp_hdr *header = p->payload;
    u16_t length = p->len < UDP_HLEN ? 0 : lwip_ntohs(header->len);
    if (length < UDP_HLEN || length > p->tot_len || (header->chksum == 0 && ip_current_is_v6())) {
        lw_counts.malformed++;
        pbuf_free(p);
        return;
    }
    pbuf_realloc(p, length);
    udp_input(p, inp);
}

/* ---- TCP ---- */

/* Options that lwIP must not apply, in segments without SYN, are replaced by NOPs:
 *
 * - the MSS option, which is valid in a SYN only (RFC 9293, 3.7.1): lwIP applies it in any segment, and then
 *   fails on segments that it has queued;
 * - a timestamp older than the last one: lwIP echoes that of a copy of the last segment (RFC 7323, 4.3).
 *
 * The options are in two parts: `first` bytes behind the header, and the rest at `rest`. lwIP handles malformed
 * ones. */
void lw_remove_options(const struct tcp_pcb *pcb, struct tcp_hdr *header, u16_t length, u16_t first,
                       u8_t *rest) {
    u8_t *options = (u8_t *)header + TCP_HLEN;
    u16_t at = 0;
    int older = 0;
    if (TCPH_FLAGS(header) & TCP_SYN) {
        return;
    }
#define OPTION(number) (*((number) < first ? &options[number] : &rest[(number)-first]))
    while (at < length && OPTION(at) != LWIP_TCP_OPT_EOL) {
        u16_t size = 1, number;
        if (OPTION(at) != LWIP_TCP_OPT_NOP) {
            size = at + 1 < length ? OPTION(at + 1) : 0;
            if (size < 2 || at + size > length) {
                break;
            }
        }
        if (OPTION(at) == LWIP_TCP_OPT_TS && size == LWIP_TCP_OPT_LEN_TS) {
            u32_t time = (u32_t)OPTION(at + 2) << 24 | (u32_t)OPTION(at + 3) << 16 |
                         (u32_t)OPTION(at + 4) << 8 | OPTION(at + 5);
            older = pcb->state != LISTEN && TCP_SEQ_LT(time, pcb->ts_recent); /* a listener is shorter */
        }
        if (OPTION(at) == LWIP_TCP_OPT_MSS || (OPTION(at) == LWIP_TCP_OPT_TS && older)) {
            for (number = at; number < at + size; number++) {
                OPTION(number) = LWIP_TCP_OPT_NOP;
            }
        }
        at += size;
    }
#undef OPTION
}

/*
 * Trim a segment to the receive window and to the sequence number of a FIN that was already received. Returns
 * the remaining length in sequence numbers. lwIP trims segments in order and further segments out of order,
 * but not the first one out of order, and fails when the hole is filled.
 */
u16_t lw_trim_to_window(const struct tcp_pcb *pcb, struct tcp_hdr *header, struct pbuf *p, u16_t length) {
    const struct tcp_seg *early;
    u32_t edge, room;
    if (pcb->state < SYN_RCVD || pcb->state > FIN_WAIT_2 || (TCPH_FLAGS(header) & (TCP_SYN | TCP_RST))) {
        return length;
    }
    edge = pcb->rcv_nxt + pcb->rcv_wnd;
    for (early = LW_EARLY(pcb); early != NULL; early = early->next) {
        u32_t end = early->tcphdr->seqno + early->len;
        if ((TCPH_FLAGS(early->tcphdr) & TCP_FIN) && TCP_SEQ_GT(header->seqno + p->tot_len, end)) {
            edge = end;
        }
    }
    room = edge - header->seqno;
    if (!TCP_SEQ_GT(edge, header->seqno) || length <= room) {
        return length; /* it fits, or lwIP rejects it */
    }
    TCPH_UNSET_FLAG(header, TCP_FIN);
    if (p->tot_len > room) {
        pbuf_realloc(p, (u16_t)room);
    }
    return p->tot_len;
}

/* ---- Neighbor discovery and path MTU ---- */

static int is_from_router(void) {
    const ip6_addr_t *gateway = lw_gateway_v6();
    int at;
    for (at = 0; at < LWIP_ND6_NUM_ROUTERS; at++) {
        const struct nd6_neighbor_cache_entry *router = default_router_list[at].neighbor_entry;
        if (router != NULL && ip6_addr_eq(&router->next_hop_address, ip6_current_src_addr())) {
            return 1;
        }
    }
    return gateway != NULL && ip6_addr_zoneless_eq(gateway, ip6_current_src_addr());
}

/*
 * Whether all options from `first` on are complete and have a length above 0. lwIP reads a link-layer address
 * from the first option, whatever its type. So the option of the type `wanted` is moved to the front; without
 * one, all options are removed.
 */
static int sort_options(struct pbuf *p, u16_t first, u8_t wanted) {
    u8_t *bytes = p->payload;
    size_t at, found = 0;
    for (at = first; at < p->len; at += 8u * bytes[at + 1]) {
        if (p->len - at < 8 || bytes[at + 1] == 0 || p->len - at < 8u * bytes[at + 1]) {
            return 0;
        }
        if (bytes[at] == wanted && bytes[at + 1] == 1 && found == 0) {
            found = at;
        }
    }
    if (wanted != 0 && found == 0) {
        pbuf_realloc(p, first);
    } else if (found > first) {
        u8_t option[8];
        memcpy(option, bytes + found, sizeof option);
        memmove(bytes + first + sizeof option, bytes + first, found - first);
        memcpy(bytes + first, option, sizeof option);
    }
    return 1;
}

static int discovery_is_valid(struct pbuf *p, const struct netif *inp) {
    const u8_t *bytes = p->payload;
    switch (bytes[0]) {
    case ICMP6_TYPE_NS:
        if (p->len < sizeof(struct ns_header) ||
            !sort_options(p, sizeof(struct ns_header), ND6_OPTION_TYPE_SOURCE_LLADDR)) {
            return 0;
        }
        /* An unspecified source must not have a link-layer address option (RFC 4861, 7.1.1). */
        return p->len == sizeof(struct ns_header) || !ip6_addr_isany(ip6_current_src_addr());
    case ICMP6_TYPE_NA:
        return p->len >= sizeof(struct na_header) &&
               sort_options(p, sizeof(struct na_header), ND6_OPTION_TYPE_TARGET_LLADDR);
    case ICMP6_TYPE_RA:
        return p->len >= sizeof(struct ra_header) && sort_options(p, sizeof(struct ra_header), 0);
    case ICMP6_TYPE_RD: /* from the current first-hop router only (RFC 4861, 8.1) */
        return p->len >= sizeof(struct redirect_header) && is_from_router() &&
               sort_options(p, sizeof(struct redirect_header), ND6_OPTION_TYPE_TARGET_LLADDR);
    default: { /* packet too big: ignored below the IPv6 minimum MTU and above the current MTU (RFC 8201, 4)
                */
        u32_t mtu = (u32_t)bytes[4] << 24 | (u32_t)bytes[5] << 16 | (u32_t)bytes[6] << 8 | bytes[7];
        return mtu >= IP6_MIN_MTU_LENGTH && mtu <= inp->mtu;
    }
    }
}

/* Called by icmp6.c instead of nd6_input(), which accepts options of length 0 and any MTU. Neighbor discovery
 * must not be fragmented (RFC 6980). A packet-too-big message may consist of several pbufs; lwIP reads the
 * first one only. */
void lw_nd6_input(struct pbuf *p, struct netif *inp) {
    if ((p->next != NULL && *(const u8_t *)p->payload != ICMP6_TYPE_PTB) || !discovery_is_valid(p, inp)) {
        lw_counts.malformed++;
        pbuf_free(p);
        return;
    }
    nd6_input(p, inp);
}
