// SPDX-License-Identifier: MIT OR Apache-2.0
/* ACKs of received data that wait until the application has read it. */
#include "index.h"

/* Connections whose received data is acknowledged by the next poll, or when the application has read it. */
#define OWED 64
static struct tcp_pcb *owed[OWED];
static size_t owed_count;

void lw_forget_owed(const struct tcp_pcb *pcb) {
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
    lw_forget_owed(pcb);
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

/* Delay the ACK of received data until the application had the opportunity to read it. */
void lw_owe_ack(struct tcp_pcb *pcb) {
    if (pcb->state < ESTABLISHED || pcb->state == TIME_WAIT || !(pcb->flags & TF_ACK_DELAY)) {
        return;
    }
    lw_forget_owed(pcb);
    if (owed_count < OWED) {
        owed[owed_count++] = pcb;
    } else {
        tcp_ack_now(pcb);
        tcp_output(pcb);
    }
}

void lw_forget_all_owed(void) {
    owed_count = 0;
}
