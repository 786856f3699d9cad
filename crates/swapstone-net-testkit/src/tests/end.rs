// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection termination: half-close, RST, dropped sockets.

use std::net::Ipv4Addr;
use std::time::Duration;

use swapstone_net::error::{RecvError, SendError, SocketError};
use swapstone_net::{Readiness, Shutdown};

use super::data::{connection, pattern};
use crate::conn::{drained, received};
use crate::context::{Context, Test};
use crate::wire::{ACK, Arp, Body, FIN, PSH, Packet, RST, SYN};
use crate::world::SUBJECT_V4;

pub(super) const TESTS: &[Test] = &[
    Test::both(
        "close: received data is read before the end",
        data_before_end,
    ),
    Test::both(
        "close: received data is read before a RST",
        data_before_reset,
    ),
    Test::both(
        "close: a shutdown of the peer leaves the local direction open",
        peer_half,
    ),
    Test::both(
        "close: a local shutdown leaves the peer's direction open",
        our_half,
    ),
    Test::both(
        "close: after a shutdown for reading, received data is discarded",
        no_more_reading,
    ),
    Test::both(
        "close: data sent before a shutdown is delivered first",
        shutdown_delivers,
    ),
    Test::both(
        "close: a request with a FIN gets a response",
        request_with_end,
    ),
    Test::both(
        "close: a FIN on retransmitted data is processed",
        end_with_old_data,
    ),
    Test::both("close: a dropped socket delivers its data", drop_delivers),
    Test::both(
        "close: a dropped socket's bytes are sent again if they are lost",
        drop_resends,
    ),
    Test::both(
        "close: a closed socket with a silent peer times out",
        orphan_ends,
    ),
    Test::both(
        "close: a last ACK without a resolved neighbor holds no socket for ever",
        last_word_unsent,
    ),
    Test::both(
        "close: a closed connection's FIN without answer ends",
        fin_wait_ends,
    ),
    Test::both("close: unread data causes a RST", unread_resets),
    Test::both(
        "close: data for a closed socket causes a RST",
        late_data_resets,
    ),
    Test::both("close: simultaneous close", simultaneous),
    Test::both("reset: it is reported to reader and writer", reset_told),
    Test::both(
        "reset: beyond the window it is ignored (RFC 5961)",
        reset_blind,
    ),
    Test::both(
        "reset: in the window but not exact it gets a challenge ACK (RFC 5961)",
        reset_inexact,
    ),
    Test::both("linger: zero resets", linger_zero),
    Test::both("linger: a timeout resets undelivered data", linger_time),
    Test::both(
        "keep-alive: a silent peer gets probes and times out",
        keep_alive,
    ),
    Test::both(
        "keep-alive: a peer that responds keeps the connection",
        keep_alive_answered,
    ),
    Test::both(
        "socket: operations without a connection are errors",
        not_connected,
    ),
];

fn data_before_end(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let all = pattern(3000);
    for part in all.chunks(1000) {
        world.send(&mut conn, ACK | PSH, part);
    }
    world.send(&mut conn, ACK | FIN, b"");
    let seq = conn.seq;
    world.expect_of(&conn, "an acknowledgement", |tcp| tcp.ack == seq);
    assert_eq!(drained(&socket), (all, Some(Ok(()))));
    assert_eq!(received(&socket), Some(Ok(Vec::new())), "the end stays");
}

fn data_before_reset(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let all = pattern(3000);
    for part in all.chunks(1000) {
        world.send(&mut conn, ACK | PSH, part);
    }
    world.send(&mut conn, RST | ACK, b"");
    world.run(Duration::from_millis(100));
    assert_eq!(drained(&socket), (all, Some(Err(RecvError::Reset))));
    assert_eq!(received(&socket), Some(Err(RecvError::Reset)), "it stays");
}

fn peer_half(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    world.send(&mut conn, ACK | FIN, b"");
    let seq = conn.seq;
    world.expect_of(&conn, "an acknowledgement", |tcp| tcp.ack == seq);
    assert_eq!(received(&socket), Some(Ok(Vec::new())));
    assert!(!socket.readiness().contains(Readiness::CLOSED));
    let all = pattern(10_000);
    let mut sent = 0;
    let mut got = Vec::new();
    while got.len() < all.len() {
        sent += match socket.send(&all[sent..]) {
            Err(SendError::WouldBlock) => 0,
            result => result.unwrap(),
        };
        got.extend(world.take(&mut conn, 1));
    }
    assert_eq!(got, all);
    drop(socket);
    world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
}

