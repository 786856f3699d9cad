/* The device's side of lwIP, UDP, addresses and timers, for Rust. */
#include "glue.h"

#include "lwip/etharp.h"
#include "lwip/ethip6.h"
#include "lwip/inet_chksum.h"
#include "lwip/init.h"
#include "lwip/ip4_frag.h"
#include "lwip/ip6_frag.h"
#include "lwip/nd6.h"
#include "lwip/priv/nd6_priv.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/prot/ethernet.h"
#include "lwip/stats.h"
#include "lwip/udp.h"
#include <string.h>

#define PARTS 64

u32_t lw_receive_buffer, lw_send_buffer;
u16_t lw_send_queue;
u8_t lw_receive_scale;
struct netif lw_netif;

static struct lw_settings settings;
static ip6_addr_t gateway_v6;

_Static_assert(sizeof(struct lw_received) <= 64, "src/received.rs keeps 64 bytes for it");

/* ---- Addresses ---- */

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

/* The address number `at`; false beyond the last. Kind 0: not there, or not confirmed yet. */
int lw_address_at(int at, struct lw_address *address, u8_t *prefix) {
    memset(address, 0, sizeof *address);
    if (at == 0) {
        if (!ip4_addr_isany_val(*netif_ip4_addr(&lw_netif))) {
            u32_t mask = lwip_ntohl(ip4_addr_get_u32(netif_ip4_netmask(&lw_netif)));
            lw_from_ip(address, netif_ip_addr4(&lw_netif));
            for (*prefix = 0; mask != 0; mask <<= 1) {
                (*prefix)++;
            }
        }
        return 1;
    }
    if (at > LWIP_IPV6_NUM_ADDRESSES) {
        return 0;
    }
    if (ip6_addr_isvalid(netif_ip6_addr_state(&lw_netif, at - 1))) {
        lw_from_ip(address, netif_ip_addr6(&lw_netif, at - 1));
        *prefix = 64;
    }
    return 1;
}

/* Give it one more IPv6 address, valid at once. */
int lw_add_v6(const struct lw_address *address) {
    ip_addr_t one;
    s8_t at = -1;
    lw_to_ip(&one, address);
    if (netif_add_ip6_address(&lw_netif, ip_2_ip6(&one), &at) != ERR_OK || at < 0) {
        return 0;
    }
    netif_ip6_addr_set_state(&lw_netif, at, IP6_ADDR_PREFERRED);
    return 1;
}

static int router_known(void) {
    int at;
    for (at = 0; at < LWIP_ND6_NUM_ROUTERS; at++) {
        if (default_router_list[at].neighbor_entry != NULL) {
            return 1;
        }
    }
    return 0;
}

const ip6_addr_t *lw_gateway_v6(void) {
    return settings.gateway_v6.kind == 6 && !router_known() ? &gateway_v6 : NULL;
}

/* The address to send from to `remote`; false if there is no way there. */
int lw_source_for(const struct lw_address *remote, struct lw_address *local) {
    ip_addr_t to;
    const ip_addr_t *from;
    lw_to_ip(&to, remote);
    from = ip_netif_get_local_ip(&lw_netif, &to);
    if (from == NULL || ip_addr_isany(from) || ip_addr_eq(from, &to)) {
        return 0;
    }
    lw_from_ip(local, from);
    if (IP_IS_V4(&to)) {
        const ip4_addr_t *v4 = ip_2_ip4(&to);
        return ip4_addr_net_eq(v4, netif_ip4_addr(&lw_netif), netif_ip4_netmask(&lw_netif)) ||
               ip4_addr_ismulticast(v4) || ip4_addr_isbroadcast(v4, &lw_netif) ||
               !ip4_addr_isany_val(*netif_ip4_gw(&lw_netif));
    } else {
        const ip6_addr_t *v6 = ip_2_ip6(&to);
        int at;
        if (ip6_addr_islinklocal(v6) || ip6_addr_ismulticast(v6) || router_known() ||
            settings.gateway_v6.kind == 6) {
            return 1;
        }
        for (at = 0; at < LWIP_IPV6_NUM_ADDRESSES; at++) {
            if (ip6_addr_isvalid(netif_ip6_addr_state(&lw_netif, at)) &&
                ip6_addr_net_eq(v6, netif_ip6_addr(&lw_netif, at))) {
                return 1;
            }
        }
        for (at = 0; at < LWIP_ND6_NUM_PREFIXES; at++) {
            if (prefix_list[at].netif != NULL && prefix_list[at].invalidation_timer > 0 &&
                ip6_addr_net_eq(v6, &prefix_list[at].prefix)) {
                return 1;
            }
        }
        return 0;
    }
}

