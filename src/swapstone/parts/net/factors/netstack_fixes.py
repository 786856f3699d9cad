# SPDX-License-Identifier: MIT OR Apache-2.0
"""The fixes of the network stacks that can be switched off: the names, and what happens without them.

A test compares the names with those of the crates (``crates/swapstone-net-STACK/src/fixes.rs``).
"""

from __future__ import annotations

FIXES: dict[str, dict[str, str]] = {
    "lwip": {
        "backlog-recycling": "a SYN flood fills the backlog for 20 s",
        "syn-with-fin": "a SYN with a FIN opens a connection",
        "least-mss": "an MSS option of 1 is accepted",
        "limited-transmit": "the first two duplicate ACKs send nothing (RFC 3042)",
        "large-segments": "a segment for TSO has at most 16 MSS instead of up to 43",
        "icmp-error-rate": "ICMP errors have no rate limit",
        "handshake-timed": "the handshake is no round-trip sample (RFC 6298)",
        "ack-after-read": "data is acknowledged before the application can read it",
        "ack-filled-gap": "data that fills a gap gets a delayed ACK (RFC 5681)",
        "reordering-window": "a segment that 3 others overtake is retransmitted as lost (RFC 8985)",
        "simultaneous-open": "two hosts that connect to each other at once don't (RFC 9293)",
        "retransmission-order": "a fast retransmission that a closed window delays is queued in the wrong order",
        "duplicate-ack-window": "a duplicate ACK with a larger window is not counted (RFC 6675)",
        "timestamps": "no timestamps: a late segment costs the peer's sender its window (RFC 7323)",
    },
    "smoltcp": {
        "ack-beyond-window": "streams in both directions hang after a loss",
        "neighbor-from-segment": "a SYN from an unknown neighbor waits for address resolution",
        "solicitation-per-neighbor": "one ARP request or solicitation a second for all neighbors",
        "data-after-fin": "data after the peer's FIN is delivered",
        "syn-challenge-ack": "a SYN of an established connection gets no answer (RFC 5961)",
        "data-with-old-ack": "data with an older ACK is dropped",
        "early-fin": "a FIN behind a lost segment is forgotten",
        "rst-in-syn-received": "any RST in the window ends a connection in SYN-RECEIVED (RFC 5961)",
        "ipv6-extension-headers": "TCP and UDP behind destination options or an atomic fragment header are dropped",
        "path-mtu": "frag-needed and packet-too-big are ignored",
        "backlog-recycling": "a SYN flood fills the backlog for 60 s",
        "icmp-error-rate": "ICMP errors have no rate limit",
        "reordering-window": "a segment that 3 others overtake is retransmitted as lost (RFC 8985)",
        "duplicate-ack-window": "a duplicate ACK with a larger window is not counted (RFC 6675)",
        "closed-window-probe": "a window that closes while data is in flight is not probed (RFC 9293)",
        "timestamps": "no timestamps: a late segment costs the peer's sender its window (RFC 7323)",
    },
}
"""For each stack: its fixes in the order in which its server reports them, each with what happens without it."""

TEXTS = {"ack-beyond-window": "smoltcp-ack-beyond-window"}
"""The files in ``docs/upstream`` whose names differ from ``STACK-fixes``."""


def upstream_of(stack: str, fix: str) -> str:
    """Return the path of the text for the authors of a stack, below the repository's root.

    Args:
        stack: a name of `FIXES`.
        fix: one of its fixes.
    """
    return f"docs/upstream/{TEXTS.get(fix, f'{stack}-fixes')}.md"
