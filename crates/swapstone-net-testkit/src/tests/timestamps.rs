// SPDX-License-Identifier: MIT OR Apache-2.0
//! The timestamps option (RFC 7323).

use std::time::Duration;

use super::data::pattern;
use crate::conn::{Conn, MSS_1000, Socket};
use crate::context::{Context, Test};
use crate::wire::{ACK, FIN, PSH, RST, SYN, Tcp};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both("timestamps: the peer's time is echoed", echoed),
    Test::both(
        "timestamps: all segments have the time of the sender",
        own_time,
    ),
    Test::both("timestamps: a window probe has the time, too", window_probe),
    Test::both(
        "timestamps: data arrives through a window that is smaller than the option",
        small_window,
    ),
    Test::both(
        "timestamps: ACKs outside of the sequence have the time, too",
        other_acks,
    ),
    Test::both(
        "timestamps: segments are lowered to the path MTU with them",
        path_mtu,
    ),
    Test::both(
        "timestamps: a peer that offers none receives none",
        not_offered,
    ),
    Test::both(
        "timestamps: a connect offers them, and sends more if the peer agrees",
        offered,
    ),
];

const MS: Duration = Duration::from_millis(1);

/// The option with its padding.
fn option(time: u32, echo: u32) -> Vec<u8> {
    let mut bytes = vec![1, 1, 8, 10];
    bytes.extend([time, echo].map(u32::to_be_bytes).concat());
    bytes
}

/// The time of the sender and the echoed one.
fn times(tcp: &Tcp) -> Option<(u32, u32)> {
    let mut rest = tcp.options.as_slice();
    loop {
        rest = match rest {
            [] | [0, ..] => return None,
            [1, rest @ ..] => rest,
            [8, 10, values @ ..] => {
                let word = |at: usize| {
                    let bytes = values.get(at..at + 4).expect("the option is complete");
                    u32::from_be_bytes(bytes.try_into().expect("four bytes"))
                };
                return Some((word(0), word(4)));
            }
            [_, length, ..] => &rest[usize::from(*length)..],
            [_] => panic!("an option without a length"),
        };
    }
}

/// Sends a segment with timestamps.
fn send(world: &mut World, conn: &mut Conn, flags: u8, payload: &[u8], (time, echo): (u32, u32)) {
    let mut segment = conn.segment(flags, payload);
    segment.options = option(time, echo);
    conn.seq = conn.seq.wrapping_add(segment.span());
    world.send_tcp(segment);
}

/// A connection with timestamps, and the time of the SYN with ACK. The peer's time was 1000, then 1001.
fn connection(world: &mut World) -> (Conn, Socket, u32) {
    connection_of(world, Conn::new(5000, 80))
}

fn connection_of(world: &mut World, mut conn: Conn) -> (Conn, Socket, u32) {
    let listener = world.listen(80, 4);
    let mut syn = conn.segment(SYN, b"");
    syn.options = [MSS_1000.to_vec(), option(1000, 0)].concat();
    conn.seq = conn.seq.wrapping_add(1);
    world.send_tcp(syn);
    let answer = world.expect_of(&conn, "a SYN with ACK", |tcp| tcp.has(SYN | ACK));
    let (begun, echo) = times(&answer).expect("the SYN with ACK has timestamps");
    assert_eq!(echo, 1000);
    conn.ack = answer.seq.wrapping_add(1);
    send(world, &mut conn, ACK, b"", (1001, begun));
    let (socket, _) = world.accept(&listener);
    (conn, socket, begun)
}

/// Waits for an ACK of the peer's data; returns the time that it echoes.
fn echo_of(world: &mut World, conn: &Conn, ack: u32) -> u32 {
    let found = world.expect_of(conn, "an ACK", |tcp| tcp.ack == ack);
    times(&found).expect("it has timestamps").1
}

fn echoed(context: &Context) {
    let mut world = context.world();
    let (mut conn, _socket, begun) = connection(&mut world);
    send(&mut world, &mut conn, ACK | PSH, &[1; 500], (1002, begun));
    let first = conn.seq;
    assert_eq!(echo_of(&mut world, &conn, first), 1002);
    // Behind a gap: the time of the last segment in sequence (RFC 7323, section 4.3).
    world.inbox.clear();
    conn.seq = first.wrapping_add(500);
    send(&mut world, &mut conn, ACK | PSH, &[3; 500], (1010, begun));
    let end = conn.seq;
    assert_eq!(echo_of(&mut world, &conn, first), 1002);
    // By its own time, the sender finds that the segment was late, and not lost.
    conn.seq = first;
    send(&mut world, &mut conn, ACK | PSH, &[2; 500], (1005, begun));
    assert_eq!(echo_of(&mut world, &conn, end), 1005);
    // A copy of an old segment.
    world.inbox.clear();
    conn.seq = first.wrapping_sub(500);
    send(&mut world, &mut conn, ACK | PSH, &[1; 500], (1001, begun));
    assert_eq!(echo_of(&mut world, &conn, end), 1005);
    // A late copy of the last one.
    world.inbox.clear();
    send(&mut world, &mut conn, ACK | PSH, &[2; 500], (1003, begun));
    world.inbox.clear();
    conn.seq = end.wrapping_sub(500);
    send(&mut world, &mut conn, ACK | PSH, &[3; 500], (1004, begun));
    assert_eq!(echo_of(&mut world, &conn, end), 1005);
}