/* ---- Sending ---- */

u16_t lw_segments(void) {
    return settings.finishes_checksums ? settings.segments : 0;
}

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

/* Leave the checksum, and cutting, to the device: put the pseudo-header's sum where the checksum goes. */
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
        return; /* summed already: a datagram that was cut */
    }
    payload = total - start;
    sum = fold(sum + protocol + (payload & 0xffff) + (payload >> 16));
    frame[start + to->offset] = (u8_t)(sum >> 8);
    frame[start + to->offset + 1] = (u8_t)sum;
    to->start = start;
    if (protocol == IP_PROTO_TCP && packet > settings.mtu) {
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
        to->size = (u16_t)(settings.mtu + SIZEOF_ETH_HDR - to->headers);
        if (pcb != NULL) {
            to->size = (u16_t)LWIP_MIN(to->size, lw_wire_mss(pcb));
        }
    }
}

static err_t transmit(struct netif *netif, struct pbuf *p) {
    struct lw_part parts[PARTS];
    struct lw_offload how;
    struct pbuf *whole = NULL, *one;
    size_t count = 0;
    u32_t total = 0;
    int taken;
    LWIP_UNUSED_ARG(netif);
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
    if (settings.finishes_checksums && p->len >= SIZEOF_ETH_HDR) {
        offload(p->payload, p->len, total, &how);
    }
    taken = lw_rust_transmit(parts, count, &how);
    if (whole != NULL) {
        pbuf_free(whole);
    }
    return taken ? ERR_OK : ERR_MEM;
}

/* What ip4.c and ip6.c call for packets above the MTU: TCP's are cut by the device. */
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

/* ---- Receiving ---- */

static void received_free(struct pbuf *p) {
    lw_rust_received_free(p);
}

static u16_t check_flags(int verified) {
    u16_t flags = NETIF_CHECKSUM_ENABLE_ALL;
    if (settings.finishes_checksums) {
        flags &= (u16_t) ~(NETIF_CHECKSUM_GEN_TCP | NETIF_CHECKSUM_GEN_UDP);
    }
    if (verified) {
        flags &= (u16_t) ~(NETIF_CHECKSUM_CHECK_TCP | NETIF_CHECKSUM_CHECK_UDP);
    }
    return flags;
}

/*
 * Give lwIP a frame. `received` is a struct lw_received if the memory stays the device's until
 * lw_rust_received_free() is called with it, or null if the bytes are to be copied. Returns false if there
 * was no memory.
 *
 * The Ethernet header is taken off here, not by lwIP: a packet of 65535 bytes would not fit its 16-bit
 * lengths with it.
 */
int lw_input(void *received, u8_t *bytes, size_t size, int verified) {
    static const u8_t everybody[6] = {255, 255, 255, 255, 255, 255};
    u16_t type = (u16_t)(bytes[12] << 8 | bytes[13]);
    size_t length = size - SIZEOF_ETH_HDR;
    /* lwIP looks at all of a header before it asks whether it is there. */
    size_t least = type == ETHTYPE_IPV6 ? IP6_HLEN : type == ETHTYPE_ARP ? SIZEOF_ETHARP_HDR : IP_HLEN;
    int cut = length > 0xffff || length < least ||
              (type == ETHTYPE_IPV6 && !lw_extensions_fit(bytes + SIZEOF_ETH_HDR, length));
    struct pbuf *p;
    int group = bytes[0] & 1, for_all = memcmp(bytes, everybody, 6) == 0;
    LINK_STATS_INC(link.recv);
    if (cut || (type != ETHTYPE_IP && type != ETHTYPE_IPV6 && type != ETHTYPE_ARP) ||
        (!group && memcmp(bytes, settings.hardware_address, 6) != 0)) {
        LINK_STATS_INC(link.drop);
        lw_counts.malformed += (u64_t)cut;
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
        p->flags |= for_all ? PBUF_FLAG_LLBCAST : PBUF_FLAG_LLMCAST;
    }
    p->if_idx = netif_get_index(&lw_netif);
    NETIF_SET_CHECKSUM_CTRL(&lw_netif, check_flags(verified));
    if (type == ETHTYPE_IP) {
        ip4_input(p, &lw_netif);
    } else if (type == ETHTYPE_IPV6) {
        ip6_input(p, &lw_netif);
    } else {
        etharp_input(p, &lw_netif);
    }
    NETIF_SET_CHECKSUM_CTRL(&lw_netif, check_flags(0));
    return 1;
}

