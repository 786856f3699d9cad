// SPDX-License-Identifier: MIT OR Apache-2.0
/* Frames between lwIP and the device. */
#include "glue.h"

#include "lwip/etharp.h"
#include "lwip/ip4_frag.h"
#include "lwip/ip6_frag.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/prot/ethernet.h"
#include "lwip/stats.h"
#include <string.h>

#define PARTS 64

_Static_assert(sizeof(struct lw_received) <= 64, "src/received.rs reserves 64 bytes for it");

/* ---- Transmission ---- */

static u16_t fold(u32_t sum) {
    sum = (sum & 0xffff) + (sum >> 16);
    return (u16_t)((sum & 0xffff) + (sum >> 16));
}

static u32_t sum_words(const u8_t *bytes, size_t size) {
    u32_t sum = 0;
    for (; size > 1; size -= 2, bytes += 2) {
        sum += (u32_t)bytes[0] << 8 | bytes[1];
    }
    return sum;
}

/* Prepare a frame for checksum and segmentation offload: store the sum of the pseudo-header in the checksum
 * field. */
static void offload(u8_t *frame, u16_t first, u32_t total, struct lw_offload *to) {
    u16_t type = (u16_t)(frame[12] << 8 | frame[13]);
    u32_t packet = total - SIZEOF_ETH_HDR, sum, payload;
    u16_t start, protocol;
    const u8_t *ip = frame + SIZEOF_ETH_HDR;
    if (type == ETHTYPE_IP && first >= SIZEOF_ETH_HDR + 20) {
        if ((ip[6] & 0x3f) != 0 || ip[7] != 0) {
            return; /* a fragment */
        }
        start = (u16_t)(SIZEOF_ETH_HDR + (ip[0] & 15) * 4);
        protocol = ip[9];
        sum = sum_words(ip + 12, 8);
    } else if (type == ETHTYPE_IPV6 && first >= SIZEOF_ETH_HDR + 40) {
        start = SIZEOF_ETH_HDR + 40;
        protocol = ip[6];
        sum = sum_words(ip + 8, 32);
    } else {
        return;
    }
    to->offset = protocol == IP_PROTO_TCP ? 16 : 6;
    if ((protocol != IP_PROTO_TCP && protocol != IP_PROTO_UDP) || first < start + to->offset + 2) {
        return;
    }
    if (protocol == IP_PROTO_UDP && (frame[start + 6] | frame[start + 7]) != 0) {
        return; /* lwIP has set the checksum: a fragmented datagram */
    }
    payload = total - start;
    sum = fold(sum + protocol + (payload & 0xffff) + (payload >> 16));
    frame[start + to->offset] = (u8_t)(sum >> 8);
    frame[start + to->offset + 1] = (u8_t)sum;
    to->start = start;
    if (protocol == IP_PROTO_TCP && packet > lw_settings.mtu) {
        ip_addr_t local, remote;
        struct tcp_pcb *pcb;
        memset(&local, 0, sizeof local);
        memset(&remote, 0, sizeof remote);
        to->ipv6 = type == ETHTYPE_IPV6;
        if (to->ipv6) {
            IP_SET_TYPE_VAL(local, IPADDR_TYPE_V6);
            IP_SET_TYPE_VAL(remote, IPADDR_TYPE_V6);
            memcpy(ip_2_ip6(&local)->addr, ip + 8, 16);
            memcpy(ip_2_ip6(&remote)->addr, ip + 24, 16);
        } else {
            memcpy(&ip_2_ip4(&local)->addr, ip + 12, 4);
            memcpy(&ip_2_ip4(&remote)->addr, ip + 16, 4);
        }
        pcb = lw_find(&local, (u16_t)(frame[start] << 8 | frame[start + 1]), &remote,
                      (u16_t)(frame[start + 2] << 8 | frame[start + 3]));
        to->headers = (u16_t)(start + (frame[start + 12] >> 4) * 4);
        to->size = (u16_t)(lw_settings.mtu + SIZEOF_ETH_HDR - to->headers);
        if (pcb != NULL) {
            to->size = (u16_t)LWIP_MIN(to->size, lw_wire_mss(pcb));
        }
    }
}

/* Whether a frame is an ICMP error. */
static int is_error(const u8_t *frame, u16_t size) {
    u16_t type = (u16_t)(frame[12] << 8 | frame[13]);
    const u8_t *ip = frame + SIZEOF_ETH_HDR;
    if (type == ETHTYPE_IP && size > SIZEOF_ETH_HDR + 20) {
        return ip[9] == IP_PROTO_ICMP && (ip[20] == 3 || ip[20] == 11 || ip[20] == 12);
    }
    return type == ETHTYPE_IPV6 && size > SIZEOF_ETH_HDR + 40 && ip[6] == IP6_NEXTH_ICMP6 && ip[40] < 128;
}

/* Whether an ICMP error may be sent: at most 10 at once, and 100 a second (RFC 4443, 2.4: a token bucket). */
static int takes_error(void) {
    static u64_t paid; /* since when no error would have been sent at the permitted rate, in microseconds */
    const u64_t each = 10000, burst = 10;
    u64_t now = lw_rust_micros(), next;
    if (paid > now + burst * each) {
        paid = now; /* the clock of another instance */
    }
    next = LWIP_MAX(paid, now) + each;
    if (next > now + burst * each) {
        return 0;
    }
    paid = next;
    return 1;
}

