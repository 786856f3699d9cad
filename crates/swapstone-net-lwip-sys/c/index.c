/*
 * The index of TCP connections.
 *
 * lwIP keeps its connections in singly linked lists and searches them for each segment. Here the same lists
 * get links back, and a hash table over addresses and ports stands beside them. Before a segment goes to
 * lwIP's tcp_input() its connection is moved to the front of its list, and lists in which it can't be are
 * hidden: each of lwIP's searches ends at its first step. The links live in the control blocks themselves
 * (lwIP's "extension arguments").
 */
#include "glue.h"

#include "lwip/inet_chksum.h"
#include "lwip/priv/tcp_priv.h"
#include "lwip/stats.h"
#include <string.h>

enum { SELF, BACK, CHAIN, MARK, HOME, RECOVER };

#define PCB(pointer) ((struct tcp_pcb *)(pointer))
#define BACK_OF(pcb) ((pcb)->ext_args[BACK].data)
#define CHAIN_OF(pcb) ((pcb)->ext_args[CHAIN].data)
#define HOME_OF(pcb) ((pcb)->ext_args[HOME].data)

struct lw_counts lw_counts;

static struct tcp_pcb **table;
static size_t table_mask;
static struct tcp_pcb *current; /* the one whose segment is at work; null when it is freed meanwhile */
static struct tcp_pcb *hidden;  /* the active ones, while they can't be meant */
static struct tcp_pcb *idle; /* from here to the end of the active ones' list no timer has anything to do */

static size_t bucket(const ip_addr_t *local, u16_t local_port, const ip_addr_t *remote, u16_t remote_port) {
    return (size_t)lw_tuple_hash(0, local, local_port, remote, remote_port) & table_mask;
}

static void unindex(struct tcp_pcb *pcb);

static void destroyed(u8_t id, void *data) {
    struct tcp_pcb *pcb = PCB(data);
    LWIP_UNUSED_ARG(id);
    if (HOME_OF(pcb) != NULL) { /* the slow timer takes it out of its list by itself */
        if (pcb->next != NULL) {
            BACK_OF(pcb->next) = BACK_OF(pcb);
        }
        unindex(pcb);
    }
    if (pcb == current) {
        current = NULL;
    }
    if (pcb->callback_arg != NULL) {
        lw_rust_gone((uintptr_t)pcb->callback_arg);
    }
}

static const struct tcp_ext_arg_callbacks callbacks = {destroyed, NULL};

void lw_watch(struct tcp_pcb *pcb) {
    pcb->ext_args[SELF].callbacks = &callbacks;
    pcb->ext_args[SELF].data = pcb;
}

void lw_index_start(void *memory, size_t buckets) {
    table = memory;
    table_mask = buckets - 1;
    memset(&lw_counts, 0, sizeof lw_counts);
    current = hidden = idle = NULL;
}

uintptr_t lw_mark(struct tcp_pcb *pcb) {
    return (uintptr_t)pcb->ext_args[MARK].data;
}

void lw_set_mark(struct tcp_pcb *pcb, uintptr_t mark) {
    pcb->ext_args[MARK].data = (void *)mark;
}

/* Called by lwIP through TCP_REG: put it at the front of a list. */
void lw_listed(struct tcp_pcb **list, struct tcp_pcb *pcb) {
    lw_watch(pcb);
    pcb->next = *list;
    if (pcb->next != NULL) {
        BACK_OF(pcb->next) = pcb;
    }
    *list = pcb;
    BACK_OF(pcb) = NULL;
    HOME_OF(pcb) = list;
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
                lw_half_open(pcb);
            }
        }
    }
}

