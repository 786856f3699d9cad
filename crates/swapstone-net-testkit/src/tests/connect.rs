// SPDX-License-Identifier: MIT OR Apache-2.0
//! Connection establishment.

use std::time::Duration;

use swapstone_net::Readiness;
use swapstone_net::error::{AcceptError, BindError, ConnectError, ListenError};

use crate::conn::{Conn, Socket};
use crate::context::{Context, Test};
use crate::wire::{ACK, FIN, RST, SYN};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both(
        "connect: the peer answers and both sides have addresses",
        active,
    ),
    Test::both("connect: a RST is reported as refused", refused),
    Test::both("connect: without a response it times out", times_out),
    Test::both(
        "connect: an unresolvable neighbor ends it in time",
        nobody_there,
    ),
    Test::both("connect: a lost SYN is sent again", syn_again),
    Test::both(
        "connect: the timeout of a socket ends the wait",
        patience_ends,
    ),
    Test::both(
        "listen: a connection is accepted with its peer's address",
        passive,
    ),
    Test::both("listen: a closed port responds with a RST", closed_port),
    Test::both("listen: a lost SYN-ACK is retransmitted", syn_ack_again),
    Test::both(
        "listen: beyond the backlog a SYN is dropped, and served later",
        backlog,
    ),
    Test::both(
        "listen: a closed listener resets its accept queue",
        listener_closes,
    ),
    Test::both("listen: a port has one listener", port_taken),
    Test::both("listen: closing a listener frees its port", port_free_again),
    Test::both(
        "listen: a RST in SYN-RECEIVED frees the backlog",
        half_open_reset,
    ),
    Test::both("listen: the unspecified address matches all", unspecified),
    Test::both(
        "time-wait: a newer SYN reopens the connection (RFC 6191)",
        time_wait_reused,
    ),
    Test::both(
        "time-wait: a reopened connection has no former timeout",
        time_wait_replaced,
    ),
    Test::both(
        "time-wait: an old duplicate SYN opens nothing",
        time_wait_old_syn,
    ),
    Test::both(
        "time-wait: its port can be bound and listened on",
        time_wait_bind,
    ),
    Test::both(
        "time-wait: a retransmitted FIN is acknowledged",
        time_wait_fin_again,
    ),
    Test::both(
        "secrets: initial sequence numbers are no series",
        isn_no_series,
    ),
    Test::both(
        "secrets: local ports are no series and in the dynamic range",
        ports_no_series,
    ),
    Test::both("secrets: they depend on the seed only", seeds),
    Test::both("part: numbers of one seed", numbers).hidden(),
];

fn active(context: &Context) {
    let mut world = context.world();
    let (conn, socket) = world.let_connect(80);
    assert_eq!(socket.peer_addr(), Some(world.at_peer(80)));
    assert_eq!(socket.local_addr(), Some(world.at_subject(conn.subject)));
    assert!(socket.readiness().contains(Readiness::WRITABLE));
    assert!(!socket.readiness().contains(Readiness::READABLE));
    assert_eq!(
        socket.connect(world.at_peer(81)),
        Err(ConnectError::AlreadyActive)
    );
}

fn refused(context: &Context) {
    let mut world = context.world();
    let (socket, syn) = world.begin_connect(80);
    let mut conn = Conn::new(80, syn.source);
    // A RST with another acknowledgement number is not from the peer.
    conn.ack = syn.seq.wrapping_add(1000);
    world.send(&mut conn, RST | ACK, b"");
    world.run(Duration::from_millis(100));
    assert_eq!(
        socket.connect(world.at_peer(80)),
        Err(ConnectError::WouldBlock)
    );
    conn.ack = syn.seq.wrapping_add(1);
    world.send(&mut conn, RST | ACK, b"");
    let peer = world.at_peer(80);
    let outcome = world.eventually("an outcome", || match socket.connect(peer) {
        Err(ConnectError::WouldBlock) => None,
        outcome => Some(outcome),
    });
    assert_eq!(outcome, Err(ConnectError::Refused));
}

/// How a connection attempt without a response ends: the error and the seconds it took.
fn outcome(world: &mut World, socket: &Socket, port: u16) -> (ConnectError, u64) {
    let begun = world.now();
    for _ in 0..3600 {
        world.run(Duration::from_secs(1));
        match socket.connect(world.at_peer(port)) {
            Err(ConnectError::WouldBlock) => {}
            Err(error) => return (error, (world.now() - begun).as_secs()),
            Ok(()) => panic!("it is connected without a peer"),
        }
    }
    panic!("no outcome within an hour");
}

