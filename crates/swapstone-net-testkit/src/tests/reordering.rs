// SPDX-License-Identifier: MIT OR Apache-2.0
//! Segments that are overtaken, but not lost.

use std::time::Duration;

use super::data::pattern;
use crate::conn::{Conn, Socket};
use crate::context::{Context, Test};
use crate::wire::{ACK, PSH, SYN, Tcp};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both(
        "reordering: an overtaken segment is not retransmitted",
        overtaken,
    ),
    Test::both("reordering: a lost segment is retransmitted", lost),
    Test::both(
        "reordering: duplicate ACKs with larger windows count if their SACK blocks grow",
        larger_windows,
    ),
    Test::both(
        "reordering: data that fills a gap is acknowledged at once",
        filled_gap,
    ),
];

const ROUND_TRIP: Duration = Duration::from_millis(8);
const MS: Duration = Duration::from_millis(1);

/// A connection whose handshake took a round trip, with data of the stack under test in transit, and
/// the number of its first byte.
fn sending(context: &Context) -> (World, Conn, Socket, u32) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    let answer = world.expect_of(&conn, "a SYN with ACK", |tcp| tcp.has(ACK));
    conn.ack = answer.seq.wrapping_add(1);
    world.run(ROUND_TRIP);
    world.send(&mut conn, ACK, b"");
    let (socket, _) = world.accept(&listener);
    assert!(socket.send(&pattern(20_000)).is_ok());
    let first = conn.ack;
    world.expect_of(&conn, "data", |tcp| {
        tcp.seq == first && !tcp.payload.is_empty()
    });
    world.run(MS);
    world.inbox.clear();
    for _ in 0..6 {
        world.send(&mut conn, ACK, b"");
    }
    (world, conn, socket, first)
}

fn is_again(conn: &Conn, tcp: &Tcp, first: u32) -> bool {
    conn.owns(tcp) && tcp.seq == first && !tcp.payload.is_empty()
}

fn overtaken(context: &Context) {
    let (mut world, mut conn, _socket, first) = sending(context);
    let before = world.statistics();
    world.run(2 * MS);
    conn.ack = first.wrapping_add(4000);
    world.send(&mut conn, ACK, b"");
    let again = |tcp: &Tcp| is_again(&conn, tcp, first);
    world.never_tcp(50 * MS, "an overtaken segment is sent again", again);
    // Six duplicate ACKs, also those that the filter held, and the last one, of one length.
    let after = world.statistics();
    let [frames, bytes] = [
        after.frames_in - before.frames_in,
        after.bytes_in - before.bytes_in,
    ];
    assert_eq!(frames, 7, "{before:?}, {after:?}");
    assert!(bytes >= 7 * 54 && bytes % 7 == 0, "{before:?}, {after:?}");
}

fn lost(context: &Context) {
    let (mut world, conn, _socket, first) = sending(context);
    let begun = world.now();
    world.expect_tcp("the first segment again", |tcp| is_again(&conn, tcp, first));
    let took = world.now() - begun;
    context.note(format!("retransmitted after {} us", took.as_micros()));
    assert!(took < 8 * MS, "{took:?}");
}

/// A receiver that enlarges its buffer announces a larger window with each segment that arrives.
fn larger_windows(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    let mut syn = conn.segment(SYN, b"");
    // An MSS of 1000, and SACK is permitted.
    syn.options = vec![2, 4, 0x03, 0xe8, 4, 2, 1, 1];
    conn.seq = conn.seq.wrapping_add(1);
    world.send_tcp(syn);
    conn.window = 30_000;
    world.finish_handshake(&mut conn);
    let (socket, _) = world.accept(&listener);
    assert!(socket.send(&pattern(20_000)).is_ok());
    let first = conn.ack;
    world.run(10 * MS);
    world.inbox.clear();
    let begun = world.now();
    for each in 1..=4 {
        conn.window += 100;
        let mut duplicate = conn.segment(ACK, b"");
        duplicate.options = vec![1, 1, 5, 10];
        let block = [
            first.wrapping_add(1000),
            first.wrapping_add(1000 + 200 * each),
        ];
        duplicate
            .options
            .extend(block.map(u32::to_be_bytes).concat());
        world.send_tcp(duplicate);
    }
    world.expect_tcp("the first segment again", |tcp| is_again(&conn, tcp, first));
    let took = world.now() - begun;
    assert!(took < 10 * MS, "{took:?}");
}

fn filled_gap(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let (mut conn, _socket) = world.connect(&listener, 5000);
    world.give(&mut conn, b"before");
    world.run(Duration::from_secs(1));
    let gap = conn.seq;
    conn.seq = gap.wrapping_add(500);
    world.send(&mut conn, ACK | PSH, &[2; 500]);
    world.run(20 * MS);
    world.inbox.clear();
    let end = conn.seq;
    conn.seq = gap;
    world.send(&mut conn, ACK | PSH, &[1; 500]);
    let begun = world.now();
    world.expect_of(&conn, "an ACK of both segments", |tcp| tcp.ack == end);
    let took = world.now() - begun;
    // The round trip of the link; a delayed ACK takes 250 ms.
    assert!(took <= 3 * MS, "{took:?}");
}
