// SPDX-License-Identifier: MIT OR Apache-2.0
/* Start and stop of lwIP, its addresses, timers and counters. */
#include "glue.h"

#include "lwip/etharp.h"
#include "lwip/ethip6.h"
#include "lwip/init.h"
#include "lwip/ip4_frag.h"
#include "lwip/ip6_frag.h"
#include "lwip/nd6.h"
#include "lwip/priv/nd6_priv.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/stats.h"
#include <string.h>

/* ---- Addresses ---- */

/* The address with the number `at`; returns 0 beyond the last one. Kind 0 means unset or tentative. */
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

/* Add an IPv6 address in the state PREFERRED; returns whether there was a free slot. */
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

/* Select the source address for `remote`; returns 0 if there is no route to it. */
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
        if (ip6_addr_islinklocal(v6) || ip6_addr_ismulticast(v6) || lw_router_known() ||
            lw_settings.gateway_v6.kind == 6) {
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

/* ---- Timers ---- */

u32_t sys_now(void) {
    return (u32_t)(lw_rust_micros() / 1000);
}

/* Run timer 0 or 1, which is due every lw_timer_period() ms. Timer 0 is needed only while connections exist.
 */
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

/* ---- Start and stop ---- */

static err_t init_netif(struct netif *netif) {
    netif->name[0] = 'e';
    netif->name[1] = 'n';
    netif->output = etharp_output;
    netif->output_ip6 = ethip6_output;
    netif->linkoutput = lw_transmit;
    netif->mtu = lw_settings.mtu;
    netif->hwaddr_len = 6;
    memcpy(netif->hwaddr, lw_settings.hardware_address, 6);
    netif->flags = NETIF_FLAG_BROADCAST | NETIF_FLAG_ETHARP | NETIF_FLAG_ETHERNET;
    return ERR_OK;
}

int lw_start(const struct lw_settings *from) {
    static int initialized;
    ip_addr_t v4, mask, gateway;
    lw_settings = *from;
    lw_hash_start(lw_settings.key);
    lw_receive_buffer = lw_settings.receive_buffer;
    lw_send_buffer = lw_settings.send_buffer;
    lw_send_queue = (u16_t)LWIP_MIN(LWIP_MAX(64, lw_settings.send_buffer / 128), 0xfff0);
    for (lw_receive_scale = 0; (lw_receive_buffer >> lw_receive_scale) > 0xffff; lw_receive_scale++) {
    }
    lw_timestamps_start();
    lw_index_start(lw_settings.table, lw_settings.buckets, lw_half_open);
    if (!initialized) {
        lwip_init();
        initialized = 1;
    }
    memset(&lwip_stats, 0, sizeof lwip_stats);
    memset(&lw_netif, 0, sizeof lw_netif);
    lw_to_ip(&v4, &lw_settings.v4);
    lw_to_ip(&mask, &lw_settings.mask_v4);
    lw_to_ip(&gateway, &lw_settings.gateway_v4);
    memcpy(lw_default_gateway_v6.addr, lw_settings.gateway_v6.words, 16);
    if (netif_add(&lw_netif, ip_2_ip4(&v4), ip_2_ip4(&mask), ip_2_ip4(&gateway), NULL, init_netif,
                  ip_input) == NULL) {
        return 0;
    }
    NETIF_SET_CHECKSUM_CTRL(&lw_netif, lw_checksum_flags(0));
    return 1;
}

/* The second part of the start, which sends frames. */
void lw_up(void) {
    netif_set_default(&lw_netif);
    netif_create_ip6_linklocal_address(&lw_netif, 1);
    lw_netif.ip6_autoconfig_enabled = lw_settings.slaac;
    netif_set_link_up(&lw_netif);
    netif_set_up(&lw_netif);
    if (!lw_settings.slaac) {
        lw_netif.rs_count = 0;
    }
}

/* Free all memory of lwIP, so that it can be started again. No frame is sent. */
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

/* ---- Counters ---- */

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

/* The number of segments whose connection or listener lwIP found at the front of a list. */
u64_t lw_found_first(void) {
    return lwip_stats.tcp.cachehit;
}

const char *lw_version(void) {
    return LWIP_VERSION_STRING;
}
