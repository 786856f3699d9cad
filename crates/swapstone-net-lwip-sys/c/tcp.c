// SPDX-License-Identifier: MIT OR Apache-2.0
/* TCP for Rust: sockets are identified by tokens, control blocks are opaque, and all callbacks call Rust. */
#include "glue.h"

#include "lwip/priv/tcp_priv.h"
#include <string.h>

#define TOKEN(argument) ((uintptr_t)(argument))

/* The least MSS of a peer, as Linux has it: TCP_MIN_SND_MSS. */
#define LEAST_MSS 48

/* Let lwIP build segments of several times the MSS, which the device splits (TSO). */
static void enlarge_segments(struct tcp_pcb *pcb) {
    u32_t wire, most = lw_segments(), cap = LW_FIX(LW_LARGE_SEGMENTS) ? 43 : 16;
    u32_t times, option;
    if (LW_FIX(LW_LEAST_MSS) && pcb->mss < LEAST_MSS) {
        pcb->mss = LEAST_MSS;
    }
    option = lw_timestamps_length(pcb);
    wire = pcb->mss > option ? pcb->mss - option : 1;
    lw_set_wire_mss(pcb, wire);
    if (most < 120 + 2 * wire) {
        return;
    }
    most = LWIP_MIN(most - 120, TCP_SND_BUF / 3);
    times = LWIP_MIN(most / wire, cap);
    if (times > 1) {
        pcb->mss = (u16_t)(times * wire + option); /* lwIP subtracts the option again */
    }
}

static err_t on_received(void *argument, struct tcp_pcb *pcb, struct pbuf *data, err_t error) {
    LWIP_UNUSED_ARG(error);
    if (argument == NULL) {
        if (data != NULL) {
            tcp_recved(pcb, data->tot_len);
            pbuf_free(data);
        }
        return ERR_OK;
    }
    if (data != NULL) {
        data = lw_pbuf_advance(data, 0);
        if (data == NULL) {
            return ERR_OK;
        }
    }
    lw_rust_received(TOKEN(argument), data);
    return ERR_OK;
}

static err_t on_sent(void *argument, struct tcp_pcb *pcb, u16_t size) {
    LWIP_UNUSED_ARG(pcb);
    if (argument != NULL) {
        lw_rust_sent(TOKEN(argument), size);
    }
    return ERR_OK;
}

static void on_error(void *argument, err_t error) {
    if (argument != NULL) {
        lw_rust_failed(TOKEN(argument), error);
    }
}

/* Called for closed sockets by each slow timer. */
static err_t on_poll(void *argument, struct tcp_pcb *pcb) {
    if (argument != NULL && lw_rust_overdue(TOKEN(argument))) {
        tcp_abort(pcb);
        return ERR_ABRT;
    }
    return ERR_OK;
}

static err_t on_accept(void *argument, struct tcp_pcb *pcb, err_t error) {
    if (pcb == NULL || error != ERR_OK || argument == NULL) {
        return ERR_VAL;
    }
    enlarge_segments(pcb);
    lw_rust_accepted(TOKEN(argument));
    return ERR_OK;
}

static err_t on_connected(void *argument, struct tcp_pcb *pcb, err_t error) {
    LWIP_UNUSED_ARG(error);
    enlarge_segments(pcb);
    if (argument != NULL) {
        lw_rust_connected(TOKEN(argument));
    }
    return ERR_OK;
}

/* The accept callback of a connection that both sides have opened. */
err_t lw_simultaneously_open(void *argument, struct tcp_pcb *pcb, err_t error) {
    if (pcb == NULL || error != ERR_OK) {
        return ERR_VAL;
    }
    pcb->listener = NULL;
    return on_connected(argument, pcb, error);
}

static void attach(struct tcp_pcb *pcb, uintptr_t token) {
    lw_watch(pcb);
    tcp_arg(pcb, (void *)token);
    tcp_recv(pcb, on_received);
    tcp_sent(pcb, on_sent);
    tcp_err(pcb, on_error);
}