fn times_out(context: &Context) {
    let mut world = context.world();
    let (socket, _) = world.begin_connect(80);
    let (error, seconds) = outcome(&mut world, &socket, 80);
    assert_eq!(error, ConnectError::TimedOut);
    context.note(format!("{seconds} s"));
    // Time for a few retransmissions, and an upper limit for programs.
    assert!((10..=300).contains(&seconds), "{seconds} s");
}

fn nobody_there(context: &Context) {
    let mut world = context.world();
    world.resolves = false;
    let socket = world.net.tcp().unwrap();
    socket.set_nonblocking(true);
    assert_eq!(
        socket.connect(world.at_peer(80)),
        Err(ConnectError::WouldBlock)
    );
    let (error, seconds) = outcome(&mut world, &socket, 80);
    assert!(
        matches!(error, ConnectError::TimedOut | ConnectError::Unreachable),
        "{error:?}"
    );
    context.note(format!("{error:?} after {seconds} s"));
    assert!(seconds <= 300, "{seconds} s");
}

fn syn_again(context: &Context) {
    let mut world = context.world();
    let (_socket, first) = world.begin_connect(80);
    let second = world.expect_tcp("the SYN again", |tcp| tcp.has(SYN));
    assert_eq!((second.seq, second.source), (first.seq, first.source));
}

fn patience_ends(context: &Context) {
    let world = context.world();
    let socket = world.net.tcp().unwrap();
    socket.set_timeout(Some(Duration::from_millis(700)));
    let begun = world.now();
    assert_eq!(
        socket.connect(world.at_peer(80)),
        Err(ConnectError::TimedOut)
    );
    assert_eq!((world.now() - begun).as_millis(), 700);
}

fn passive(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    assert_eq!(listener.local_addr(), Some(world.at_subject(80)));
    assert_eq!(listener.accept().err(), Some(AcceptError::WouldBlock));
    let (_, socket) = world.connect(&listener, 5000);
    assert_eq!(socket.peer_addr(), Some(world.at_peer(5000)));
    assert_eq!(socket.local_addr(), Some(world.at_subject(80)));
    assert_eq!(listener.accept().err(), Some(AcceptError::WouldBlock));
    assert_eq!(socket.accept().err(), Some(AcceptError::NotListening));
}

fn closed_port(context: &Context) {
    let mut world = context.world();
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    let reset = world.expect_of(&conn, "a reset", |tcp| tcp.has(RST));
    assert!(reset.has(ACK));
    assert_eq!((reset.seq, reset.ack), (0, conn.seq));
    // The RST for a segment with an ACK has its acknowledgement number (RFC 9293, 3.10.7.1).
    conn.ack = 4711;
    world.send(&mut conn, ACK, b"data");
    let reset = world.expect_of(&conn, "a reset", |tcp| tcp.has(RST));
    assert_eq!(reset.seq, 4711);
    // A RST causes no response.
    world.send(&mut conn, RST, b"");
    world.never_tcp(Duration::from_secs(1), "no answer to a reset", |_| true);
}

fn syn_ack_again(context: &Context) {
    let mut world = context.world();
    let _listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    let first = world.expect_of(&conn, "a SYN with ACK", |tcp| tcp.has(SYN | ACK));
    let second = world.expect_of(&conn, "it again", |tcp| tcp.has(SYN | ACK));
    assert_eq!(first.seq, second.seq);
}

fn backlog(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 2);
    let mut conns: Vec<_> = (0..5).map(|count| Conn::new(5000 + count, 80)).collect();
    let mut connected = [false; 5];
    // As a peer does: the SYN is retransmitted with the same number.
    let mut attempt = |world: &mut World, connected: &mut [bool; 5]| {
        for (conn, connected) in conns.iter_mut().zip(connected) {
            if *connected {
                continue;
            }
            let again = conn.clone();
            world.send_syn(conn);
            let answer = world.find(Duration::from_millis(50), |packet| {
                packet
                    .tcp()
                    .filter(|tcp| conn.owns(tcp) && tcp.has(SYN | ACK))
                    .cloned()
            });
            match answer {
                Some(answer) => {
                    conn.ack = answer.seq.wrapping_add(1);
                    world.send(conn, ACK, b"");
                    *connected = true;
                }
                None => *conn = again,
            }
        }
        world.never_tcp(
            Duration::from_millis(50),
            "no connection is refused",
            |tcp| tcp.has(RST),
        );
    };
    attempt(&mut world, &mut connected);
    let mut accepted = Vec::new();
    while let Ok((socket, _)) = listener.accept() {
        accepted.push(socket);
    }
    assert_eq!(accepted.len(), 2, "as many as the backlog wait");
    for _ in 0..60 {
        attempt(&mut world, &mut connected);
        while let Ok((socket, _)) = listener.accept() {
            accepted.push(socket);
        }
        world.run(Duration::from_secs(1));
    }
    assert_eq!((accepted.len(), connected), (5, [true; 5]));
}