const u8_t *lw_pbuf_bytes(const struct pbuf *p, size_t *size) {
    *size = p->len;
    return p->payload;
}

size_t lw_pbuf_total(const struct pbuf *p) {
    return p->tot_len;
}

/* Drop the first bytes, and pieces that are empty; the rest, or null. */
struct pbuf *lw_pbuf_advance(struct pbuf *p, size_t size) {
    if (size > 0) {
        p = pbuf_free_header(p, (u16_t)size);
    }
    while (p != NULL && p->len == 0) {
        struct pbuf *rest = p->next;
        p->next = NULL;
        pbuf_free(p);
        p = rest;
    }
    return p;
}

void lw_pbuf_free(struct pbuf *p) {
    pbuf_free(p);
}

void lw_pbuf_copy(const struct pbuf *p, void *to) {
    pbuf_copy_partial(p, to, p->tot_len, 0);
}

/* ---- UDP ---- */

static void on_datagram(void *argument, struct udp_pcb *pcb, struct pbuf *p, const ip_addr_t *from,
                        u16_t port) {
    struct lw_address address;
    LWIP_UNUSED_ARG(pcb);
    lw_from_ip(&address, from);
    lw_rust_datagram((uintptr_t)argument, p, &address, port);
}

struct udp_pcb *lw_udp_new(uintptr_t token) {
    struct udp_pcb *pcb = udp_new_ip_type(IPADDR_TYPE_ANY);
    if (pcb != NULL) {
        udp_recv(pcb, on_datagram, (void *)token);
    }
    return pcb;
}

int lw_udp_bind(struct udp_pcb *pcb, const struct lw_address *local, u16_t port) {
    ip_addr_t address;
    lw_to_ip(&address, local);
    return udp_bind(pcb, &address, port);
}

void lw_udp_connect(struct udp_pcb *pcb, const struct lw_address *remote, u16_t port) {
    ip_addr_t address;
    lw_to_ip(&address, remote);
    udp_connect(pcb, &address, port);
}

void lw_udp_disconnect(struct udp_pcb *pcb) {
    udp_disconnect(pcb);
}

void lw_udp_remove(struct udp_pcb *pcb) {
    udp_remove(pcb);
}

/* Send a datagram from where it lies: lwIP copies it only if an address must be resolved first. */
int lw_udp_send(struct udp_pcb *pcb, const struct lw_part *parts, size_t count,
                const struct lw_address *remote, u16_t port) {
    struct pbuf *first = NULL;
    size_t at, total = 0;
    ip_addr_t to;
    err_t error;
    for (at = 0; at < count; at++) {
        struct pbuf *part;
        if (parts[at].size == 0) {
            continue;
        }
        total += parts[at].size;
        part = pbuf_alloc_reference((void *)(uintptr_t)parts[at].bytes, (u16_t)parts[at].size, PBUF_REF);
        if (part == NULL) {
            if (first != NULL) {
                pbuf_free(first);
            }
            return ERR_MEM;
        }
        if (first == NULL) {
            first = part;
        } else {
            pbuf_cat(first, part);
        }
    }
    if (first == NULL) {
        first = pbuf_alloc(PBUF_TRANSPORT, 0, PBUF_RAM);
        if (first == NULL) {
            return ERR_MEM;
        }
    }
    lw_to_ip(&to, remote);
    if (total + 8 + (IP_IS_V6(&to) ? 40 : 20) > settings.mtu) { /* no device sums across fragments */
        NETIF_SET_CHECKSUM_CTRL(&lw_netif, NETIF_CHECKSUM_ENABLE_ALL);
    }
    error = udp_sendto(pcb, first, &to, port);
    NETIF_SET_CHECKSUM_CTRL(&lw_netif, check_flags(0));
    pbuf_free(first);
    return error;
}

/* ---- Time ---- */

u32_t sys_now(void) {
    return (u32_t)(lw_rust_micros() / 1000);
}

/* What is due each `lw_timer_period(which)` ms, for which = 0, 1. The first is needed only while there are
 * connections. */