fn own_time(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket, begun) = connection(&mut world);
    assert_eq!(socket.send(&pattern(3000)), Ok(3000));
    let mut missing = 3000;
    while missing > 0 {
        let data = world.expect_of(&conn, "data", |tcp| {
            tcp.seq == conn.ack && !tcp.payload.is_empty()
        });
        // The option is a part of the peer's MSS (RFC 6691).
        assert!(data.payload.len() <= 988, "{}", data.payload.len());
        let (time, echo) = times(&data).expect("data has timestamps");
        assert_eq!(echo, 1001);
        missing -= data.payload.len();
        conn.ack = conn.ack.wrapping_add(data.span());
        send(&mut world, &mut conn, ACK, b"", (1001, time));
    }
    world.run(500 * MS);
    drop(socket);
    let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    let (time, echo) = times(&fin).expect("a FIN has timestamps");
    let passed = time.wrapping_sub(begun);
    assert!((500..600).contains(&passed), "{passed} ms");
    assert_eq!(echo, 1001);
}

fn window_probe(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket, begun) = connection(&mut world);
    conn.window = 0;
    send(&mut world, &mut conn, ACK, b"", (1003, begun));
    world.run(10 * MS);
    assert_eq!(socket.send(&[5; 10]), Ok(10));
    let probe = world.expect_of(&conn, "a window probe", |tcp| tcp.seq == conn.ack);
    assert_eq!(probe.payload, [5]);
    assert_eq!(times(&probe).map(|(_, echo)| echo), Some(1003));
}

fn small_window(context: &Context) {
    let mut world = context.world();
    let mut conn = Conn::new(5000, 80);
    conn.window = 5;
    let (mut conn, socket, begun) = connection_of(&mut world, conn);
    let all = pattern(69);
    assert_eq!(socket.send(&all[..46]), Ok(46));
    assert_eq!(socket.send(&all[46..]), Ok(23));
    let mut got = Vec::<u8>::new();
    while got.len() < all.len() {
        let data = world.expect_of(&conn, "data", |tcp| {
            tcp.seq == conn.ack && !tcp.payload.is_empty()
        });
        assert!(data.payload.len() <= 5);
        got.extend(&data.payload);
        conn.ack = conn.ack.wrapping_add(data.span());
        send(&mut world, &mut conn, ACK, b"", (1001, begun));
    }
    assert!(got == *all);
}

fn other_acks(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket, begun) = connection(&mut world);
    world.run(300 * MS);
    world.inbox.clear();
    // A RST that is not exactly in sequence is challenged (RFC 5961).
    let mut reset = conn.segment(RST, b"");
    reset.seq = conn.seq.wrapping_add(10);
    reset.options = option(1004, begun);
    world.send_tcp(reset);
    assert!(echo_of(&mut world, &conn, conn.seq) >= 1001);
    // A FIN in TIME-WAIT is acknowledged again.
    drop(socket);
    let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    conn.ack = fin.seq.wrapping_add(1);
    send(&mut world, &mut conn, FIN | ACK, b"", (1005, begun));
    let end = conn.seq;
    assert_eq!(echo_of(&mut world, &conn, end), 1005);
    world.inbox.clear();
    conn.seq = end.wrapping_sub(1);
    send(&mut world, &mut conn, FIN | ACK, b"", (1006, begun));
    assert!(echo_of(&mut world, &conn, end) >= 1005);
}

fn path_mtu(context: &Context) {
    super::fixes::lowered_to_path_mtu(context, &option(1000, 0));
}

fn not_offered(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    let answer = world.expect_of(&conn, "a SYN with ACK", |tcp| tcp.has(SYN | ACK));
    assert_eq!(times(&answer), None);
    conn.ack = answer.seq.wrapping_add(1);
    world.send(&mut conn, ACK, b"");
    let (socket, _) = world.accept(&listener);
    assert_eq!(socket.send(&[6; 1000]), Ok(1000));
    let data = world.expect_of(&conn, "data", |tcp| !tcp.payload.is_empty());
    assert_eq!((times(&data), data.payload.len()), (None, 1000));
}

fn offered(context: &Context) {
    let mut world = context.world();
    for agrees in [true, false, true] {
        let (socket, syn) = world.begin_connect(7000);
        let (begun, echo) = times(&syn).expect("a SYN has timestamps");
        assert_eq!(echo, 0);
        let mut conn = Conn::new(7000, syn.source);
        conn.ack = syn.seq.wrapping_add(1);
        let mut answer = conn.segment(SYN | ACK, b"");
        answer.options = MSS_1000.into();
        if agrees {
            answer.options.extend(option(9000, begun));
        }
        conn.seq = conn.seq.wrapping_add(1);
        world.send_tcp(answer);
        let ack = world.expect_of(&conn, "an ACK", |tcp| tcp.has(ACK) && !tcp.has(SYN));
        let echo = agrees.then_some(9000);
        assert_eq!(times(&ack).map(|(_, echo)| echo), echo);
        assert_eq!(socket.connect(world.at_peer(7000)), Ok(()));
        assert_eq!(socket.send(b"data"), Ok(4));
        let data = world.expect_of(&conn, "data", |tcp| tcp.payload == b"data");
        assert_eq!(times(&data).map(|(_, echo)| echo), echo);
        let mut reset = conn.segment(RST, b"");
        if agrees {
            reset.options = option(9001, begun);
        }
        world.send_tcp(reset);
        world.run(10 * MS);
    }
}
