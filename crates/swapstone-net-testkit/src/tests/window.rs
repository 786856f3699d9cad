// SPDX-License-Identifier: MIT OR Apache-2.0
//! The receive window of the stack under test, and peers that exceed it.

use std::time::Duration;

use super::data::{connection, pattern};
use crate::conn::{Conn, Socket, drained, received};
use crate::context::{Context, Test};
use crate::wire::{ACK, FIN, PSH};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both(
        "receive: a full buffer closes the window, reading opens it",
        window_closes,
    ),
    Test::both(
        "receive: data beyond the window is not accepted",
        beyond_window,
    ),
    Test::both(
        "receive: an out-of-order segment is trimmed to the window",
        |context| early_beyond(context, 0),
    ),
    Test::both("receive: a FIN beyond the window is ignored", |context| {
        early_beyond(context, FIN)
    }),
    Test::both(
        "receive: out-of-order data beyond an early FIN is ignored",
        |context| beyond_early_end(context, true),
    ),
    Test::both("receive: data beyond an early FIN is ignored", |context| {
        beyond_early_end(context, false)
    }),
];

/// A connection with a small window; returns its size.
fn narrow(context: &Context) -> (World, Conn, Socket, u32) {
    let mut config = context.config();
    config.limits.receive_buffer = 4096;
    let mut world = context.world_with(&config, swapstone_net_link::Options::default());
    let (conn, socket) = connection(&mut world);
    // A byte before the window causes an ACK.
    let mut old = conn.clone();
    old.seq = conn.seq.wrapping_sub(1);
    world.send(&mut old, ACK, b"x");
    let answer = world.expect_of(&conn, "an acknowledgement", |_| true);
    assert_eq!(answer.ack, conn.seq);
    let window = u32::from(answer.window);
    assert!((1000..=16384).contains(&window), "{window}");
    (world, conn, socket, window)
}

/// Sends the bytes of `all` between two offsets in one segment.
fn part(world: &mut World, conn: &Conn, all: &[u8], from: u32, to: u32, flags: u8) {
    let mut of = conn.clone();
    of.seq = conn.seq.wrapping_add(from);
    world.send(&mut of, flags, &all[from as usize..to as usize]);
    world.run(Duration::from_millis(5));
}

/// Sends all bytes up to an offset in order.
fn fill(world: &mut World, conn: &Conn, all: &[u8], to: u32) {
    for from in (0..to).step_by(1000) {
        part(world, conn, all, from, to.min(from + 1000), ACK | PSH);
    }
    world.run(Duration::from_millis(500));
}

fn window_closes(context: &Context) {
    let mut config = context.config();
    config.limits.receive_buffer = 8192;
    let mut world = context.world_with(&config, swapstone_net_link::Options::default());
    let (mut conn, socket) = connection(&mut world);
    let all = pattern(40_000);
    let mut given = 0;
    // Send what fits while the window is open.
    loop {
        let part = &all[given..given + 1000];
        world.send(&mut conn, ACK | PSH, part);
        let answer = world.expect_of(&conn, "an acknowledgement", |_| true);
        given += answer.ack.wrapping_sub(conn.seq.wrapping_sub(1000)) as usize;
        conn.seq = answer.ack;
        if answer.window < 1000 {
            break;
        }
        assert!(given < 30_000, "the window never closes");
    }
    context.note(format!("{given} bytes fit in a buffer of 8192"));
    assert!((4096..=16384).contains(&given), "{given}");
    world.inbox.clear();
    let (got, _) = drained(&socket);
    assert_eq!(got, all[..given]);
    // The window update must reach the peer.
    world.expect_of(&conn, "a window update", |tcp| tcp.window >= 1000);
    world.give(&mut conn, b"more");
    assert_eq!(received(&socket), Some(Ok(b"more".to_vec())));
}

fn beyond_window(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let first = conn.seq;
    conn.seq = first.wrapping_add(1 << 20);
    world.send(&mut conn, ACK | PSH, b"far away");
    let answer = world.expect_of(&conn, "an acknowledgement of nothing new", |_| true);
    assert_eq!((answer.flags, answer.ack), (ACK, first));
    assert_eq!(received(&socket), None);
}

fn early_beyond(context: &Context, end: u8) {
    let (mut world, conn, socket, window) = narrow(context);
    let all = pattern(20_000);
    let whole = window + 400;
    part(
        &mut world,
        &conn,
        &all,
        window - 300,
        whole,
        ACK | PSH | end,
    );
    part(
        &mut world,
        &conn,
        &all,
        window - 600,
        window + 200,
        ACK | PSH,
    );
    fill(&mut world, &conn, &all, window - 200);
    let (mut got, ended) = drained(&socket);
    assert_eq!(ended, None, "the end was not in the window");
    assert!(
        got.len() >= window as usize - 200,
        "{} of {window}",
        got.len()
    );
    assert!(got.len() <= window as usize, "{} of {window}", got.len());
    // The rest is retransmitted once the window is open.
    world.run(Duration::from_secs(1));
    part(
        &mut world,
        &conn,
        &all,
        got.len() as u32,
        whole,
        ACK | PSH | FIN,
    );
    world.run(Duration::from_millis(500));
    let (rest, ended) = drained(&socket);
    got.extend(rest);
    assert_eq!(got, all[..whole as usize]);
    assert_eq!(ended, Some(Ok(())));
}

fn beyond_early_end(context: &Context, early: bool) {
    let (mut world, conn, socket, window) = narrow(context);
    let all = pattern(20_000);
    let (start, last) = (window - 1000, window - 1);
    part(&mut world, &conn, &all, window - 101, last, ACK | FIN);
    // The data beyond the FIN arrives out of order or in order.
    if early {
        part(&mut world, &conn, &all, start, window, ACK | PSH);
    }
    fill(&mut world, &conn, &all, start);
    part(&mut world, &conn, &all, start, window, ACK | PSH);
    world.run(Duration::from_millis(500));
    let (got, _) = drained(&socket);
    let count = got.len() as u32;
    assert!(count == last || count == window, "{count} of {window}");
    assert_eq!(got, all[..got.len()]);
}