/* A listener has answered a SYN: the new connection gets its own token. */
void lw_half_open(struct tcp_pcb *pcb) {
    uintptr_t token = lw_rust_half_open((uintptr_t)pcb->listener->callback_arg, pcb);
    attach(pcb, token);
}

static struct tcp_pcb *make(uintptr_t token, const struct lw_address *local, u16_t port) {
    struct tcp_pcb *pcb = tcp_new_ip_type(IPADDR_TYPE_ANY);
    if (pcb != NULL) {
        attach(pcb, token);
        lw_to_ip(&pcb->local_ip, local);
        pcb->local_port = port;
    }
    return pcb;
}

struct tcp_pcb *lw_tcp_listen(uintptr_t token, const struct lw_address *local, u16_t port) {
    struct tcp_pcb *pcb = make(token, local, port);
    struct tcp_pcb *listener;
    if (pcb == NULL) {
        return NULL;
    }
    tcp_arg(pcb, NULL); /* lwIP replaces this control block by a smaller one */
    listener = tcp_listen_with_backlog(pcb, 0);
    if (listener == NULL) {
        tcp_abort(pcb);
        return NULL;
    }
    tcp_arg(listener, (void *)token);
    tcp_accept(listener, on_accept);
    return listener;
}

/* Start to connect; returns NULL if memory is exhausted. */
struct tcp_pcb *lw_tcp_connect(uintptr_t token, const struct lw_address *local, u16_t local_port,
                               const struct lw_address *remote, u16_t port) {
    struct tcp_pcb *pcb = make(token, local, local_port);
    ip_addr_t to;
    if (pcb == NULL) {
        return NULL;
    }
    lw_to_ip(&to, remote);
    if (tcp_connect(pcb, &to, port, on_connected) != ERR_OK) {
        tcp_arg(pcb, NULL);
        tcp_err(pcb, NULL);
        tcp_abort(pcb);
        return NULL;
    }
    return pcb;
}

int lw_tcp_exists(const struct lw_address *local, u16_t local_port, const struct lw_address *remote,
                  u16_t port) {
    ip_addr_t one, other;
    lw_to_ip(&one, local);
    lw_to_ip(&other, remote);
    return lw_find(&one, local_port, &other, port) != NULL;
}

/* Queue bytes for sending; returns their number, 0 if there is no room. tcp_write() queues all or nothing, so
 * decreasing sizes are tried. */
size_t lw_tcp_write(struct tcp_pcb *pcb, const void *bytes, size_t size, int copy, int more) {
    size_t fits = LWIP_MIN(LWIP_MIN(size, tcp_sndbuf(pcb)), 0xffff);
    u8_t flags = (u8_t)((copy ? TCP_WRITE_FLAG_COPY : 0) | (more || fits < size ? TCP_WRITE_FLAG_MORE : 0));
    int tries;
    u16_t option = lw_timestamps_length(pcb);
    lw_wake(pcb);
    lw_order_before_append(pcb);
    if (option != 0 && pcb->snd_wnd_max >= 2 && pcb->snd_wnd_max < 2u * (option + 1)) {
        /* half of that window has no room for timestamps and a byte: tcp_write() computes with a size below 0 */
        pcb->snd_wnd_max = 2 * (option + 1);
    }
    for (tries = 0; tries < 4 && fits > 0; tries++, fits /= 4) {
        err_t error = tcp_write(pcb, bytes, (u16_t)fits, flags);
        if (error == ERR_OK) {
            /* tcp_write() limits segments to half of the largest window of the peer, but not if that is 0 or
               1. A queued segment above that limit fails an assertion when the window opens, so a window of 1
               is treated like none. */
            if (pcb->snd_wnd_max < 2) {
                pcb->snd_wnd_max = 2 * (tcpwnd_size_t)pcb->mss;
            }
            return fits;
        }
        if (error != ERR_MEM) {
            return 0;
        }
    }
    return 0;
}

/* Send queued data. Nagle's algorithm delays less than one segment on the wire, not less than one of lwIP's
 * larger segments. */