fn listener_closes(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    world.finish_handshake(&mut conn);
    world.run(Duration::from_millis(10));
    drop(listener);
    world.expect_of(&conn, "a reset", |tcp| tcp.has(RST));
    let mut late = Conn::new(5001, 80);
    world.send_syn(&mut late);
    world.expect_of(&late, "a reset", |tcp| tcp.has(RST));
}

fn port_taken(context: &Context) {
    let world = context.world();
    let _listener = world.listen(80, 4);
    let other = world.net.tcp().unwrap();
    let outcome = other.bind(world.at_subject(80));
    if outcome.is_ok() {
        // Some stacks return the error from `listen`.
        assert_eq!(other.listen(1), Err(ListenError::InUse));
    } else {
        assert_eq!(outcome, Err(BindError::InUse));
    }
    let third = world.net.tcp().unwrap();
    assert_eq!(third.bind(world.at_peer(81)), Err(BindError::NotLocal));
    assert_eq!(third.listen(1), Err(ListenError::NotBound));
    assert_eq!(third.bind(world.at_subject(81)), Ok(()));
    assert_eq!(
        third.bind(world.at_subject(82)),
        Err(BindError::AlreadyBound)
    );
    assert_eq!(third.listen(1), Ok(()));
    assert_eq!(third.listen(1), Err(ListenError::AlreadyActive));
}

fn port_free_again(context: &Context) {
    let mut world = context.world();
    for port in 5000..5003 {
        let listener = world.listen(80, 4);
        let (_conn, _socket) = world.connect(&listener, port);
        world.run(Duration::from_millis(10));
    }
}

fn half_open_reset(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 1);
    for port in 5000..5010 {
        let mut conn = Conn::new(port, 80);
        world.send_syn(&mut conn);
        world.expect_of(&conn, "a SYN with ACK", |tcp| tcp.has(SYN | ACK));
        world.send(&mut conn, RST, b"");
        world.run(Duration::from_millis(10));
    }
    let (_, socket) = world.connect(&listener, 6000);
    assert_eq!(socket.peer_addr(), Some(world.at_peer(6000)));
}

