// SPDX-License-Identifier: MIT OR Apache-2.0
//! Fixes for what waits until the peer opens its window: retransmissions and probes.

use std::time::Duration;

use swapstone_net::Shutdown;

use super::data::pattern;
use crate::conn::{Conn, Socket};
use crate::context::{Context, Test};
use crate::wire::{ACK, FIN, SYN};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::once(
        "fix: a fast retransmission that waits for the window precedes later segments",
        delayed_retransmission,
    ),
    Test::once(
        "fix: nothing is added to a fast retransmission that waits for the window",
        added_to_retransmission,
    ),
    Test::both(
        "fix: a window that closes while data is in flight is probed",
        closed_window,
    ),
];

/// A connection with two segments of this size in flight. The peer reports the first one as lost by
/// duplicate ACKs, and closes its window with them, so the retransmission has to wait.
fn waiting_retransmission(world: &mut World, port: u16, size: usize) -> (Conn, Socket) {
    let listener = world.listen(port, 4);
    let mut conn = Conn::new(5000, port);
    let mut syn = conn.segment(SYN, b"");
    // An MSS of 1000 and a window scale of 7.
    syn.options = vec![2, 4, 0x03, 0xe8, 3, 3, 7, 1];
    conn.seq = conn.seq.wrapping_add(1);
    world.send_tcp(syn);
    conn.window = 512;
    world.finish_handshake(&mut conn);
    let (socket, _) = world.accept(&listener);
    socket.set_nodelay(true).unwrap();
    for part in pattern(2 * size).chunks(size) {
        assert_eq!(socket.send(part), Ok(size));
        world.net.poll();
    }
    world.run(Duration::from_millis(10));
    conn.window = 0;
    for _ in 0..6 {
        world.send(&mut conn, ACK, b"");
        world.run(Duration::from_millis(1));
    }
    world.inbox.clear();
    (conn, socket)
}

/// Opens the peer's window: to 128 times this number.
fn open_window(world: &mut World, conn: &mut Conn, window: u16) {
    conn.window = window;
    world.send(conn, ACK, b"");
}

fn delayed_retransmission(context: &Context) {
    let mut world = context.world();
    // lwIP's timer passes on the lower 16 bits of the window, and fails an assertion if they are 0.
    for (port, window) in [(80, 512), (81, 100)] {
        let (mut conn, _socket) = waiting_retransmission(&mut world, port, 1000);
        // lwIP's timeout has passed when it probes the window.
        world.find(Duration::from_secs(3), |packet| {
            let tcp = packet.tcp().filter(|tcp| conn.owns(tcp))?;
            (tcp.payload.len() == 1).then_some(())
        });
        open_window(&mut world, &mut conn, window);
        assert_eq!(world.take(&mut conn, 2000), pattern(2000));
    }
}

fn added_to_retransmission(context: &Context) {
    let mut world = context.world();
    let all = pattern(1500);
    let (mut conn, socket) = waiting_retransmission(&mut world, 80, 500);
    assert_eq!(socket.send(&all[1000..]), Ok(500));
    world.run(Duration::from_millis(1));
    open_window(&mut world, &mut conn, 512);
    assert_eq!(world.take(&mut conn, 1500), all);

    let (mut conn, socket) = waiting_retransmission(&mut world, 81, 500);
    let first = conn.ack;
    socket.shutdown(Shutdown::Write).unwrap();
    world.run(Duration::from_millis(1));
    open_window(&mut world, &mut conn, 512);
    let last = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    let end = last.seq.wrapping_sub(first) as usize + last.payload.len();
    assert_eq!(end, 1000, "the FIN follows all data");
}

/// The window closes while a segment is in flight: by one ACK, and by duplicates that cause a fast
/// retransmission. No further ACK comes, as if the one that opens the window were lost.
fn closed_window(context: &Context) {
    let mut world = context.world();
    for (port, duplicates) in [(80, 0), (81, 4)] {
        let listener = world.listen(port, 4);
        let (mut conn, socket) = world.connect(&listener, 5000);
        assert_eq!(socket.send(&pattern(1000)), Ok(1000));
        world.expect_of(&conn, "data", |tcp| tcp.payload.len() == 1000);
        conn.window = 0;
        for _ in 0..=duplicates {
            world.send(&mut conn, ACK, b"");
            world.run(Duration::from_millis(1));
        }
        for time in 1..=3 {
            let found = world.find(Duration::from_secs(15), |packet| {
                let tcp = packet.tcp().filter(|tcp| conn.owns(tcp))?;
                (!tcp.payload.is_empty()).then_some(())
            });
            let sent = format!("{duplicates} duplicates: probe or retransmission {time}");
            assert!(found.is_some(), "{sent} did not come");
            world.run(Duration::from_millis(100));
            world.inbox.clear();
        }
        open_window(&mut world, &mut conn, 4000);
        assert_eq!(world.take(&mut conn, 1000), pattern(1000));
    }
}
