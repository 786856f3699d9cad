// SPDX-License-Identifier: MIT OR Apache-2.0
//! The fixes: corrections of smoltcp's behaviour in this crate that can be switched off by name.
//! `docs/upstream` has a text for each.

use swapstone_net::fixes::Fix;

/// The fixes, in the order of their introduction. The constants below are their indices.
pub const FIXES: &[Fix] = &[
    Fix {
        name: "ack-beyond-window",
        reason: "an ACK outside the last advertised window is dropped, so two-way streams hang after a loss",
    },
    Fix {
        name: "neighbor-from-segment",
        reason: "a SYN from an unknown neighbor waits for ARP, of which there is one request a second for all",
    },
    Fix {
        name: "solicitation-per-neighbor",
        reason: "absent neighbors use up the one ARP request or solicitation a second, so a connect to another waits",
    },
    Fix {
        name: "data-after-fin",
        reason: "data after the peer's FIN is delivered to the application",
    },
    Fix {
        name: "syn-challenge-ack",
        reason: "a SYN of an established connection gets no answer, so a restarted peer can't connect (RFC 5961)",
    },
    Fix {
        name: "data-with-old-ack",
        reason: "data is dropped if its ACK is older than the last one (RFC 9293, 3.10.7.4)",
    },
    Fix {
        name: "early-fin",
        reason: "a FIN behind a lost segment is forgotten and has to be retransmitted",
    },
    Fix {
        name: "rst-in-syn-received",
        reason: "any RST in the window ends a connection in SYN-RECEIVED (RFC 5961)",
    },
    Fix {
        name: "ipv6-extension-headers",
        reason: "TCP and UDP behind destination options or an atomic fragment header are dropped (RFC 8200, 6946)",
    },
    Fix {
        name: "path-mtu",
        reason: "frag-needed and packet-too-big are ignored, so large segments never arrive (RFC 1191, 8201)",
    },
    Fix {
        name: "backlog-recycling",
        reason: "a SYN flood fills the backlog for 60 s; with it, the oldest half-open connection makes room",
    },
    Fix {
        name: "icmp-error-rate",
        reason: "each datagram to a closed port causes an ICMP error, without a limit (RFC 1812, RFC 4443)",
    },
    Fix {
        name: "reordering-window",
        reason: "a segment that is overtaken by 3 others is retransmitted as lost, and halves the window (RFC 8985)",
    },
    Fix {
        name: "duplicate-ack-window",
        reason: "a duplicate ACK with a larger window is not counted, so a loss waits for the timeout (RFC 6675)",
    },
    Fix {
        name: "closed-window-probe",
        reason: "a window that closes while data is in flight is not probed after the timeout (RFC 9293, 3.8.6.1)",
    },
    Fix {
        name: "timestamps",
        reason: "no timestamps are sent, so the peer can't tell a late segment from a lost one (RFC 7323, RFC 3522)",
    },
];

pub(crate) const ACK_BEYOND_WINDOW: usize = 0;
pub(crate) const NEIGHBOR_FROM_SEGMENT: usize = 1;
pub(crate) const SOLICITATION_PER_NEIGHBOR: usize = 2;
pub(crate) const DATA_AFTER_FIN: usize = 3;
pub(crate) const SYN_CHALLENGE_ACK: usize = 4;
pub(crate) const DATA_WITH_OLD_ACK: usize = 5;
pub(crate) const EARLY_FIN: usize = 6;
pub(crate) const RST_IN_SYN_RECEIVED: usize = 7;
pub(crate) const IPV6_EXTENSION_HEADERS: usize = 8;
pub(crate) const PATH_MTU: usize = 9;
pub(crate) const BACKLOG_RECYCLING: usize = 10;
pub(crate) const ICMP_ERROR_RATE: usize = 11;
pub(crate) const REORDERING_WINDOW: usize = 12;
pub(crate) const DUPLICATE_ACK_WINDOW: usize = 13;
pub(crate) const CLOSED_WINDOW_PROBE: usize = 14;
pub(crate) const TIMESTAMPS: usize = 15;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_are_those_of_the_names() {
        let of = |name| FIXES.iter().position(|fix| fix.name == name);
        let expected = [
            ("ack-beyond-window", ACK_BEYOND_WINDOW),
            ("neighbor-from-segment", NEIGHBOR_FROM_SEGMENT),
            ("solicitation-per-neighbor", SOLICITATION_PER_NEIGHBOR),
            ("data-after-fin", DATA_AFTER_FIN),
            ("syn-challenge-ack", SYN_CHALLENGE_ACK),
            ("data-with-old-ack", DATA_WITH_OLD_ACK),
            ("early-fin", EARLY_FIN),
            ("rst-in-syn-received", RST_IN_SYN_RECEIVED),
            ("ipv6-extension-headers", IPV6_EXTENSION_HEADERS),
            ("path-mtu", PATH_MTU),
            ("backlog-recycling", BACKLOG_RECYCLING),
            ("icmp-error-rate", ICMP_ERROR_RATE),
            ("reordering-window", REORDERING_WINDOW),
            ("duplicate-ack-window", DUPLICATE_ACK_WINDOW),
            ("closed-window-probe", CLOSED_WINDOW_PROBE),
            ("timestamps", TIMESTAMPS),
        ];
        assert_eq!(FIXES.len(), expected.len());
        for (name, index) in expected {
            assert_eq!(of(name), Some(index), "{name}");
        }
    }
}
