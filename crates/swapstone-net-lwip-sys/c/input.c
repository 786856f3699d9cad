// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * Received segments of TCP, before and after lwIP processes them. The connection of a segment is moved to the
 * front of its list, and the other lists are hidden, so that each search of lwIP ends at its first step.
 */
#include "index.h"

#include "lwip/inet_chksum.h"
#include "lwip/stats.h"

static struct tcp_pcb *hidden; /* the list of active connections while it is hidden from lwIP */

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

/* Remove the oldest half-open connection of a listener without a RST. Returns whether there is room then. */
static int recycle(uintptr_t listener) {
    struct tcp_pcb *oldest = LW_FIX(LW_BACKLOG_RECYCLING) ? lw_rust_oldest(listener) : NULL;
    if (oldest == NULL) {
        return 0;
    }
    tcp_abandon(oldest, 0);
    return lw_rust_room(listener);
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
    struct lw_before_ack before;
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
        struct tcp_pcb *listener = lw_find_listener(ip_current_dest_addr(), lwip_ntohs(header->dest));
        if (listener != NULL) {
            lw_to_front(listener);
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
    lw_to_front(pcb);
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
    before.sack = before.fast_recovery && lw_has_sack_option(header, p->len);
    before.window = pcb->cwnd;
    before.lastack = pcb->lastack;
    before.rtime = pcb->rtime;
    gap = LW_FIX(LW_ACK_FILLED_GAP) && pcb->state >= ESTABLISHED && LW_EARLY(pcb) != NULL;
    expected = pcb->rcv_nxt;
    lw_current = pcb;
    tcp_input(p, inp);
    if (lw_current != NULL && both && lw_current->state == SYN_SENT) {
        open_simultaneously(lw_current, sequence, window);
    }
    if (lw_current != NULL && lw_current->unsent == NULL) {
        /* a zero-window probe has sent the last byte; lwIP fails an assertion without one */
        lw_current->persist_backoff = 0;
    }
    if (lw_current != NULL && former_state >= ESTABLISHED && lw_current->state >= ESTABLISHED) {
        lw_recover(lw_current, &before);
        if (LW_FIX(LW_LIMITED_TRANSMIT)) {
            lw_limited_transmit(lw_current, dupacks);
        }
    }
    if (lw_current != NULL && gap && lw_current->rcv_nxt != expected) {
        /* RFC 5681, 4.2: a segment that fills a gap, or a part of it, is acknowledged at once */
        tcp_ack_now(lw_current);
        tcp_output(lw_current);
    } else if (lw_current != NULL && owes) {
        lw_owe_ack(lw_current);
    }
    if (lw_current != NULL && LW_FIX(LW_HANDSHAKE_TIMED) && former_state == SYN_SENT &&
        lw_current->state == ESTABLISHED) {
        lw_time_handshake(lw_current);
    }
    if (lw_current != NULL && former_state < ESTABLISHED && lw_current->state >= ESTABLISHED) {
        u32_t wire = lw_wire_mss(lw_current); /* RFC 6928: ten segments to begin with; lwIP has three */
        u32_t first = LWIP_MIN(10 * wire, LWIP_MAX(2 * wire, 14600));
        lw_current->cwnd = LWIP_MAX(lw_current->cwnd, LWIP_MAX(first, lw_current->mss));
    }
    lw_current = NULL;
}