void lw_tcp_output(struct tcp_pcb *pcb) {
    int full = !(pcb->flags & TF_NODELAY) && pcb->unsent != NULL && pcb->unsent->len >= lw_wire_mss(pcb);
    lw_wake(pcb);
    if (full) {
        tcp_set_flags(pcb, TF_NODELAY);
    }
    tcp_output(pcb);
    if (full) {
        tcp_clear_flags(pcb, TF_NODELAY);
    }
}

size_t lw_tcp_room(const struct tcp_pcb *pcb) {
    return pcb->snd_queuelen < TCP_SND_QUEUELEN ? pcb->snd_buf : 0;
}

void lw_tcp_consumed(struct tcp_pcb *pcb, size_t size) {
    lw_wake(pcb);
    while (size > 0 && pcb->state != TIME_WAIT) {
        u16_t some = (u16_t)LWIP_MIN(size, 0xffff);
        tcp_recved(pcb, some);
        size -= some;
    }
    lw_acknowledge(pcb);
}

int lw_tcp_end(struct tcp_pcb *pcb) {
    lw_wake(pcb);
    lw_order_before_append(pcb);
    return tcp_shutdown(pcb, 0, 1);
}

/* Close in order: the control block stays until the connection has ended, and then calls Rust. */
void lw_tcp_close(struct tcp_pcb *pcb) {
    lw_wake(pcb);
    lw_order_before_append(pcb);
    pcb->tmr = tcp_ticks; /* lwIP measures the timeouts of closing states from the last received segment */
    tcp_recv(pcb, on_received);
    tcp_err(pcb, NULL);
    tcp_poll(pcb, on_poll, 1);
    tcp_close(pcb);
}

void lw_tcp_close_listener(struct tcp_pcb *pcb) {
    tcp_arg(pcb, NULL);
    tcp_close(pcb);
}

/* Reset a connection; no callback follows. */
void lw_tcp_abort(struct tcp_pcb *pcb) {
    tcp_arg(pcb, NULL);
    tcp_err(pcb, NULL);
    tcp_abort(pcb);
}

/* Detach a connection in TIME_WAIT from its socket. */
void lw_tcp_forget(struct tcp_pcb *pcb) {
    tcp_arg(pcb, NULL);
}

void lw_tcp_nodelay(struct tcp_pcb *pcb, int on) {
    if (on) {
        tcp_nagle_disable(pcb);
    } else {
        tcp_nagle_enable(pcb);
    }
}

void lw_tcp_keep_alive(struct tcp_pcb *pcb, u32_t after_ms) {
    lw_wake(pcb);
    if (after_ms == 0) {
        ip_reset_option(pcb, SOF_KEEPALIVE);
    } else {
        pcb->keep_idle = after_ms;
        pcb->keep_intvl = LWIP_MIN(after_ms, 75000);
        pcb->keep_cnt = 9;
        ip_set_option(pcb, SOF_KEEPALIVE);
    }
}

void lw_tcp_names(const struct tcp_pcb *pcb, struct lw_address *local, u16_t *local_port,
                  struct lw_address *remote, u16_t *port) {
    lw_from_ip(local, &pcb->local_ip);
    *local_port = pcb->local_port;
    lw_from_ip(remote, &pcb->remote_ip);
    *port = pcb->remote_port;
}

int lw_tcp_established(const struct tcp_pcb *pcb) {
    return pcb->state >= ESTABLISHED;
}

int lw_tcp_running(void) {
    return lw_counts.active + lw_counts.waiting > 0;
}

/* Retry to send after the device's transmit queue was full. */
void lw_tcp_retry(void) {
    tcp_txnow();
}

static void drop_all(struct tcp_pcb **list) {
    while (*list != NULL) {
        struct tcp_pcb *pcb = *list;
        tcp_arg(pcb, NULL);
        if (pcb->state == LISTEN) {
            tcp_close(pcb);
        } else {
            tcp_err(pcb, NULL);
            tcp_abandon(pcb, 0);
        }
    }
}

void lw_tcp_stop(void) {
    drop_all(&tcp_active_pcbs);
    drop_all(&tcp_tw_pcbs);
    drop_all(&tcp_listen_pcbs.pcbs);
}
