// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The index of TCP connections.
 *
 * lwIP keeps its connections in singly linked lists and searches them linearly for each segment. This file
 * adds back links to these lists and a hash table over addresses and ports. Before a segment is passed to
 * lwIP's tcp_input(), its connection is moved to the front of its list, and the other lists are hidden. So
 * each search of lwIP ends at its first step. The links are stored in the control blocks (lwIP's "extension
 * arguments").
 */
#include "glue.h"

#include "lwip/inet_chksum.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/stats.h"
#include <string.h>

enum { SELF, BACK, CHAIN, WIRE_MSS, LIST, RECOVER };

#define PCB(pointer) ((struct tcp_pcb *)(pointer))
#define BACK_OF(pcb) ((pcb)->ext_args[BACK].data)
#define CHAIN_OF(pcb) ((pcb)->ext_args[CHAIN].data)
#define LIST_OF(pcb) ((pcb)->ext_args[LIST].data)

static struct tcp_pcb **table;
static size_t table_mask;
static void (*on_half_open)(struct tcp_pcb *pcb);
static struct tcp_pcb *current; /* the connection of the current segment; NULL once it is freed */
static struct tcp_pcb *hidden;  /* the list of active connections while it is hidden from lwIP */
static struct tcp_pcb *idle;    /* from here to the end, no active connection needs a timer */

/* Connections whose received data is acknowledged by the next poll, or when the application has read it. */
#define OWED 64
static struct tcp_pcb *owed[OWED];
static size_t owed_count;

static void remove_owed(const struct tcp_pcb *pcb) {
    size_t at;
    for (at = 0; at < owed_count; at++) {
        if (owed[at] == pcb) {
            owed[at] = owed[--owed_count];
            return;
        }
    }
}

/* Acknowledge received data now. */
void lw_acknowledge(struct tcp_pcb *pcb) {
    size_t before = owed_count;
    remove_owed(pcb);
    if (owed_count < before && pcb->state >= ESTABLISHED && pcb->state != TIME_WAIT &&
        (pcb->flags & TF_ACK_DELAY)) {
        tcp_ack_now(pcb);
        tcp_output(pcb);
    }
}

void lw_tcp_acknowledge(void) {
    while (owed_count > 0) {
        lw_acknowledge(owed[0]);
    }
}

int lw_tcp_owes(void) {
    return owed_count > 0;
}

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
    if (pcb == current) {
        current = NULL;
    }
    remove_owed(pcb);
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
    current = hidden = idle = NULL;
    owed_count = 0;
}

