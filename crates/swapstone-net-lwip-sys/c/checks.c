/* Packets looked at before lwIP believes them. Those that lie are dropped and counted. */
#include "glue.h"

#include "lwip/icmp6.h"
#include "lwip/nd6.h"
#include "lwip/priv/nd6_priv.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/prot/ip6.h"
#include "lwip/prot/nd6.h"
#include "lwip/udp.h"
#include <string.h>

/* ---- IPv6's extension headers ---- */

/* Whether the options of an IPv6 header end where it ends. */
static int options_fit(const u8_t *header, size_t size) {
    size_t at = 2;
    while (at < size) {
        if (header[at] == 0) { /* Pad1, which has no length */
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
 * Whether all headers before the transport's are there. lwIP looks at an extension header and at options
 * before it asks. Of a packet in fragments they must be in the first one (RFC 7112), so that none is met when
 * the packet is put together.
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

/* What ip4.c and ip6.c call in place of udp_input(), which believes any length and any absent checksum. */
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

/* An MSS counts in a SYN alone (RFC 9293, 3.7.1), but lwIP takes one over from any segment, and then stumbles
 * over what it had queued. So it is taken out of the options of a segment without SYN. They lie in two
 * places: the first bytes behind the header, the rest where lwIP found them. What is malformed is left to
 * lwIP. */
void lw_segment_size_out(struct tcp_hdr *header, u16_t length, u16_t first, u8_t *rest) {
    u8_t *options = (u8_t *)header + TCP_HLEN;
    u16_t at = 0;
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
        if (OPTION(at) == LWIP_TCP_OPT_MSS) {
            for (number = at; number < at + size; number++) {
                OPTION(number) = LWIP_TCP_OPT_NOP;
            }
        }
        at += size;
    }
#undef OPTION
}

/*
 * Cut off what lies beyond the window, or beyond the end that was told already; returns what is left of
 * `length`, the segment's share of the numbers. lwIP does so where a segment is in order or comes after
 * others that are not, but not for the first of them, and stumbles over it when the hole is filled.
 */
u16_t lw_into_window(const struct tcp_pcb *pcb, struct tcp_hdr *header, struct pbuf *p, u16_t length) {
    const struct tcp_seg *early;
    u32_t edge, room;
    if (pcb->state < SYN_RCVD || pcb->state > FIN_WAIT_2 || (TCPH_FLAGS(header) & (TCP_SYN | TCP_RST))) {
        return length;
    }
    edge = pcb->rcv_nxt + pcb->rcv_wnd;
    for (early = pcb->ooseq; early != NULL; early = early->next) {
        u32_t end = early->tcphdr->seqno + early->len;
        if ((TCPH_FLAGS(early->tcphdr) & TCP_FIN) && TCP_SEQ_GT(header->seqno + p->tot_len, end)) {
            edge = end;
        }
    }
    room = edge - header->seqno;
    if (!TCP_SEQ_GT(edge, header->seqno) || length <= room) {
        return length; /* lwIP refuses it whole, or it fits */
    }
    TCPH_UNSET_FLAG(header, TCP_FIN);
    if (p->tot_len > room) {
        pbuf_realloc(p, (u16_t)room);
    }
    return p->tot_len;
}

/* ---- Neighbour discovery, and the path's MTU ---- */

static int from_router(void) {
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
 * Whether all options from `first` on have a length and are there. An Ethernet address in an option of the
 * kind `wanted` is put first, which is where lwIP takes one from, whatever kind is there; with none, all are
 * taken off.
 */
static int options_in_order(struct pbuf *p, u16_t first, u8_t wanted) {
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

static int discovery_fits(struct pbuf *p, const struct netif *inp) {
    const u8_t *bytes = p->payload;
    switch (bytes[0]) {
    case ICMP6_TYPE_NS:
        if (p->len < sizeof(struct ns_header) ||
            !options_in_order(p, sizeof(struct ns_header), ND6_OPTION_TYPE_SOURCE_LLADDR)) {
            return 0;
        }
        /* Who has no address yet says none of the link's either (RFC 4861, 7.1.1). */
        return p->len == sizeof(struct ns_header) || !ip6_addr_isany(ip6_current_src_addr());
    case ICMP6_TYPE_NA:
        return p->len >= sizeof(struct na_header) &&
               options_in_order(p, sizeof(struct na_header), ND6_OPTION_TYPE_TARGET_LLADDR);
    case ICMP6_TYPE_RA:
        return p->len >= sizeof(struct ra_header) && options_in_order(p, sizeof(struct ra_header), 0);
    case ICMP6_TYPE_RD: /* from the first router on the way alone (8.1) */
        return p->len >= sizeof(struct redirect_header) && from_router() &&
               options_in_order(p, sizeof(struct redirect_header), ND6_OPTION_TYPE_TARGET_LLADDR);
    default: { /* packet too big: never below IPv6's least MTU, and no reason to send larger ones (RFC 8201,
                  4) */
        u32_t mtu = (u32_t)bytes[4] << 24 | (u32_t)bytes[5] << 16 | (u32_t)bytes[6] << 8 | bytes[7];
        return mtu >= IP6_MIN_MTU_LENGTH && mtu <= inp->mtu;
    }
    }
}

/* What icmp6.c calls in place of nd6_input(), which believes an option of no length, and any MTU. Discovery
 * is not done in fragments (RFC 6980); an error may come in some, but what lwIP reads of it must be in the
 * first. */
void lw_nd6_input(struct pbuf *p, struct netif *inp) {
    if ((p->next != NULL && *(const u8_t *)p->payload != ICMP6_TYPE_PTB) || !discovery_fits(p, inp)) {
        lw_counts.malformed++;
        pbuf_free(p);
        return;
    }
    nd6_input(p, inp);
}
