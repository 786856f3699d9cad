// SPDX-License-Identifier: MIT OR Apache-2.0
/* Loss recovery: what lwIP's lacks. */
#include "index.h"

#define SEQUENCE(seg) lwip_ntohl((seg)->tcphdr->seqno)

/*
 * lwIP moves the segment of a fast retransmission to the queue of unsent segments, to send it at once. If the
 * peer's window or a full device prevents that, it stays there, although later segments are unacknowledged:
 *
 * - The retransmission timer puts all unacknowledged segments before the unsent ones. The first one is then not
 *   the one that the peer lacks, and the congestion window of one segment permits none: the connection hangs. If
 *   the peer's window was closed, the persist timer runs, and goes on when the window opens. It splits the first
 *   segment at the lower 16 bits of the window, which fails an assertion for a window of 65536.
 * - New data, or a FIN, is added to the last unsent segment: it gets the sequence numbers of a later segment.
 *
 * So the segment is put back among the unacknowledged ones before either.
 */
static int may_hold(const struct tcp_pcb *pcb) {
    return LW_FIX(LW_RETRANSMISSION_ORDER) && pcb->unsent != NULL && pcb->unacked != NULL &&
           TCP_SEQ_LT(SEQUENCE(pcb->unsent), pcb->snd_nxt);
}

static void put_back(struct tcp_pcb *pcb) {
    struct tcp_seg **at = &pcb->unacked;
    while (*at != NULL && pcb->unsent != NULL) {
        struct tcp_seg *held = pcb->unsent;
        if (TCP_SEQ_LT(SEQUENCE(held), SEQUENCE(*at))) {
            pcb->unsent = held->next;
            held->next = *at;
            *at = held;
        }
        at = &(*at)->next;
    }
}

void lw_order_before_append(struct tcp_pcb *pcb) {
    const struct tcp_seg *last = pcb->unsent;
    if (!may_hold(pcb)) {
        return;
    }
    while (last->next != NULL) {
        last = last->next;
    }
    if (TCP_SEQ_LT(SEQUENCE(last), pcb->snd_nxt)) {
        put_back(pcb);
    }
}

void lw_order_before_timer(struct tcp_pcb *pcb) {
    if (may_hold(pcb) && pcb->rtime >= 0 && pcb->rtime + 1 >= pcb->rto) {
        put_back(pcb);
    }
}

/* Whether a segment has a SACK option (RFC 2018). */
int lw_has_sack_option(const struct tcp_hdr *header, u16_t size) {
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

/* NewReno (RFC 6582), which lwIP lacks: a partial ACK during fast recovery means that the next segment is
 * lost, too, and it is retransmitted at once. lwIP would leave fast recovery and wait for the retransmission
 * timeout. A peer that supports SACK must also report a hole; otherwise segments were only reordered. The
 * retransmission timer is not restarted, so that one loss in each round trip does not take longer than the
 * timeout. */
void lw_recover(struct tcp_pcb *pcb, const struct lw_before_ack *before) {
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

/* RFC 3042: the first two duplicate ACKs each permit a new segment beyond the congestion window. */
void lw_limited_transmit(struct tcp_pcb *pcb, u8_t dupacks) {
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
void lw_time_handshake(struct tcp_pcb *pcb) {
    s16_t ticks = (s16_t)LWIP_MAX(1, (s32_t)(tcp_ticks - pcb->rttest));
    if (pcb->rttest == 0) {
        return; /* the SYN was retransmitted */
    }
    pcb->sa = (s16_t)(8 * ticks);
    pcb->sv = (s16_t)(2 * ticks);
    pcb->rto = (s16_t)((pcb->sa >> 3) + pcb->sv);
    pcb->rttest = 0;
}