fn our_half(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(socket.send(b"x"), Err(SendError::Closed));
    let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    conn.ack = fin.seq.wrapping_add(1);
    world.send(&mut conn, ACK, b"");
    // Longer than any timer of a closing connection, because the owner still reads.
    for _ in 0..10 {
        world.run(Duration::from_secs(60));
        world.give(&mut conn, b"still here");
        assert_eq!(received(&socket), Some(Ok(b"still here".to_vec())));
    }
    world.send(&mut conn, ACK | FIN, b"");
    let seq = conn.seq;
    world.expect_of(&conn, "an acknowledgement", |tcp| tcp.ack == seq);
    assert_eq!(received(&socket), Some(Ok(Vec::new())));
    assert!(socket.readiness().contains(Readiness::CLOSED));
}

fn no_more_reading(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    world.give(&mut conn, b"unread");
    socket.shutdown(Shutdown::Read).unwrap();
    assert_eq!(received(&socket), Some(Ok(Vec::new())));
    world.give(&mut conn, b"more");
    assert_eq!(received(&socket), Some(Ok(Vec::new())));
    assert_eq!(socket.send(b"writing goes on"), Ok(15));
    assert_eq!(world.take(&mut conn, 15), b"writing goes on");
}

fn shutdown_delivers(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let all = pattern(5000);
    let sent = socket.send(&all).unwrap();
    socket.shutdown(Shutdown::Write).unwrap();
    let end = conn.ack.wrapping_add(sent as u32 + 1);
    assert_eq!(world.take(&mut conn, sent), all[..sent]);
    // The FIN may have been in the last segment and is acknowledged.
    if conn.ack != end {
        let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
        assert_eq!(fin.seq.wrapping_add(fin.span()), end);
    }
}

fn request_with_end(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut conn = crate::conn::Conn::new(5000, 80);
    world.send_syn(&mut conn);
    let answer = world.expect_of(&conn, "a SYN with ACK", |tcp| tcp.has(SYN | ACK));
    conn.ack = answer.seq.wrapping_add(1);
    // The last ACK of the handshake, the request and a FIN in one segment, before `accept`.
    world.send(&mut conn, ACK | PSH | FIN, b"request");
    let (socket, _) = world.accept(&listener);
    world.run(Duration::from_millis(10));
    assert_eq!(drained(&socket), (b"request".to_vec(), Some(Ok(()))));
    assert_eq!(socket.send(b"answer"), Ok(6));
    drop(socket);
    assert_eq!(world.take(&mut conn, 6), b"answer");
}

/// A segment with a FIN arrives before a lost one: its data is kept, and its FIN may be dropped. A
/// sender that retransmits both segments unchanged must still reach the end.
fn end_with_old_data(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let (mut conn, socket) = world.connect(&listener, 4000);
    let first = conn.segment(ACK | PSH, b"lost once");
    conn.seq = conn.seq.wrapping_add(first.span());
    let last = conn.segment(ACK | PSH | FIN, b"and the end");
    world.send_tcp(last.clone());
    world.run(Duration::from_millis(20));
    world.send_tcp(first);
    conn.seq = conn.seq.wrapping_add(last.span());
    let data_end = conn.seq.wrapping_sub(1);
    world.expect_of(&conn, "an ACK of the data", |tcp| {
        tcp.ack == data_end || tcp.ack == conn.seq
    });
    world.send_tcp(last);
    world.expect_of(&conn, "an ACK of the end", |tcp| tcp.ack == conn.seq);
    assert_eq!(
        drained(&socket),
        (b"lost onceand the end".to_vec(), Some(Ok(())))
    );
}

fn drop_delivers(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let all = pattern(20_000);
    let sent = socket.send(&all).unwrap();
    drop(socket);
    assert!(world.statistics().orphans >= 1);
    let base = conn.ack;
    let mut got: Vec<u8> = Vec::new();
    let mut ended = false;
    while !ended {
        let tcp = world.expect_of(&conn, "data or a FIN", |_| true);
        assert!(!tcp.has(RST), "it is reset");
        if tcp.seq == conn.ack && tcp.span() > 0 {
            got.extend(&tcp.payload);
            ended = tcp.has(FIN);
            conn.ack = conn.ack.wrapping_add(tcp.span());
        }
        world.send(&mut conn, ACK, b"");
    }
    assert_eq!(got, all[..sent]);
    assert_eq!(conn.ack, base.wrapping_add(sent as u32 + 1));
    world.send(&mut conn, ACK | FIN, b"");
    let seq = conn.seq;
    let last = world.expect_of(&conn, "the last ACK", |tcp| tcp.ack == seq);
    assert!(!last.has(RST));
    world.run(Duration::from_secs(300));
    assert_eq!(world.statistics().orphans, 0);
}

