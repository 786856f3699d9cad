// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The index of TCP connections.
 *
 * lwIP keeps its connections in singly linked lists and searches them linearly for each segment. This file
 * adds back links to these lists and a hash table over addresses and ports. The links are stored in the
 * control blocks (lwIP's "extension arguments"). input.c finds the connection of a segment here.
 */
#include "index.h"

#include <string.h>

struct tcp_pcb *lw_current;
struct tcp_pcb *lw_idle;

static struct tcp_pcb **table;
static size_t table_mask;
static void (*on_half_open)(struct tcp_pcb *pcb);

static size_t bucket(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote, u16_t remote_port) {
    return (size_t)lw_tuple_hash(0, local, local_port, remote, remote_port) & table_mask;
}

static void unindex(struct tcp_pcb *pcb);

static void destroyed(u8_t id, void *data) {
    struct tcp_pcb *pcb = PCB(data);
    LWIP_UNUSED_ARG(id);
    if (LIST_OF(pcb) != NULL) { /* lwIP's slow timer unlinks it without TCP_RMV */
        if (pcb->next != NULL) {
            BACK_OF(pcb->next) = BACK_OF(pcb);
        }
        unindex(pcb);
    }
    if (pcb == lw_current) {
        lw_current = NULL;
    }
    lw_forget_owed(pcb);
    if (pcb->callback_arg != NULL) {
        lw_rust_gone((uintptr_t)pcb->callback_arg);
    }
}

static const struct tcp_ext_arg_callbacks callbacks = {destroyed, NULL};

void lw_watch(struct tcp_pcb *pcb) {
    pcb->ext_args[SELF].callbacks = &callbacks;
    pcb->ext_args[SELF].data = pcb;
}

void lw_index_start(void *memory, size_t buckets, void (*half_open)(struct tcp_pcb *pcb)) {
    on_half_open = half_open;
    table = memory;
    table_mask = buckets - 1;
    memset(&lw_counts, 0, sizeof lw_counts);
    lw_current = lw_idle = NULL;
    lw_forget_all_owed();
}

/* The largest payload of a segment on the wire. lwIP uses larger segments if the device splits them. */
u32_t lw_wire_mss(const struct tcp_pcb *pcb) {
    u32_t wire = (u32_t)(uintptr_t)pcb->ext_args[WIRE_MSS].data;
    return wire != 0 ? wire : pcb->mss;
}

void lw_set_wire_mss(struct tcp_pcb *pcb, u32_t mss) {
    pcb->ext_args[WIRE_MSS].data = (void *)(uintptr_t)mss;
}

/* TCP_REG of lwIP: insert a connection at the front of a list. */
void lw_listed(struct tcp_pcb **list, struct tcp_pcb *pcb) {
    lw_watch(pcb);
    pcb->next = *list;
    if (pcb->next != NULL) {
        BACK_OF(pcb->next) = pcb;
    }
    *list = pcb;
    BACK_OF(pcb) = NULL;
    LIST_OF(pcb) = list;
    CHAIN_OF(pcb) = NULL;
    if (list == &tcp_active_pcbs || list == &tcp_tw_pcbs) {
        struct tcp_pcb **first =
            &table[bucket(&pcb->local_ip, pcb->local_port, &pcb->remote_ip, pcb->remote_port)];
        CHAIN_OF(pcb) = *first;
        *first = pcb;
        if (list == &tcp_tw_pcbs) {
            lw_counts.waiting++;
            if (pcb->callback_arg != NULL && lw_rust_time_wait((uintptr_t)pcb->callback_arg)) {
                pcb->callback_arg = NULL;
            }
        } else {
            lw_counts.active++;
            if (pcb->state == SYN_RCVD) {
                on_half_open(pcb);
            }
        }
    }
}

/* Remove a connection from the hash table when it leaves its list. */
static void unindex(struct tcp_pcb *pcb) {
    struct tcp_pcb **list = LIST_OF(pcb);
    LIST_OF(pcb) = NULL;
    if (pcb == lw_idle) {
        lw_idle = pcb->next;
    }
    if (list == &tcp_active_pcbs || list == &tcp_tw_pcbs) {
        struct tcp_pcb *before = NULL;
        struct tcp_pcb **first =
            &table[bucket(&pcb->local_ip, pcb->local_port, &pcb->remote_ip, pcb->remote_port)];
        struct tcp_pcb *one = *first;
        while (one != NULL && one != pcb) {
            before = one;
            one = CHAIN_OF(one);
        }
        LWIP_ASSERT("a listed connection is in the table", one == pcb);
        if (before == NULL) {
            *first = CHAIN_OF(pcb);
        } else {
            CHAIN_OF(before) = CHAIN_OF(pcb);
        }
        if (list == &tcp_tw_pcbs) {
            lw_counts.waiting--;
        } else {
            lw_counts.active--;
        }
    }
}

/* TCP_RMV of lwIP: remove a connection from its list. Connections in no list are ignored: bound sockets are
 * not in lwIP's list of bound ones. */
void lw_unlisted(struct tcp_pcb **list, struct tcp_pcb *pcb) {
    struct tcp_pcb *back;
    if (LIST_OF(pcb) != list) {
        return;
    }
    back = BACK_OF(pcb);
    if (back == NULL) {
        *list = pcb->next;
    } else {
        back->next = pcb->next;
    }
    if (pcb->next != NULL) {
        BACK_OF(pcb->next) = back;
    }
    unindex(pcb);
    pcb->next = NULL;
}

void lw_to_front(struct tcp_pcb *pcb) {
    struct tcp_pcb **list = LIST_OF(pcb);
    struct tcp_pcb *back = BACK_OF(pcb);
    if (pcb == lw_idle) {
        lw_idle = pcb->next;
    }
    if (back == NULL) {
        return;
    }
    back->next = pcb->next;
    if (pcb->next != NULL) {
        BACK_OF(pcb->next) = back;
    }
    pcb->next = *list;
    BACK_OF(pcb->next) = pcb;
    BACK_OF(pcb) = NULL;
    *list = pcb;
}

/* Call this before an operation on a connection that may need a timer. */
void lw_wake(struct tcp_pcb *pcb) {
    if (LIST_OF(pcb) == &tcp_active_pcbs) {
        lw_to_front(pcb);
    }
}

struct tcp_pcb *lw_find(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote,
                        u16_t remote_port) {
    struct tcp_pcb *pcb = table[bucket(local, local_port, remote, remote_port)];
    while (pcb != NULL && !(pcb->remote_port == remote_port && pcb->local_port == local_port &&
                            ip_addr_eq(&pcb->remote_ip, remote) && ip_addr_eq(&pcb->local_ip, local))) {
        pcb = CHAIN_OF(pcb);
    }
    return pcb;
}

/* Find the listener for an address and port; one bound to this address precedes a wildcard. The list holds no
 * connections, so it is short. */
struct tcp_pcb *lw_find_listener(const ip_addr_t *local, u16_t port) {
    struct tcp_pcb *any = NULL;
    struct tcp_pcb *one;
    for (one = tcp_listen_pcbs.pcbs; one != NULL; one = one->next) {
        if (one->local_port != port) {
            continue;
        }
        if (IP_IS_ANY_TYPE_VAL(one->local_ip)) {
            any = any == NULL ? one : any;
        } else if (IP_IS_V6_VAL(one->local_ip) == IP_IS_V6(local)) {
            if (ip_addr_eq(&one->local_ip, local)) {
                return one;
            }
            if (ip_addr_isany(&one->local_ip)) {
                any = one;
            }
        }
    }
    return any;
}

/* Limit the number of connections in TIME_WAIT: above it, the oldest eighth is removed, so that the walk to
 * the end of the list is rare. */
void lw_limit_waiting(size_t most) {
    struct tcp_pcb *pcb = tcp_tw_pcbs;
    size_t kept;
    if (lw_counts.waiting <= most) {
        return;
    }
    for (kept = 0; kept < most - most / 8; kept++) {
        pcb = pcb->next;
    }
    while (pcb != NULL) {
        struct tcp_pcb *next = pcb->next;
        tcp_abort(pcb);
        pcb = next;
    }
}
