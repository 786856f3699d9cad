// SPDX-License-Identifier: MIT OR Apache-2.0
/* UDP for Rust. */
#include "glue.h"

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

/* Send a datagram without a copy. lwIP copies it if it has to resolve the link-layer address first. */
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
    if (total + 8 + (IP_IS_V6(&to) ? 40 : 20) >
        lw_settings.mtu) { /* a fragmented datagram: lwIP sets the checksum */
        NETIF_SET_CHECKSUM_CTRL(&lw_netif, NETIF_CHECKSUM_ENABLE_ALL);
    }
    error = udp_sendto(pcb, first, &to, port);
    NETIF_SET_CHECKSUM_CTRL(&lw_netif, lw_checksum_flags(0));
    pbuf_free(first);
    return error;
}