void lw_timer(int which) {
    if (which == 0) {
        lw_tcp_tick();
    } else {
        etharp_tmr();
        ip_reass_tmr();
        nd6_tmr();
        ip6_reass_tmr();
    }
}

u32_t lw_timer_period(int which) {
    return which == 0 ? TCP_TMR_INTERVAL : 1000;
}

/* ---- Beginning and end ---- */

static err_t begin(struct netif *netif) {
    netif->name[0] = 'e';
    netif->name[1] = 'n';
    netif->output = etharp_output;
    netif->output_ip6 = ethip6_output;
    netif->linkoutput = transmit;
    netif->mtu = settings.mtu;
    netif->hwaddr_len = 6;
    memcpy(netif->hwaddr, settings.hardware_address, 6);
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
    return ERR_OK;
}

int lw_start(const struct lw_settings *from) {
    static int begun;
    ip_addr_t v4, mask, gateway;
    settings = *from;
    lw_hash_start(settings.key);
    lw_receive_buffer = settings.receive_buffer;
    lw_send_buffer = settings.send_buffer;
    lw_send_queue = (u16_t)LWIP_MIN(LWIP_MAX(64, settings.send_buffer / 128), 0xfff0);
    for (lw_receive_scale = 0; (lw_receive_buffer >> lw_receive_scale) > 0xffff; lw_receive_scale++) {
    }
    lw_index_start(settings.table, settings.buckets);
    if (!begun) {
        lwip_init();
        begun = 1;
    }
    memset(&lwip_stats, 0, sizeof lwip_stats);
    memset(&lw_netif, 0, sizeof lw_netif);
    lw_to_ip(&v4, &settings.v4);
    lw_to_ip(&mask, &settings.mask_v4);
    lw_to_ip(&gateway, &settings.gateway_v4);
    memcpy(gateway_v6.addr, settings.gateway_v6.words, 16);
    if (netif_add(&lw_netif, ip_2_ip4(&v4), ip_2_ip4(&mask), ip_2_ip4(&gateway), NULL, begin, ip_input) ==
        NULL) {
        return 0;
    }
    NETIF_SET_CHECKSUM_CTRL(&lw_netif, check_flags(0));
    return 1;
}

/* The rest of the beginning, which sends frames. */
void lw_up(void) {
    netif_set_default(&lw_netif);
    netif_create_ip6_linklocal_address(&lw_netif, 1);
    lw_netif.ip6_autoconfig_enabled = settings.slaac;
    netif_set_link_up(&lw_netif);
    netif_set_up(&lw_netif);
    if (!settings.slaac) {
        lw_netif.rs_count = 0;
    }
}

/* Free all that lwIP still holds, so that another one can begin. No frame is sent. */
void lw_stop(void) {
    int at;
    lw_tcp_stop();
    while (udp_pcbs != NULL) {
        udp_remove(udp_pcbs);
    }
    for (at = 0; at <= IP_REASS_MAXAGE + 1; at++) {
        ip_reass_tmr();
    }
    for (at = 0; at <= IPV6_REASS_MAXAGE + 1; at++) {
        ip6_reass_tmr();
    }
    netif_remove(&lw_netif);
}

/* ---- Counting ---- */

u64_t lw_malformed(void) {
    u64_t count = lw_counts.malformed + lwip_stats.ip.err + lwip_stats.ip6.err;
#define BAD(of) ((u64_t)lwip_stats.of.chkerr + lwip_stats.of.lenerr + lwip_stats.of.proterr)
    return count + BAD(ip) + BAD(ip6) + BAD(tcp) + BAD(udp) + BAD(icmp) + BAD(icmp6) + BAD(etharp) +
           BAD(ip_frag) + BAD(ip6_frag) + BAD(nd6);
}

u64_t lw_no_room(void) {
    return lw_counts.no_room + lwip_stats.tcp.memerr + lwip_stats.udp.memerr + lwip_stats.ip_frag.memerr +
           lwip_stats.ip6_frag.memerr + lwip_stats.etharp.memerr + lwip_stats.nd6.memerr;
}

u64_t lw_retransmitted(void) {
    return lw_counts.retransmitted;
}

/* lwIP counts a hit when it finds a connection or a listener at a list's front. */
u64_t lw_found_first(void) {
    return lwip_stats.tcp.cachehit;
}

const char *lw_version(void) {
    return LWIP_VERSION_STRING;
}