err_t lw_transmit(struct netif *netif, struct pbuf *p) {
    struct lw_part parts[PARTS];
    struct lw_offload how;
    struct pbuf *whole = NULL, *one;
    size_t count = 0;
    u32_t total = 0;
    int queued;
    LWIP_UNUSED_ARG(netif);
    if (LW_FIX(LW_ICMP_ERROR_RATE) && p->len >= SIZEOF_ETH_HDR && is_error(p->payload, p->len) &&
        !takes_error()) {
        return ERR_OK;
    }
    if (pbuf_clen(p) > PARTS) {
        whole = pbuf_clone(PBUF_RAW, PBUF_RAM, p);
        if (whole == NULL) {
            return ERR_MEM;
        }
        p = whole;
        lw_counts.out_of_parts++;
    }
    for (one = p; one != NULL; one = one->next) {
        if (one->len > 0) {
            parts[count].bytes = one->payload;
            parts[count++].size = one->len;
            total += one->len;
        }
    }
    memset(&how, 0, sizeof how);
    if (lw_settings.checksum_offload && p->len >= SIZEOF_ETH_HDR) {
        offload(p->payload, p->len, total, &how);
    }
    queued = lw_rust_transmit(parts, count, &how);
    if (whole != NULL) {
        pbuf_free(whole);
    }
    return queued ? ERR_OK : ERR_MEM;
}

/* Called by ip4.c and ip6.c for packets above the MTU, instead of ip4_frag() and ip6_frag(): the device
 * splits TCP segments. */
err_t lw_ip4_frag(struct pbuf *p, struct netif *netif, const ip4_addr_t *to) {
    const struct ip_hdr *header = p->payload;
    if (lw_segments() != 0 && IPH_PROTO(header) == IP_PROTO_TCP) {
        return netif->output(netif, p, to);
    }
    return ip4_frag(p, netif, to);
}

err_t lw_ip6_frag(struct pbuf *p, struct netif *netif, const ip6_addr_t *to) {
    const struct ip6_hdr *header = p->payload;
    if (lw_segments() != 0 && IP6H_NEXTH(header) == IP6_NEXTH_TCP) {
        return netif->output_ip6(netif, p, to);
    }
    return ip6_frag(p, netif, to);
}

/* ---- Reception ---- */

static void received_free(struct pbuf *p) {
    lw_rust_received_free(p);
}

/*
 * Pass a received frame to lwIP. `received` is a struct lw_received if lwIP may use the device's buffer until
 * it calls lw_rust_received_free(), or NULL if the bytes have to be copied. Returns 0 if memory is exhausted.
 *
 * The Ethernet header is removed here, because lwIP's 16-bit lengths can't hold it with an IP packet of 65535
 * bytes.
 */
int lw_input(void *received, u8_t *bytes, size_t size, int verified) {
    static const u8_t broadcast[6] = {255, 255, 255, 255, 255, 255};
    u16_t type = (u16_t)(bytes[12] << 8 | bytes[13]);
    size_t length = size - SIZEOF_ETH_HDR;
    /* lwIP reads a header before it checks the length. */
    size_t least = type == ETHTYPE_IPV6 ? IP6_HLEN : type == ETHTYPE_ARP ? SIZEOF_ETHARP_HDR : IP_HLEN;
    int truncated = length > 0xffff || length < least ||
                    (type == ETHTYPE_IPV6 && !lw_extensions_fit(bytes + SIZEOF_ETH_HDR, length));
    struct pbuf *p;
    int group = bytes[0] & 1, is_broadcast = memcmp(bytes, broadcast, 6) == 0;
    LINK_STATS_INC(link.recv);
    if (truncated || (type != ETHTYPE_IP && type != ETHTYPE_IPV6 && type != ETHTYPE_ARP) ||
        (!group && memcmp(bytes, lw_settings.hardware_address, 6) != 0)) {
        LINK_STATS_INC(link.drop);
        lw_counts.malformed += (u64_t)truncated;
        if (received != NULL) {
            lw_rust_received_free(received);
        }
        return 1;
    }
    if (received != NULL) {
        struct lw_received *node = received;
        node->custom.custom_free_function = received_free;
        p = pbuf_alloced_custom(PBUF_RAW, (u16_t)length, PBUF_REF, &node->custom, bytes + SIZEOF_ETH_HDR,
                                (u16_t)length);
    } else {
        p = pbuf_alloc(PBUF_RAW, (u16_t)length, PBUF_RAM);
        if (p == NULL) {
            return 0;
        }
        memcpy(p->payload, bytes + SIZEOF_ETH_HDR, length);
    }
    if (group) {
        p->flags |= is_broadcast ? PBUF_FLAG_LLBCAST : PBUF_FLAG_LLMCAST;
    }
    p->if_idx = netif_get_index(&lw_netif);
    NETIF_SET_CHECKSUM_CTRL(&lw_netif, lw_checksum_flags(verified));
    if (type == ETHTYPE_IP) {
        ip4_input(p, &lw_netif);
    } else if (type == ETHTYPE_IPV6) {
        ip6_input(p, &lw_netif);
    } else {
        etharp_input(p, &lw_netif);
    }
    NETIF_SET_CHECKSUM_CTRL(&lw_netif, lw_checksum_flags(0));
    return 1;
}
