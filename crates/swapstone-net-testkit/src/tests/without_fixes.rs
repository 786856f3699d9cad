// SPDX-License-Identifier: MIT OR Apache-2.0
//! The check that each fix of a stack has a test that fails without it.

use crate::context::{Context, Test};

pub(super) const TESTS: &[Test] =
    &[Test::once("fix: each has a test that fails without it", each).within(120)];

/// For each stack and fix: a test that fails without it, and the IP version.
const WITHOUT: &[(&str, &str, &str)] = &[
    (
        "smoltcp",
        "ack-beyond-window",
        "fix: an ACK beyond the window is processed",
    ),
    (
        "smoltcp",
        "ack-beyond-window",
        "fix: the ACK of a zero-window probe is processed",
    ),
    (
        "smoltcp",
        "ack-beyond-window",
        "fix: an ACK with an old sequence number is processed",
    ),
    (
        "smoltcp",
        "neighbor-from-segment",
        "neighbors: a SYN is answered without address resolution",
    ),
    (
        "smoltcp",
        "solicitation-per-neighbor",
        "neighbors: 10 unknown servers are connected beside absent ones",
    ),
    (
        "smoltcp",
        "data-after-fin",
        "fix: data after a FIN is not delivered",
    ),
    (
        "smoltcp",
        "syn-challenge-ack",
        "fix: a SYN of an open connection is challenged",
    ),
    (
        "smoltcp",
        "data-with-old-ack",
        "fix: data with an older ACK is accepted",
    ),
    (
        "smoltcp",
        "early-fin",
        "fix: a FIN that arrives early is kept",
    ),
    (
        "smoltcp",
        "rst-in-syn-received",
        "fix: a RST in SYN-RECEIVED needs the exact number",
    ),
    (
        "smoltcp",
        "ipv6-extension-headers",
        "fix: segments behind extension headers are accepted",
    ),
    (
        "smoltcp",
        "path-mtu",
        "fix: segments are lowered to the path MTU",
    ),
    (
        "smoltcp",
        "backlog-recycling",
        "flood: after 1200 SYNs a request is answered within 50 ms",
    ),
    (
        "smoltcp",
        "icmp-error-rate",
        "flood: ICMP errors have a limited rate",
    ),
    (
        "lwip",
        "backlog-recycling",
        "flood: after 1200 SYNs a request is answered within 50 ms",
    ),
    (
        "lwip",
        "syn-with-fin",
        "fix: a SYN with a FIN opens nothing",
    ),
    ("lwip", "least-mss", "fix: an MSS of 1 is raised"),
    (
        "lwip",
        "limited-transmit",
        "fix: two duplicate ACKs send new segments",
    ),
    (
        "lwip",
        "large-segments",
        "fix: frames for TSO are as large as the device permits",
    ),
    (
        "lwip",
        "icmp-error-rate",
        "flood: ICMP errors have a limited rate",
    ),
    (
        "lwip",
        "handshake-timed",
        "fix: the handshake is the first round-trip sample",
    ),
    (
        "lwip",
        "ack-after-read",
        "fix: data is acknowledged once, after the application read it",
    ),
    (
        "lwip",
        "ack-filled-gap",
        "reordering: data that fills a gap is acknowledged at once",
    ),
    (
        "lwip",
        "reordering-window",
        "reordering: an overtaken segment is not retransmitted",
    ),
    (
        "smoltcp",
        "reordering-window",
        "reordering: an overtaken segment is not retransmitted",
    ),
    (
        "lwip",
        "simultaneous-open",
        "fix: two hosts connect to each other at once",
    ),
    (
        "lwip",
        "duplicate-ack-window",
        "reordering: duplicate ACKs with larger windows count if their SACK blocks grow",
    ),
    (
        "smoltcp",
        "duplicate-ack-window",
        "reordering: duplicate ACKs with larger windows count if their SACK blocks grow",
    ),
    (
        "lwip",
        "retransmission-order",
        "fix: a fast retransmission that waits for the window precedes later segments",
    ),
    (
        "lwip",
        "retransmission-order",
        "fix: nothing is added to a fast retransmission that waits for the window",
    ),
    (
        "smoltcp",
        "closed-window-probe",
        "fix: a window that closes while data is in flight is probed",
    ),
    (
        "lwip",
        "timestamps",
        "timestamps: the peer's time is echoed",
    ),
    (
        "lwip",
        "timestamps",
        "timestamps: a connect offers them, and sends more if the peer agrees",
    ),
    (
        "smoltcp",
        "timestamps",
        "timestamps: the peer's time is echoed",
    ),
    (
        "smoltcp",
        "timestamps",
        "timestamps: a connect offers them, and sends more if the peer agrees",
    ),
];

fn each(context: &Context) {
    let stack = context.backend.name;
    let here = || WITHOUT.iter().filter(|(name, ..)| *name == stack);
    for fix in context.backend.fixes {
        assert!(here().any(|(_, name, _)| *name == fix.name), "{}", fix.name);
    }
    for (_, fix, test) in here() {
        let families = super::named(test).expect("a test of that name").families;
        let output = context.part(test, families[0], &format!("without-{fix}"));
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{test} succeeds without {fix}");
        assert!(errors.contains("panicked at"), "{test}: {errors}");
    }
}