/* It leaves its list: out of the table too. */
static void unindex(struct tcp_pcb *pcb) {
    struct tcp_pcb **list = HOME_OF(pcb);
    HOME_OF(pcb) = NULL;
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

/* Called by lwIP through TCP_RMV. What is in no list is left alone: our sockets are bound without lwIP's list
 * of bound ones. */
void lw_unlisted(struct tcp_pcb **list, struct tcp_pcb *pcb) {
    struct tcp_pcb *back;
    if (HOME_OF(pcb) != list) {
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
    struct tcp_pcb **list = HOME_OF(pcb);
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

/* Something is about to happen to a connection that timers may have to follow up. */
void lw_wake(struct tcp_pcb *pcb) {
    if (HOME_OF(pcb) == &tcp_active_pcbs) {
        to_front(pcb);
    }
}

/* Whether neither of lwIP's timers would do anything to it until something else does. */
static int is_idle(const struct tcp_pcb *pcb) {
    return (pcb->state == ESTABLISHED || pcb->state == CLOSE_WAIT) && pcb->unsent == NULL &&
           pcb->unacked == NULL && pcb->ooseq == NULL && pcb->refused_data == NULL &&
           pcb->persist_backoff == 0 && pcb->poll == NULL && !ip_get_option(pcb, SOF_KEEPALIVE) &&
           !(pcb->flags & (TF_ACK_DELAY | TF_ACK_NOW | TF_CLOSEPEND | TF_FIN | TF_NAGLEMEMERR));
}

/*
 * lwIP's timers, which walk all connections, see those only that wait for something. Those that do not are at
 * the end of the list, which is cut off meanwhile; lw_wake() and each segment take one out of there.
 * TIME_WAIT is looked through each second, which is often enough for a minute.
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
    if (++turn % (1000 / TCP_TMR_INTERVAL) >= 2) { /* the slow timer is each second call */
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

/* The listener for an address and port: one of just this address before one of all. There are few;
 * connections don't lengthen this. */
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

static int sum_is_right(struct pbuf *p, struct netif *inp) {
    IF__NETIF_CHECKSUM_ENABLED(inp, NETIF_CHECKSUM_CHECK_TCP) {
        return ip_chksum_pseudo(p, IP_PROTO_TCP, p->tot_len, ip_current_src_addr(), ip_current_dest_addr()) ==
               0;
    }
    return 1;
}

/*
 * Whether a segment ends the TIME_WAIT that it meets. A SYN above all that was received begins a new
 * connection (RFC 1122, 4.2.2.13; RFC 6191), and a reset that answers our acknowledgement of an older SYN
 * says that the peer has forgotten the old one. lwIP ignores both, and the peer's SYNs get an acknowledgement
 * of the old connection until TIME_WAIT is over.
 */
static int ends_time_wait(const struct tcp_pcb *pcb, const struct tcp_hdr *header, u8_t flags, struct pbuf *p,
                          struct netif *inp) {
    u32_t sequence = lwip_ntohl(header->seqno);
    int ends = (flags & TCP_RST)
                   ? sequence == pcb->rcv_nxt
                   : (flags & TCP_SYN) && !(flags & TCP_ACK) && TCP_SEQ_GEQ(sequence, pcb->rcv_nxt);
    return ends && sum_is_right(p, inp);
}

/* An acknowledgement of what was never sent, or of what is older than any window: the segment is a stranger's
   (RFC 9293, 3.10.7.4; RFC 5961, 5.2), which lwIP does not look at. */
static int acknowledges_nonsense(const struct tcp_pcb *pcb, const struct tcp_hdr *header) {
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
    } else { /* at most the one that has just been made */
        while (last->next != NULL) {
            last = last->next;
        }
        last->next = hidden;
        BACK_OF(hidden) = last;
    }
    hidden = NULL;
}

/* Whether a segment tells of data that arrived behind a hole (SACK, RFC 2018). */
static int tells_of_holes(const struct tcp_hdr *header, u16_t size) {
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

/* Whether the last option is only its kind: lwIP reads its length behind the header. */
static int options_cut(const struct pbuf *p, u16_t end) {
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
            return 0; /* where lwIP stops, too */
        }
        at = (u16_t)(at + size);
    }
    return 0;
}

/* What was so before an acknowledgement came. */
struct earlier {
    int fast;  /* a lost segment was sent again without waiting for the time-out */
    int holes; /* the acknowledgement tells of holes */
    tcpwnd_size_t window;
    u32_t acknowledged;
    s16_t waited;
};

/* NewReno (RFC 6582), which lwIP lacks: an acknowledgement that ends less than was under way when the loss
 * was seen says that the next segment is lost too. It is sent again at once; lwIP would leave fast recovery
 * and wait for the time-out, which is many round trips. A peer with SACK must also tell of a hole, for
 * otherwise frames had only changed their order. The time-out runs on meanwhile, so that many losses, one in
 * each round trip, don't take longer than it would. */
static void recover(struct tcp_pcb *pcb, const struct earlier *earlier) {
    u32_t end = (u32_t)(uintptr_t)pcb->ext_args[RECOVER].data;
    u32_t acked = pcb->lastack - earlier->acknowledged;
    tcpwnd_size_t left = earlier->window > acked ? (tcpwnd_size_t)(earlier->window - acked) : 0;
    if (!earlier->fast) {
        if (pcb->flags & TF_INFR) {
            pcb->ext_args[RECOVER].data = (void *)(uintptr_t)pcb->snd_nxt;
        }
        return;
    }
    if ((pcb->flags & (TF_INFR | TF_RTO)) || pcb->unacked == NULL || !TCP_SEQ_LT(pcb->lastack, end) ||
        ((pcb->flags & TF_SACK) && !earlier->holes) || tcp_rexmit(pcb) != ERR_OK) {
        return;
    }
    tcp_set_flags(pcb, TF_INFR);
    pcb->rtime = earlier->waited;
    pcb->dupacks = 3; /* those that come count on */
    /* What has left the network may be sent, and no more. */
    pcb->cwnd = LWIP_MAX((tcpwnd_size_t)(left + pcb->mss), (tcpwnd_size_t)(2 * pcb->mss));
    tcp_output(pcb);
}

/* What ip4.c and ip6.c call in place of tcp_input(): they are compiled with that name changed. */
void lw_tcp_input(struct pbuf *p, struct netif *inp) {
    const struct tcp_hdr *header = p->payload;
    struct tcp_pcb *pcb;
    enum tcp_state before;
    u8_t flags;
    struct earlier earlier;

    if (p->len < TCP_HLEN) {
        tcp_input(p, inp); /* which counts and drops it */
        return;
    }
    if (options_cut(p, TCPH_HDRLEN_BYTES(header))) {
        lw_counts.malformed++;
        pbuf_free(p);
        return;
    }
    flags = TCPH_FLAGS(header);
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
                pbuf_free(p);
                return;
            }
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
        lw_counts
            .no_room++; /* it is complete for the peer, which sends its data again until somebody accepts */
        pbuf_free(p);
        return;
    }
    to_front(pcb);
    if (pcb->state >= ESTABLISHED && pcb->state != TIME_WAIT && (flags & (TCP_ACK | TCP_RST)) == TCP_ACK &&
        acknowledges_nonsense(pcb, header) && sum_is_right(p, inp)) {
        tcp_ack_now(pcb);
        tcp_output(pcb);
        pbuf_free(p);
        return;
    }
    if (pcb->state >= ESTABLISHED && (flags & TCP_ACK) && lwip_ntohl(header->seqno) == pcb->snd_wl1 &&
        lwip_ntohl(header->ackno) == pcb->snd_wl2 &&
        (u32_t)SND_WND_SCALE(pcb, lwip_ntohs(header->wnd)) < pcb->snd_wnd) {
        pcb->snd_wl1--; /* a window that shrinks is one too (RFC 9293, 3.10.7.4); lwIP takes it from newer
                           segments only */
    }
    if (pcb->state == TIME_WAIT) {
        hidden = tcp_active_pcbs;
        tcp_active_pcbs = NULL;
        tcp_input(p, inp);
        unhide();
        return;
    }
    /* Several segments in one, as a device merges them: acknowledged at once, as every second one is. */
    if (pcb->state >= ESTABLISHED && p->tot_len > 2 * lw_wire_mss(pcb)) {
        tcp_set_flags(pcb, TF_ACK_DELAY);
    }
    before = pcb->state;
    earlier.fast = (pcb->flags & TF_INFR) != 0;
    earlier.holes = earlier.fast && tells_of_holes(header, p->len);
    earlier.window = pcb->cwnd;
    earlier.acknowledged = pcb->lastack;
    earlier.waited = pcb->rtime;
    current = pcb;
    tcp_input(p, inp);
    if (current != NULL && current->unsent == NULL) {
        /* a probe has taken the last byte; lwIP stumbles over nothing to probe with */
        current->persist_backoff = 0;
    }
    if (current != NULL && before >= ESTABLISHED && current->state >= ESTABLISHED) {
        recover(current, &earlier);
    }
    if (current != NULL && before < ESTABLISHED && current->state >= ESTABLISHED) {
        u32_t wire = lw_wire_mss(current); /* RFC 6928: ten segments to begin with; lwIP has three */
        u32_t first = LWIP_MIN(10 * wire, LWIP_MAX(2 * wire, 14600));
        current->cwnd = LWIP_MAX(current->cwnd, LWIP_MAX(first, current->mss));
    }
    current = NULL;
}

/* TIME_WAIT is the least of what is owed to a peer: beyond so many, the eighth that was silent longest goes
   (so that the walk to the list's end is paid for by many connections). */
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
