// SPDX-License-Identifier: MIT OR Apache-2.0
/* The settings and the network interface of the stack, and what follows from them. */
#include "glue.h"

#include "lwip/priv/nd6_priv.h"

u32_t lw_receive_buffer, lw_send_buffer;
u16_t lw_send_queue;
u8_t lw_receive_scale;
struct netif lw_netif;
struct lw_settings lw_settings;
struct lw_counts lw_counts;
ip6_addr_t lw_default_gateway_v6;

/* The largest IP packet that the device splits; 0 without segmentation offload. */
u16_t lw_segments(void) {
    return lw_settings.checksum_offload ? lw_settings.segments : 0;
}

/* The checksums that lwIP has to set and to verify. `verified`: the device has verified TCP's and UDP's. */
u16_t lw_checksum_flags(int verified) {
    u16_t flags = NETIF_CHECKSUM_ENABLE_ALL;
    if (lw_settings.checksum_offload) {
        flags &= (u16_t) ~(NETIF_CHECKSUM_GEN_TCP | NETIF_CHECKSUM_GEN_UDP);
    }
    if (verified) {
        flags &= (u16_t) ~(NETIF_CHECKSUM_CHECK_TCP | NETIF_CHECKSUM_CHECK_UDP);
    }
    return flags;
}

/* Whether a router advertisement has set a default router. */
int lw_router_known(void) {
    int at;
    for (at = 0; at < LWIP_ND6_NUM_ROUTERS; at++) {
        if (default_router_list[at].neighbor_entry != NULL) {
            return 1;
        }
    }
    return 0;
}

const ip6_addr_t *lw_gateway_v6(void) {
    return lw_settings.gateway_v6.kind == 6 && !lw_router_known() ? &lw_default_gateway_v6 : NULL;
}

/* The options of lwIP that this build was compiled with, in the order of build.rs. */
u32_t lw_option(int which) {
    static const u32_t values[] = {LWIP_CHECKSUM_ON_COPY, TCP_OVERSIZE, TCP_QUEUE_OOSEQ, LW_POOLS};
    return values[which];
}
