// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fixes: corrections of lwIP's behaviour that can be switched off by name. `docs/upstream` has a
//! text for each.

use swapstone_net::fixes::Fix;

/// The fixes. The indices of those in C are those of `enum lw_fix` in `c/glue.h` of
/// `swapstone-net-lwip-sys`.
pub const FIXES: &[Fix] = &[
    Fix {
        name: "backlog-recycling",
        reason: "a SYN flood fills the backlog for 20 s; with it, the oldest half-open connection makes room",
    },
    Fix {
        name: "syn-with-fin",
        reason: "a SYN with a FIN opens a connection (RFC 9293, 3.10.7.2: the FIN can't be processed)",
    },
    Fix {
        name: "least-mss",
        reason: "an MSS option of 1 is accepted, so each byte is sent in a segment of its own",
    },
    Fix {
        name: "limited-transmit",
        reason: "the first two duplicate ACKs send nothing, so a loss in a small window waits for the timeout (RFC 3042)",
    },
    Fix {
        name: "large-segments",
        reason: "a segment for the device to split has at most 16 MSS; with it, as many as the device permits (43)",
    },
    Fix {
        name: "icmp-error-rate",
        reason: "each datagram to a closed port causes an ICMP error, without a limit (RFC 1812, RFC 4443)",
    },
    Fix {
        name: "handshake-timed",
        reason: "the SYN of a connect is not timed, so the first timeout is that without a sample (RFC 6298)",
    },
    Fix {
        name: "ack-after-read",
        reason: "data is acknowledged before the application can read it: two ACKs, the first with a smaller window",
    },
    Fix {
        name: "ack-filled-gap",
        reason: "data that fills a gap gets a delayed ACK, so the sender waits or retransmits (RFC 5681, 4.2)",
    },
    Fix {
        name: "reordering-window",
        reason: "a segment that is overtaken by 3 others is retransmitted as lost, and halves the window (RFC 8985)",
    },
    Fix {
        name: "simultaneous-open",
        reason: "a SYN in SYN-SENT is ignored, so two hosts that connect to each other at once don't (RFC 9293, 3.10.7.3)",
    },
    Fix {
        name: "retransmission-order",
        reason: "a fast retransmission that a closed window delays is queued behind later segments, and new data joins it",
    },
    Fix {
        name: "duplicate-ack-window",
        reason: "a duplicate ACK with a larger window is not counted, so a loss waits for the timeout (RFC 6675)",
    },
    Fix {
        name: "timestamps",
        reason: "no timestamps are sent, so the peer can't tell a late segment from a lost one (RFC 7323, RFC 3522)",
    },
];

/// The indices of the fixes that are in Rust: `swapstone_net::reordering`.
pub(crate) const REORDERING_WINDOW: usize = 9;
pub(crate) const DUPLICATE_ACK_WINDOW: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_indices_are_those_of_the_names() {
        assert_eq!(FIXES[REORDERING_WINDOW].name, "reordering-window");
        assert_eq!(FIXES[DUPLICATE_ACK_WINDOW].name, "duplicate-ack-window");
    }
}
