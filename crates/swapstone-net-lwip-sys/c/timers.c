// SPDX-License-Identifier: MIT OR Apache-2.0
/* The timers of TCP, for the connections that need them. */
#include "index.h"

/* Whether lwIP's timers have nothing to do for a connection until its next segment or operation. */
static int is_idle(const struct tcp_pcb *pcb) {
    return (pcb->state == ESTABLISHED || pcb->state == CLOSE_WAIT) && pcb->unsent == NULL &&
           pcb->unacked == NULL && LW_EARLY(pcb) == NULL && pcb->refused_data == NULL &&
           pcb->persist_backoff == 0 && pcb->poll == NULL && !ip_get_option(pcb, SOF_KEEPALIVE) &&
           !(pcb->flags & (TF_ACK_DELAY | TF_ACK_NOW | TF_CLOSEPEND | TF_FIN | TF_NAGLEMEMERR));
}

/*
 * Run lwIP's timers, which examine each connection of a list, for the connections that need them only. The
 * idle ones are at the end of the list, which is cut off during the call; lw_wake() and each segment move a
 * connection to the front. The list of TIME_WAIT is examined once a second, which suffices for its 60 s.
 */
void lw_tcp_tick(void) {
    static u8_t turn;
    struct tcp_pcb *waiting = tcp_tw_pcbs, *rest = lw_idle, *pcb, *last = NULL, *next;
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
        lw_order_before_timer(pcb);
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
    lw_idle = rest;
    if (last == NULL) {
        tcp_active_pcbs = rest;
    } else {
        last->next = rest;
    }
    if (rest != NULL) {
        BACK_OF(rest) = last;
    }
}
