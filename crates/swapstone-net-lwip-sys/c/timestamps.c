// SPDX-License-Identifier: MIT OR Apache-2.0
/*
 * The timestamps option (RFC 7323), which lwIP can send and echo. A sender that gets its own time back detects
 * that a segment was late, not lost, and takes its larger window back (RFC 3522). lwIP makes no use of the
 * peer's echo, and does not drop segments by their timestamps (PAWS).
 */
#include "glue.h"

#include "lwip/priv/tcp_priv.h"
#include "lwip/sys.h"
#include <string.h>

u8_t lw_timestamp_flag;

void lw_timestamps_start(void) {
    lw_timestamp_flag = LW_FIX(LW_TIMESTAMPS) ? TF_SEG_OPTS_TS : 0;
}

/* The length of the option in each segment of a connection. `pcb` may be a listener, which is shorter. */
u16_t lw_timestamps_length(const struct tcp_pcb *pcb) {
    return pcb != NULL && pcb->state != LISTEN && lw_timestamp_flag != 0 && (pcb->flags & TF_TIMESTAMP)
               ? LWIP_TCP_OPT_LEN_TS_OUT
               : 0;
}

/* The length of the options that lwIP adds to a segment, or, for those of connections with timestamps that lwIP
 * gives none: window probes, keep-alives, and resets. A peer may drop them without it (RFC 7323, 3.2). */
u8_t lw_options_length(const struct tcp_pcb *pcb, u8_t length) {
    return length != 0 ? length : (u8_t)lw_timestamps_length(pcb);
}

/* Called for each segment that is sent, with the end of its options. One before snd_nxt is a retransmission. */
u32_t *lw_segment_out(const struct tcp_pcb *pcb, const struct tcp_hdr *header, u16_t size, u32_t *options) {
    int carries = size > TCPH_HDRLEN_BYTES(header) || (TCPH_FLAGS(header) & (TCP_SYN | TCP_FIN));
    const u32_t *end = (const u32_t *)(const void *)header + TCPH_HDRLEN(header);
    if (pcb != NULL && carries && !(TCPH_FLAGS(header) & TCP_RST) &&
        TCP_SEQ_LT(lwip_ntohl(header->seqno), pcb->snd_nxt)) {
        lw_counts.retransmitted++;
    }
    if (options + 3 == end && lw_timestamps_length(pcb) != 0) {
        /* lwIP writes the byte of a window probe where options would be */
        memmove(options + 3, options, size - TCPH_HDRLEN_BYTES(header));
        options[0] = PP_HTONL(0x0101080a);
        options[1] = lwip_htonl(sys_now());
        options[2] = lwip_htonl(pcb->ts_recent);
        options += 3;
    }
    return options;
}