fn unspecified(context: &Context) {
    let mut world = context.world();
    let socket = world.net.tcp().unwrap();
    let any: std::net::IpAddr = match world.family {
        crate::context::Family::V4 => std::net::Ipv4Addr::UNSPECIFIED.into(),
        crate::context::Family::V6 => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind((any, 80).into()).unwrap();
    socket.listen(4).unwrap();
    socket.set_nonblocking(true);
    let (_, accepted) = world.connect(&socket, 5000);
    assert_eq!(accepted.local_addr(), Some(world.at_subject(80)));
}

/// A connection to port 80 that the subject has closed first: it is in TIME_WAIT.
fn time_wait(world: &mut World, listener: &Socket) -> Conn {
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    world.finish_handshake(&mut conn);
    let (socket, _) = world.accept(listener);
    closed_by_subject(world, conn, socket)
}

/// Makes the subject close a connection first, after a request.
fn closed_by_subject(world: &mut World, mut conn: Conn, socket: Socket) -> Conn {
    world.give(&mut conn, b"request");
    assert_eq!(
        crate::conn::received(&socket),
        Some(Ok(b"request".to_vec()))
    );
    drop(socket);
    let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    conn.ack = fin.seq.wrapping_add(fin.span());
    world.send(&mut conn, ACK | FIN, b"");
    let seq = conn.seq;
    world.expect_of(&conn, "the last ACK", |tcp| tcp.ack == seq);
    conn
}

fn time_wait_reused(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut old = time_wait(&mut world, &listener);
    for _ in 0..3 {
        world.run(Duration::from_millis(200));
        let mut conn = Conn {
            seq: old.seq.wrapping_add(64_000),
            ack: 0,
            ..old
        };
        world.send_syn(&mut conn);
        world.finish_handshake(&mut conn);
        let (socket, _) = world.accept(&listener);
        old = closed_by_subject(&mut world, conn, socket);
    }
}

/// The second connection is closed by the peer, which leaves no TIME_WAIT, so the first one's must
/// not be left either.
fn time_wait_replaced(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let old = time_wait(&mut world, &listener);
    for step in [64_000_u32, 0_u32.wrapping_sub(64_000)] {
        let mut conn = Conn {
            seq: old.seq.wrapping_add(step),
            ack: 0,
            ..old
        };
        world.send_syn(&mut conn);
        world.finish_handshake(&mut conn);
        let (socket, _) = world.accept(&listener);
        world.give(&mut conn, b"again");
        assert_eq!(crate::conn::received(&socket), Some(Ok(b"again".to_vec())));
        world.close(&mut conn, socket);
    }
}

fn time_wait_old_syn(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let old = time_wait(&mut world, &listener);
    let mut conn = Conn {
        seq: old.seq.wrapping_sub(64_000),
        ack: 0,
        ..old
    };
    world.send_syn(&mut conn);
    world.never_tcp(Duration::from_secs(2), "an old SYN opens nothing", |tcp| {
        tcp.has(SYN)
    });
    assert_eq!(listener.accept().err(), Some(AcceptError::WouldBlock));
}

fn time_wait_bind(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    time_wait(&mut world, &listener);
    drop(listener);
    world.run(Duration::from_millis(10));
    let again = world.listen(80, 4);
    world.connect(&again, 5001);
}

fn time_wait_fin_again(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut conn = time_wait(&mut world, &listener);
    let seq = conn.seq;
    world.run(Duration::from_millis(500));
    conn.seq = seq.wrapping_sub(1);
    world.send(&mut conn, ACK | FIN, b"");
    let answer = world.expect_of(&conn, "an ACK", |_| true);
    assert_eq!((answer.flags, answer.ack), (ACK, seq));
}

/// The initial sequence numbers and ports of connections that the subject starts.
fn sample(world: &mut World) -> Vec<(u32, u16)> {
    let mut all = Vec::new();
    for port in 2000..2032 {
        let (_socket, syn) = world.begin_connect(port);
        all.push((syn.seq, syn.source));
    }
    all
}

/// Returns whether the differences between numbers look like those of a counter.
fn is_series(numbers: &[u32], most: u32) -> bool {
    let steps = numbers.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]));
    let small = steps
        .filter(|&step| step.wrapping_add(most) < 2 * most)
        .count();
    small * 4 > numbers.len()
}

fn isn_no_series(context: &Context) {
    let mut world = context.world();
    let numbers: Vec<_> = sample(&mut world).iter().map(|pair| pair.0).collect();
    assert!(!is_series(&numbers, 1 << 24), "{numbers:?}");
    // The same for connections that the peer starts.
    let _listener = world.listen(80, 64);
    let mut numbers = Vec::new();
    for port in 5000..5032 {
        let mut conn = Conn::new(port, 80);
        world.send_syn(&mut conn);
        numbers.push(
            world
                .expect_of(&conn, "a SYN with ACK", |tcp| tcp.has(SYN))
                .seq,
        );
    }
    assert!(!is_series(&numbers, 1 << 24), "{numbers:?}");
}

fn ports_no_series(context: &Context) {
    let mut world = context.world();
    let mut ports: Vec<_> = sample(&mut world)
        .iter()
        .map(|pair| u32::from(pair.1))
        .collect();
    assert!(ports.iter().all(|&port| port >= 49152), "{ports:?}");
    assert!(!is_series(&ports, 256), "{ports:?}");
    ports.sort_unstable();
    ports.dedup();
    assert!(ports.len() >= 31, "{ports:?}");
}

fn numbers(context: &Context) {
    let mut world = context.world();
    context.note(format!("{:?}", sample(&mut world)));
}

fn seeds(context: &Context) {
    let part = "part: numbers of one seed";
    let (one, again, other) = (
        context.child(part, 1),
        context.child(part, 1),
        context.child(part, 2),
    );
    assert_eq!(one.len(), 1);
    assert_eq!(one, again);
    assert_ne!(one, other);
}