/* The segment size on the wire. lwIP uses larger segments if the device splits them. */
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
    if (pcb == idle) {
        idle = pcb->next;
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

static void to_front(struct tcp_pcb *pcb) {
    struct tcp_pcb **list = LIST_OF(pcb);
    struct tcp_pcb *back = BACK_OF(pcb);
    if (pcb == idle) {
        idle = pcb->next;
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
        to_front(pcb);
    }
}

/* Whether lwIP's timers have nothing to do for a connection until its next segment or operation. */
static int is_idle(const struct tcp_pcb *pcb) {
    return (pcb->state == ESTABLISHED || pcb->state == CLOSE_WAIT) && pcb->unsent == NULL &&
           pcb->unacked == NULL && LW_EARLY(pcb) == NULL && pcb->refused_data == NULL &&
           pcb->persist_backoff == 0 && pcb->poll == NULL && !ip_get_option(pcb, SOF_KEEPALIVE) &&
           !(pcb->flags & (TF_ACK_DELAY | TF_ACK_NOW | TF_CLOSEPEND | TF_FIN | TF_NAGLEMEMERR));
}

/*
 * The persist timer splits the next segment at the peer's window, whose lower 16 bits lwIP passes on: of 65536
 * nothing is left, which fails an assertion. A segment always fits into such a window, so it is sent instead.
 */
static void end_persist(struct tcp_pcb *pcb) {
    if (pcb->persist_backoff > 0 && pcb->snd_wnd > 0xffff) {
        pcb->persist_backoff = 0;
        pcb->cwnd = LWIP_MAX(pcb->cwnd, pcb->mss);
        tcp_output(pcb);
    }
}

/*
 * Run lwIP's timers, which examine each connection of a list, for the connections that need them only. The
 * idle ones are at the end of the list, which is cut off during the call; lw_wake() and each segment move a
 * connection to the front. The list of TIME_WAIT is examined once a second, which suffices for its 60 s.
 */
void lw_tcp_tick(void) {
    static u8_t turn;
    struct tcp_pcb *waiting = tcp_tw_pcbs, *rest = idle, *pcb, *last = NULL, *next;
    if (rest != NULL) {
        struct tcp_pcb *back = BACK_OF(rest);
        if (back == NULL) {
            tcp_active_pcbs = NULL;
        } else {
            back->next = NULL;
        }
        BACK_OF(rest) = NULL;
    }
    for (pcb = tcp_active_pcbs; pcb != NULL; pcb = pcb->next) {
        end_persist(pcb);
    }
    if (++turn % (1000 / TCP_TMR_INTERVAL) >= 2) { /* every second call runs the slow timer */
        tcp_tw_pcbs = NULL;
    }
    tcp_tmr();
    if (tcp_tw_pcbs == NULL && turn % (1000 / TCP_TMR_INTERVAL) >= 2) {
        tcp_tw_pcbs = waiting;
    }
    for (pcb = tcp_active_pcbs; pcb != NULL; pcb = next) {
        next = pcb->next;
        lw_counts.timers_visited++;
        if (!is_idle(pcb)) {
            last = pcb;
            continue;
        }
        if (last == NULL) {
            tcp_active_pcbs = next;
        } else {
            last->next = next;
        }
        if (next != NULL) {
            BACK_OF(next) = last;
        }
        pcb->next = rest;
        if (rest != NULL) {
            BACK_OF(rest) = pcb;
        }
        BACK_OF(pcb) = NULL;
        rest = pcb;
    }
    idle = rest;
    if (last == NULL) {
        tcp_active_pcbs = rest;
    } else {
        last->next = rest;
    }
    if (rest != NULL) {
        BACK_OF(rest) = last;
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
static struct tcp_pcb *find_listener(const ip_addr_t *local, u16_t port) {
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

static int checksum_is_valid(struct pbuf *p, struct netif *inp) {
    IF__NETIF_CHECKSUM_ENABLED(inp, NETIF_CHECKSUM_CHECK_TCP) {
        return ip_chksum_pseudo(p, IP_PROTO_TCP, p->tot_len, ip_current_src_addr(), ip_current_dest_addr()) ==
               0;
    }
    return 1;
}

/*
 * Whether a segment ends TIME_WAIT. A SYN with a sequence number above the received ones starts a new
 * connection (RFC 1122, 4.2.2.13; RFC 6191). A RST that answers our ACK of an older SYN means that the peer
 * has no state of the old connection. lwIP ignores both, and would acknowledge the peer's SYNs with the old
 * sequence numbers until TIME_WAIT ends.
 */
static int ends_time_wait(const struct tcp_pcb *pcb, const struct tcp_hdr *header, u8_t flags, struct pbuf *p,
                          struct netif *inp) {
    u32_t sequence = lwip_ntohl(header->seqno);
    int ends = (flags & TCP_RST)
                   ? sequence == pcb->rcv_nxt
                   : (flags & TCP_SYN) && !(flags & TCP_ACK) && TCP_SEQ_GEQ(sequence, pcb->rcv_nxt);
    return ends && checksum_is_valid(p, inp);
}

/* Whether the acknowledgement number is outside the acceptable range (RFC 9293, 3.10.7.4; RFC 5961, 5.2).
 * lwIP does not check it. */
static int ack_is_unacceptable(const struct tcp_pcb *pcb, const struct tcp_hdr *header) {
    u32_t number = lwip_ntohl(header->ackno);
    return TCP_SEQ_GT(number, pcb->snd_nxt) ||
           TCP_SEQ_LT(number, pcb->lastack - LWIP_MAX(pcb->snd_wnd_max, 0xffffu));
}

static void unhide(void) {
    struct tcp_pcb *last = tcp_active_pcbs;
    if (hidden == NULL) {
        return;
    }
    if (last == NULL) {
        tcp_active_pcbs = hidden;
    } else { /* at most the connection that was just created */
        while (last->next != NULL) {
            last = last->next;
        }
        last->next = hidden;
        BACK_OF(hidden) = last;
    }
    hidden = NULL;
}

/* Whether a segment has a SACK option (RFC 2018). */
static int has_sack_option(const struct tcp_hdr *header, u16_t size) {
    const u8_t *option = (const u8_t *)(header + 1);
    const u8_t *end = (const u8_t *)header + LWIP_MIN(TCPH_HDRLEN_BYTES(header), size);
    while (option < end && *option != LWIP_TCP_OPT_EOL) {
        if (*option == LWIP_TCP_OPT_NOP) {
            option++;
            continue;
        }
        if (end - option < 2 || option[1] < 2) {
            return 0;
        }
        if (*option == 5) {
            return 1;
        }
        option += option[1];
    }
    return 0;
}

/* Whether the last option lacks its length byte: lwIP would read it behind the header. */
static int options_are_truncated(const struct pbuf *p, u16_t end) {
    u16_t at = TCP_HLEN;
    while (at < end) {
        u8_t kind = pbuf_get_at(p, at), size;
        if (kind == LWIP_TCP_OPT_EOL) {
            return 0;
        }
        if (kind == LWIP_TCP_OPT_NOP) {
            at++;
            continue;
        }
        if (at + 1 >= end) {
            return 1;
        }
        size = pbuf_get_at(p, (u16_t)(at + 1));
        if (size < 2) {
            return 0; /* lwIP stops here, too */
        }
        at = (u16_t)(at + size);
    }
    return 0;
}

/* The state before an ACK was processed. */
struct before_ack {
    int fast_recovery;
    int sack; /* the ACK has a SACK option */
    tcpwnd_size_t window;
    u32_t lastack;
    s16_t rtime; /* ticks since the retransmission timer was started */
};

/* NewReno (RFC 6582), which lwIP lacks: a partial ACK during fast recovery means that the next segment is
 * lost, too, and it is retransmitted at once. lwIP would leave fast recovery and wait for the retransmission
 * timeout. A peer that supports SACK must also report a hole; otherwise segments were only reordered. The
 * retransmission timer is not restarted, so that one loss in each round trip does not take longer than the
 * timeout. */
static void recover(struct tcp_pcb *pcb, const struct before_ack *before) {
    u32_t end = (u32_t)(uintptr_t)pcb->ext_args[RECOVER].data;
    u32_t acked = pcb->lastack - before->lastack;
    tcpwnd_size_t left = before->window > acked ? (tcpwnd_size_t)(before->window - acked) : 0;
    if (!before->fast_recovery) {
        if (pcb->flags & TF_INFR) {
            pcb->ext_args[RECOVER].data = (void *)(uintptr_t)pcb->snd_nxt;
        }
        return;
    }
    if ((pcb->flags & (TF_INFR | TF_RTO)) || pcb->unacked == NULL || !TCP_SEQ_LT(pcb->lastack, end) ||
        (LW_SACK(pcb) && !before->sack) || tcp_rexmit(pcb) != ERR_OK) {
        return;
    }
    tcp_set_flags(pcb, TF_INFR);
    pcb->rtime = before->rtime;
    pcb->dupacks = 3; /* further duplicate ACKs are counted from here */
    /* RFC 6582, 3.2: deflate the window by the acknowledged data. */
    pcb->cwnd = LWIP_MAX((tcpwnd_size_t)(left + pcb->mss), (tcpwnd_size_t)(2 * pcb->mss));
    tcp_output(pcb);
}

/* Remove the oldest half-open connection of a listener without a RST. Returns whether there is room then. */
static int recycle(uintptr_t listener) {
    struct tcp_pcb *oldest = LW_FIX(LW_BACKLOG_RECYCLING) ? lw_rust_oldest(listener) : NULL;
    if (oldest == NULL) {
        return 0;
    }
    tcp_abandon(oldest, 0);
    return lw_rust_room(listener);
}

/* RFC 3042: the first two duplicate ACKs each permit a new segment beyond the congestion window. */
static void limited_transmit(struct tcp_pcb *pcb, u8_t dupacks) {
    tcpwnd_size_t window = pcb->cwnd;
    if ((pcb->flags & (TF_INFR | TF_RTO)) || pcb->dupacks <= dupacks || pcb->dupacks > 2 ||
        pcb->unsent == NULL) {
        return;
    }
    pcb->cwnd = (tcpwnd_size_t)(window + pcb->dupacks * lw_wire_mss(pcb));
    tcp_output(pcb);
    pcb->cwnd = window;
}

/* RFC 6298, 2.2: the round trip of the handshake is the first sample. lwIP times the SYN of a connect, but
 * ends the measurement with the first ACK of data. `sa` is 8 times the smoothed round trip, `sv` 4 times its
 * variation, both in ticks. */
static void time_handshake(struct tcp_pcb *pcb) {
    s16_t ticks = (s16_t)LWIP_MAX(1, (s32_t)(tcp_ticks - pcb->rttest));
    if (pcb->rttest == 0) {
        return; /* the SYN was retransmitted */
    }
    pcb->sa = (s16_t)(8 * ticks);
    pcb->sv = (s16_t)(2 * ticks);
    pcb->rto = (s16_t)((pcb->sa >> 3) + pcb->sv);
    pcb->rttest = 0;
}

/* Delay the ACK of received data until the application had the opportunity to read it. */
static void owe_ack(struct tcp_pcb *pcb) {
    if (pcb->state < ESTABLISHED || pcb->state == TIME_WAIT || !(pcb->flags & TF_ACK_DELAY)) {
        return;
    }
    remove_owed(pcb);
    if (owed_count < OWED) {
        owed[owed_count++] = pcb;
    } else {
        tcp_ack_now(pcb);
        tcp_output(pcb);
    }
}

#if LW_POOLS
/* Make room in the pool of control blocks for a new connection: the oldest ones in TIME_WAIT are removed.
 * lwIP does so, too, but their list is hidden from it. */
static void make_room(void) {
    if (lw_counts.active + lw_counts.waiting >= LW_POOLS && lw_counts.waiting > 0) {
        lw_limit_waiting(lw_counts.waiting - 1);
    }
}
#else
#define make_room()
#endif

/* The listener of connections that both sides open: lwIP completes a connection in SYN_RCVD with one only. */
static struct tcp_pcb_listen both_open = {.accept = lw_simultaneously_open};

/* RFC 9293, 3.10.7.3: a SYN without ACK in SYN-SENT is answered by the same SYN with an ACK, and the connection
 * enters SYN-RECEIVED. lwIP has read the options of the SYN, and ignored the rest. */
static void open_simultaneously(struct tcp_pcb *pcb, u32_t sequence, u16_t window) {
    u8_t retransmissions = pcb->nrtx;
    pcb->rcv_nxt = sequence + 1;
    pcb->rcv_ann_right_edge = pcb->rcv_nxt;
    pcb->snd_wnd = window;
    pcb->snd_wnd_max = window;
    pcb->snd_wl1 = sequence - 1;
    pcb->mss = tcp_eff_send_mss(pcb->mss, &pcb->local_ip, &pcb->remote_ip);
    pcb->state = SYN_RCVD;
    pcb->listener = &both_open;
    if (pcb->unacked != NULL) { /* otherwise the SYN waits for address resolution or for memory */
        tcp_rexmit(pcb);
        pcb->nrtx = retransmissions;
    }
    tcp_output(pcb);
}

/* The SYN with ACK of a peer that opens the same connection. lwIP takes it for a copy of the SYN; to this side
 * it is an ACK. Its window is not scaled, that of an ACK is. It is acknowledged at once: to a peer that drops
 * the SYN with ACK of this side as a copy, only an ACK establishes the connection. */
static void to_ack(struct tcp_pcb *pcb, struct tcp_hdr *header) {
    tcp_ack_now(pcb);
    TCPH_UNSET_FLAG(header, TCP_SYN);
    header->seqno = lwip_htonl(lwip_ntohl(header->seqno) + 1);
    header->wnd = lwip_htons((u16_t)(lwip_ntohs(header->wnd) >> pcb->snd_scale));
}

/* Called by ip4.c and ip6.c instead of tcp_input(): they are compiled with that name redefined. */
void lw_tcp_input(struct pbuf *p, struct netif *inp) {
    const struct tcp_hdr *header = p->payload;
    struct tcp_pcb *pcb;
    enum tcp_state former_state;
    u8_t flags;
    struct before_ack before;
    u8_t dupacks;
    int owes, merged, gap, both;
    u32_t expected, sequence;
    u16_t window;

    if (p->len < TCP_HLEN) {
        tcp_input(p, inp); /* counts and drops it */
        return;
    }
    if (options_are_truncated(p, TCPH_HDRLEN_BYTES(header))) {
        lw_counts.malformed++;
        pbuf_free(p);
        return;
    }
    flags = TCPH_FLAGS(header);
    if (LW_FIX(LW_SYN_WITH_FIN) && (flags & (TCP_SYN | TCP_FIN)) == (TCP_SYN | TCP_FIN)) {
        lw_counts.malformed++;
        pbuf_free(p);
        return;
    }
    pcb = lw_find(ip_current_dest_addr(), lwip_ntohs(header->dest), ip_current_src_addr(),
                  lwip_ntohs(header->src));
    if (pcb != NULL && pcb->state == TIME_WAIT && (flags & (TCP_SYN | TCP_RST)) &&
        ends_time_wait(pcb, header, flags, p, inp)) {
        tcp_abort(pcb);
        pcb = NULL;
    }
    if (pcb == NULL) {
        struct tcp_pcb *waiting = tcp_tw_pcbs;
        struct tcp_pcb *listener = find_listener(ip_current_dest_addr(), lwip_ntohs(header->dest));
        if (listener != NULL) {
            to_front(listener);
            if ((flags & (TCP_SYN | TCP_ACK | TCP_RST)) == TCP_SYN &&
                !lw_rust_room((uintptr_t)listener->callback_arg)) {
                lw_counts.no_room++;
                if (!recycle((uintptr_t)listener->callback_arg)) {
                    pbuf_free(p);
                    return;
                }
            }
        }
        if (listener != NULL) {
            make_room();
            waiting = tcp_tw_pcbs;
        }
        hidden = tcp_active_pcbs;
        tcp_active_pcbs = NULL;
        tcp_tw_pcbs = NULL;
        tcp_input(p, inp);
        tcp_tw_pcbs = waiting;
        unhide();
        return;
    }
    if (pcb->state == SYN_RCVD && (flags & (TCP_ACK | TCP_SYN | TCP_RST)) == TCP_ACK &&
        lw_rust_full((uintptr_t)pcb->callback_arg)) {
        lw_counts.no_room++; /* the peer is established and retransmits its data until the queue has room */
        pbuf_free(p);
        return;
    }
    to_front(pcb);
    if (pcb->state >= ESTABLISHED && pcb->state != TIME_WAIT && (flags & (TCP_ACK | TCP_RST)) == TCP_ACK &&
        ack_is_unacceptable(pcb, header) && checksum_is_valid(p, inp)) {
        tcp_ack_now(pcb);
        tcp_output(pcb);
        pbuf_free(p);
        return;
    }
    if (pcb->state >= ESTABLISHED && (flags & TCP_ACK) && lwip_ntohl(header->seqno) == pcb->snd_wl1 &&
        lwip_ntohl(header->ackno) == pcb->snd_wl2 &&
        (u32_t)SND_WND_SCALE(pcb, lwip_ntohs(header->wnd)) < pcb->snd_wnd) {
        pcb->snd_wl1--; /* accept a smaller window of the same segment (RFC 9293, 3.10.7.4), which lwIP
                           ignores */
    }
    if (pcb->state == TIME_WAIT) {
        hidden = tcp_active_pcbs;
        tcp_active_pcbs = NULL;
        tcp_input(p, inp);
        unhide();
        return;
    }
    /* Merged segments (GRO) are acknowledged at once, as every second segment is. */
    merged = p->tot_len > 2 * lw_wire_mss(pcb);
    owes = LW_FIX(LW_ACK_AFTER_READ) && pcb->state >= ESTABLISHED && ((pcb->flags & TF_ACK_DELAY) || merged);
    if (owes) { /* lwIP sets it again for data in sequence */
        tcp_clear_flags(pcb, TF_ACK_DELAY);
    } else if (pcb->state >= ESTABLISHED && merged) {
        tcp_set_flags(pcb, TF_ACK_DELAY);
    }
    if (pcb->state == SYN_RCVD && pcb->listener == &both_open && (flags & TCP_SYN) && (flags & TCP_ACK) &&
        lwip_ntohl(header->seqno) + 1 == pcb->rcv_nxt && lwip_ntohl(header->ackno) == pcb->snd_nxt &&
        checksum_is_valid(p, inp)) {
        to_ack(pcb, p->payload);
        flags = TCP_ACK;
        NETIF_SET_CHECKSUM_CTRL(inp, lw_checksum_flags(1)); /* lw_input() sets it back */
    }
    both = LW_FIX(LW_SIMULTANEOUS_OPEN) && pcb->state == SYN_SENT &&
           (flags & (TCP_SYN | TCP_ACK | TCP_RST | TCP_FIN)) == TCP_SYN && checksum_is_valid(p, inp);
    sequence = lwip_ntohl(header->seqno);
    window = lwip_ntohs(header->wnd);
    dupacks = pcb->dupacks;
    former_state = pcb->state;
    before.fast_recovery = (pcb->flags & TF_INFR) != 0;
    before.sack = before.fast_recovery && has_sack_option(header, p->len);
    before.window = pcb->cwnd;
    before.lastack = pcb->lastack;
    before.rtime = pcb->rtime;
    gap = LW_FIX(LW_ACK_FILLED_GAP) && pcb->state >= ESTABLISHED && LW_EARLY(pcb) != NULL;
    expected = pcb->rcv_nxt;
    current = pcb;
    tcp_input(p, inp);
    if (current != NULL && both && current->state == SYN_SENT) {
        open_simultaneously(current, sequence, window);
    }
    if (current != NULL && current->unsent == NULL) {
        /* a zero-window probe has sent the last byte; lwIP fails an assertion without one */
        current->persist_backoff = 0;
    }
    if (current != NULL && former_state >= ESTABLISHED && current->state >= ESTABLISHED) {
        recover(current, &before);
        if (LW_FIX(LW_LIMITED_TRANSMIT)) {
            limited_transmit(current, dupacks);
        }
    }
    if (current != NULL && gap && current->rcv_nxt != expected) {
        /* RFC 5681, 4.2: a segment that fills a gap, or a part of it, is acknowledged at once */
        tcp_ack_now(current);
        tcp_output(current);
    } else if (current != NULL && owes) {
        owe_ack(current);
    }
    if (current != NULL && LW_FIX(LW_HANDSHAKE_TIMED) && former_state == SYN_SENT &&
        current->state == ESTABLISHED) {
        time_handshake(current);
    }
    if (current != NULL && former_state < ESTABLISHED && current->state >= ESTABLISHED) {
        u32_t wire = lw_wire_mss(current); /* RFC 6928: ten segments to begin with; lwIP has three */
        u32_t first = LWIP_MIN(10 * wire, LWIP_MAX(2 * wire, 14600));
        current->cwnd = LWIP_MAX(current->cwnd, LWIP_MAX(first, current->mss));
    }
    current = NULL;
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