fn drop_resends(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    assert_eq!(socket.send(b"last words"), Ok(10));
    drop(socket);
    for _ in 0..3 {
        let tcp = world.expect_of(&conn, "data", |tcp| !tcp.payload.is_empty());
        assert_eq!(tcp.payload, b"last words");
    }
    assert_eq!(world.take(&mut conn, 10), b"last words");
}

fn orphan_ends(context: &Context) {
    let mut world = context.world();
    let before = world.statistics().tcp_sockets;
    let listener = world.listen(80, 4);
    let (_conn, socket) = world.connect(&listener, 5000);
    assert_eq!(socket.send(b"anybody?"), Ok(8));
    drop((socket, listener));
    world.run(Duration::from_secs(3600));
    let after = world.statistics();
    assert_eq!((after.tcp_sockets, after.orphans), (before, 0));
}

fn last_word_unsent(context: &Context) {
    let mut world = context.world();
    let before = world.statistics().tcp_sockets;
    let listener = world.listen(80, 4);
    let (mut conn, socket) = world.connect(&listener, 5000);
    socket.shutdown(Shutdown::Write).unwrap();
    let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    conn.ack = fin.seq.wrapping_add(1);
    world.send(&mut conn, ACK, b"");
    // The peer's link-layer address expires or is evicted, and is not resolved again.
    world.run(Duration::from_secs(1200));
    world.resolves = false;
    for host in 3..250 {
        let question = Packet {
            to: [0xff; 6],
            from: [2, 0, 0, 0, 1, host],
            body: Body::Arp(Arp {
                operation: 1,
                sender: ([2, 0, 0, 0, 1, host], Ipv4Addr::new(10, 0, 0, host)),
                target: ([0; 6], SUBJECT_V4),
            }),
        };
        world.inject(&question.bytes());
        world.run(Duration::from_millis(3));
    }
    world.send(&mut conn, FIN | ACK, b"");
    world.run(Duration::from_millis(5));
    drop((socket, listener));
    world.run(Duration::from_secs(3600));
    let after = world.statistics();
    assert_eq!((after.tcp_sockets, after.orphans), (before, 0));
}

fn fin_wait_ends(context: &Context) {
    let mut world = context.world();
    let before = world.statistics().tcp_sockets;
    let listener = world.listen(80, 4);
    let (mut conn, socket) = world.connect(&listener, 5000);
    drop((socket, listener));
    let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    conn.ack = fin.seq.wrapping_add(1);
    // The peer acknowledges and does not close its side (FIN_WAIT_2).
    world.send(&mut conn, ACK, b"");
    world.run(Duration::from_secs(3600));
    assert_eq!(world.statistics().tcp_sockets, before);
}

fn unread_resets(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    world.give(&mut conn, b"never read");
    drop(socket);
    world.expect_of(&conn, "a reset", |tcp| tcp.has(RST));
}

fn late_data_resets(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    drop(socket);
    let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    conn.ack = fin.seq.wrapping_add(1);
    world.send(&mut conn, ACK | PSH, b"unread data");
    world.expect_of(&conn, "a reset", |tcp| tcp.has(RST));
}

fn simultaneous(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    drop(socket);
    world.net.poll();
    // The FINs cross.
    world.send(&mut conn, ACK | FIN, b"");
    let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    conn.ack = fin.seq.wrapping_add(1);
    world.send(&mut conn, ACK, b"");
    let seq = conn.seq;
    let last = world.expect_of(&conn, "an ACK of the FIN", |tcp| tcp.ack == seq);
    assert!(!last.has(RST));
}

fn reset_told(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    world.send(&mut conn, RST | ACK, b"");
    world.run(Duration::from_millis(10));
    assert!(socket.readiness().contains(Readiness::READABLE));
    assert!(socket.readiness().contains(Readiness::CLOSED));
    assert_eq!(socket.send(b"x"), Err(SendError::Reset));
    assert_eq!(received(&socket), Some(Err(RecvError::Reset)));
    drop(socket);
    world.never_tcp(Duration::from_secs(1), "no answer to a reset", |_| true);
}

fn reset_blind(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let good = conn.clone();
    conn.seq = conn.seq.wrapping_add(1 << 24);
    world.send(&mut conn, RST, b"");
    conn.seq = good.seq.wrapping_sub(1);
    world.send(&mut conn, RST, b"");
    world.run(Duration::from_millis(50));
    assert_eq!(received(&socket), None);
    conn = good;
    world.give(&mut conn, b"alive");
    assert_eq!(received(&socket), Some(Ok(b"alive".to_vec())));
}

fn reset_inexact(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let good = conn.clone();
    conn.seq = conn.seq.wrapping_add(100);
    world.send(&mut conn, RST, b"");
    let challenge = world.expect_of(&conn, "a challenge ACK", |_| true);
    assert_eq!((challenge.flags, challenge.ack), (ACK, good.seq));
    assert_eq!(received(&socket), None);
}

fn linger_zero(context: &Context) {
    let mut world = context.world();
    let (conn, socket) = connection(&mut world);
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    assert_eq!(socket.send(b"thrown away"), Ok(11));
    drop(socket);
    let first = world.expect_of(&conn, "a reset", |tcp| tcp.has(RST) || tcp.has(FIN));
    assert!(first.has(RST));
    assert_eq!(world.statistics().orphans, 0);
}

fn linger_time(context: &Context) {
    let mut world = context.world();
    let (conn, socket) = connection(&mut world);
    socket.set_linger(Some(Duration::from_secs(3))).unwrap();
    assert_eq!(socket.send(b"not acknowledged"), Ok(16));
    let begun = world.now();
    drop(socket);
    world.expect_of(&conn, "a reset", |tcp| tcp.has(RST));
    let wait = (world.now() - begun).as_millis();
    assert!((2900..=4100).contains(&wait), "{wait} ms");
}

fn keep_alive(context: &Context) {
    let mut world = context.world();
    let (conn, socket) = connection(&mut world);
    if !world
        .net
        .with(|stack| swapstone_net::Stack::capabilities(stack))
        .keep_alive
    {
        assert_eq!(
            socket.set_keep_alive(Some(Duration::from_secs(5))),
            Err(SocketError::Unsupported)
        );
        context.unavailable("this stack has no keep-alive, as its capabilities report");
    }
    socket.set_keep_alive(Some(Duration::from_secs(5))).unwrap();
    let begun = world.now();
    let probe = world.expect_of(&conn, "a probe", |_| true);
    assert_eq!(probe.seq, conn.ack.wrapping_sub(1));
    assert!(probe.payload.len() <= 1);
    let wait = (world.now() - begun).as_millis();
    assert!((4000..=7000).contains(&wait), "{wait} ms");
    for seconds in 0..3600 {
        world.run(Duration::from_secs(1));
        world.inbox.clear();
        match received(&socket) {
            None => {}
            Some(Err(RecvError::TimedOut)) => {
                context.note(format!("given up {seconds} s after the first probe"));
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("the peer is not given up within an hour");
}

fn keep_alive_answered(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    if socket.set_keep_alive(Some(Duration::from_secs(2))).is_err() {
        context.unavailable("this stack has no keep-alive, as its capabilities report");
    }
    for _ in 0..20 {
        world.expect_of(&conn, "a probe", |_| true);
        world.send(&mut conn, ACK, b"");
        assert_eq!(received(&socket), None);
    }
    world.give(&mut conn, b"alive");
    assert_eq!(received(&socket), Some(Ok(b"alive".to_vec())));
}

fn not_connected(context: &Context) {
    let world = context.world();
    let socket = world.net.tcp().unwrap();
    socket.set_nonblocking(true);
    assert_eq!(socket.send(b"x"), Err(SendError::NotConnected));
    assert_eq!(received(&socket), Some(Err(RecvError::NotConnected)));
    assert_eq!(
        socket.shutdown(Shutdown::Both),
        Err(SocketError::NotConnected)
    );
    assert_eq!((socket.peer_addr(), socket.local_addr()), (None, None));
    assert_eq!(
        socket.accept().err(),
        Some(swapstone_net::error::AcceptError::NotListening)
    );
    // The id of a closed socket stays invalid, also if its slot is reused.
    let id = socket.id();
    drop(socket);
    let other = world.net.tcp().unwrap();
    assert_ne!(other.id(), id);
    let sent = world
        .net
        .with(|stack| swapstone_net::TcpStack::tcp_send(stack, id, &[b"x"]));
    assert_eq!(sent, Err(SendError::NotConnected));
    world
        .net
        .with(|stack| swapstone_net::TcpStack::tcp_close(stack, id));
    assert!(other.bind(world.at_subject(80)).is_ok());
}
