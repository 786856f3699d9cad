// SPDX-License-Identifier: MIT OR Apache-2.0
//! Limits are named, and events are exact.

use std::time::Duration;

use swapstone_net::error::{ConnectError, Limit, OpenError, Resource};
use swapstone_net::{Readiness, Stack, TcpQueues, TcpStack};
use swapstone_net_link::Options;

use super::data::{connection, pattern};
use crate::conn::{Conn, Socket, events, received};
use crate::context::{Context, Test};
use crate::wire::{ACK, FIN, RST};

pub(super) const TESTS: &[Test] = &[
    Test::once(
        "limit: one TCP socket too many names the limit",
        tcp_sockets,
    ),
    Test::once(
        "limit: one UDP socket too many names the limit",
        udp_sockets,
    ),
    Test::both(
        "limit: closing sockets count, and are removed",
        orphans_count,
    ),
    Test::both(
        "limit: without sockets a SYN is dropped, and served later",
        no_socket_for_syn,
    ),
    Test::both(
        "limit: packet memory is bounded, and connections survive",
        packet_memory,
    ),
    Test::both(
        "queues: they hold what was not read, not acknowledged and not accepted",
        queues,
    ),
    Test::both(
        "event: a listener is readable when a connection waits",
        event_accept,
    ),
    Test::both(
        "event: a connection is readable once when data arrives",
        event_data,
    ),
    Test::both(
        "event: a connection is writable when it is established",
        event_connect,
    ),
    Test::both(
        "event: a refused connection and a timeout are reported",
        event_refused,
    ),
    Test::both(
        "event: free space is reported after the send buffer was full",
        event_room,
    ),
    Test::both("event: a FIN and a RST are reported", event_end),
    Test::both("event: a datagram is reported", event_datagram),
    Test::both(
        "event: each socket is in the queue once, and not without a change",
        event_once,
    ),
];

fn tcp_sockets(context: &Context) {
    let mut config = context.config();
    config.limits.tcp_sockets = 4;
    let world = context.world_with(&config, Options::default());
    let mut sockets: Vec<_> = (0..4).map(|_| world.net.tcp().unwrap()).collect();
    assert_eq!(world.statistics().tcp_sockets, 4);
    let limit = Limit {
        of: Resource::TcpSockets,
        most: 4,
    };
    assert_eq!(world.net.tcp().err(), Some(OpenError::Limit(limit)));
    sockets.pop();
    assert!(world.net.tcp().is_ok());
}

fn udp_sockets(context: &Context) {
    let mut config = context.config();
    config.limits.udp_sockets = 4;
    let world = context.world_with(&config, Options::default());
    let mut sockets: Vec<_> = (0..4).map(|_| world.net.udp().unwrap()).collect();
    assert_eq!(world.statistics().udp_sockets, 4);
    let limit = Limit {
        of: Resource::UdpSockets,
        most: 4,
    };
    assert_eq!(world.net.udp().err(), Some(OpenError::Limit(limit)));
    sockets.pop();
    assert!(world.net.udp().is_ok());
}

fn orphans_count(context: &Context) {
    let mut config = context.config();
    config.limits.tcp_sockets = 4;
    let mut world = context.world_with(&config, Options::default());
    let listener = world.listen(80, 4);
    let mut conns = Vec::new();
    for port in 5000..5003 {
        let (conn, socket) = world.connect(&listener, port);
        assert_eq!(socket.send(b"bye"), Ok(3));
        drop(socket);
        conns.push(conn);
    }
    world.run(Duration::from_millis(5));
    let statistics = world.statistics();
    assert_eq!((statistics.orphans, statistics.tcp_sockets), (3, 4));
    // When the peers have received all data and have closed or reset, slots are free.
    for conn in &mut conns {
        conn.ack = conn.ack.wrapping_add(4);
        world.send(conn, RST | ACK, b"");
    }
    world.run(Duration::from_millis(100));
    assert_eq!(world.statistics().orphans, 0);
    for port in 6000..6003 {
        world.connect(&listener, port);
    }
}

fn no_socket_for_syn(context: &Context) {
    let mut config = context.config();
    config.limits.tcp_sockets = 2;
    let mut world = context.world_with(&config, Options::default());
    let listener = world.listen(80, 2);
    let (mut first, socket) = world.connect(&listener, 5000);
    let mut conn = Conn::new(5001, 80);
    let again = conn.clone();
    world.send_syn(&mut conn);
    world.never_tcp(Duration::from_secs(1), "it is not refused", |tcp| {
        tcp.has(RST)
    });
    socket.set_linger(Some(Duration::ZERO)).unwrap();
    drop(socket);
    world.expect_of(&first, "a reset", |tcp| tcp.has(RST));
    first = again;
    world.send_syn(&mut first);
    world.finish_handshake(&mut first);
    world.accept(&listener);
}

fn packet_memory(context: &Context) {
    let mut config = context.config();
    config.limits.packet_memory = 256 << 10;
    let mut world = context.world_with(&config, Options::default());
    let listener = world.listen(80, 64);
    // Twenty connections that are not read get more data than the memory can hold.
    let mut all: Vec<_> = (0..20)
        .map(|at| world.connect(&listener, 5000 + at))
        .collect();
    for round in 0..40 {
        for (conn, _) in &mut all {
            let at = conn.seq;
            world.send(conn, ACK, &pattern(1000));
            // The peer continues with the acknowledged data only.
            conn.seq = at;
        }
        world.run(Duration::from_millis(20));
        while let Some(packet) = world.inbox.pop_front() {
            let Some(tcp) = packet.tcp() else { continue };
            assert!(!tcp.has(RST), "round {round}: no connection may break");
            if let Some((conn, _)) = all.iter_mut().find(|(conn, _)| conn.owns(tcp)) {
                conn.seq = tcp.ack;
            }
        }
    }
    let mut total = 0;
    for (_, socket) in &all {
        while let Some(got) = received(socket) {
            total += got.expect("it lives").len();
        }
    }
    context.note(format!("{total} bytes were held for 20 connections"));
    let (conn, socket) = &mut all[7];
    world.run(Duration::from_secs(1));
    world.inbox.clear();
    world.give(conn, b"alive");
    assert_eq!(received(socket), Some(Ok(b"alive".to_vec())));
}

fn queues(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let of = |world: &crate::world::World, socket: &Socket| {
        let id = socket.id();
        world.net.with(|stack| stack.tcp_queues(id))
    };
    let with = |unread, unacknowledged| {
        Some(TcpQueues {
            unread,
            unacknowledged,
            ..TcpQueues::default()
        })
    };
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    world.finish_handshake(&mut conn);
    world.run(Duration::from_millis(10));
    let waiting = of(&world, &listener).map(|queues| queues.waiting);
    assert_eq!(waiting, Some(1));
    let (socket, _) = world.accept(&listener);
    assert_eq!(of(&world, &listener), Some(TcpQueues::default()));
    assert_eq!(of(&world, &socket), with(0, 0));
    world.give(&mut conn, b"hello");
    assert_eq!(of(&world, &socket), with(5, 0));
    assert_eq!(socket.recv(&mut [0; 2]), Ok(2));
    assert_eq!(of(&world, &socket), with(3, 0));
    // The peer's window is small, so a part is not sent.
    conn.window = 100;
    world.send(&mut conn, ACK, b"");
    world.run(Duration::from_millis(10));
    assert_eq!(socket.send(&[7; 300]), Ok(300));
    assert_eq!(of(&world, &socket), with(3, 300));
    let got = world.take(&mut conn, 100).len();
    world.run(Duration::from_millis(10));
    assert_eq!(of(&world, &socket), with(3, 300 - got));
    world.send(&mut conn, FIN | ACK, b"");
    world.run(Duration::from_millis(10));
    let ended = of(&world, &socket).map(|queues| (queues.unread, queues.ended));
    assert_eq!(ended, Some((3, true)));
    let id = socket.id();
    drop(socket);
    assert_eq!(world.net.with(|stack| stack.tcp_queues(id)), None);
}

fn event_accept(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    events(&world);
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    world.run(Duration::from_millis(10));
    let early = events(&world);
    assert!(early.is_empty(), "half open is not open: {early:?}");
    world.finish_handshake(&mut conn);
    world.run(Duration::from_millis(10));
    let got = events(&world);
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!(got[0].0, listener.id());
    assert!(got[0].1.contains(Readiness::READABLE));
}

fn event_data(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    events(&world);
    world.send(&mut conn, ACK, b"one");
    world.send(&mut conn, ACK, b"two");
    world.run(Duration::from_millis(10));
    let got = events(&world);
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!(got[0].0, socket.id());
    assert!(got[0].1.contains(Readiness::READABLE | Readiness::WRITABLE));
    assert!(!got[0].1.contains(Readiness::CLOSED));
    // New data is an event, whether the former data was read or not.
    world.send(&mut conn, ACK, b"three");
    world.run(Duration::from_millis(10));
    assert_eq!(events(&world).len(), 1);
}

fn event_connect(context: &Context) {
    let mut world = context.world();
    let (_conn, socket) = world.let_connect(80);
    let got = events(&world);
    let of: Vec<_> = got.iter().filter(|(id, _)| *id == socket.id()).collect();
    assert_eq!(of.len(), 1, "{got:?}");
    assert!(of[0].1.contains(Readiness::WRITABLE));
}

fn event_refused(context: &Context) {
    let mut world = context.world();
    let (socket, syn) = world.begin_connect(80);
    events(&world);
    let mut conn = Conn::new(80, syn.source);
    conn.ack = syn.seq.wrapping_add(1);
    world.send(&mut conn, RST | ACK, b"");
    world.run(Duration::from_millis(10));
    let got = events(&world);
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!(got[0].0, socket.id());
    assert!(got[0].1.contains(Readiness::WRITABLE), "{got:?}");
    assert_eq!(
        socket.connect(world.at_peer(80)),
        Err(ConnectError::Refused)
    );
    // An event loop without other work gets an event for a timeout, too.
    let (silent, _) = world.begin_connect(81);
    events(&world);
    for _ in 0..400 {
        world.run(Duration::from_secs(1));
        let got = events(&world);
        if let Some((_, ready)) = got.iter().find(|(id, _)| *id == silent.id()) {
            assert!(ready.contains(Readiness::WRITABLE));
            assert_eq!(
                silent.connect(world.at_peer(81)),
                Err(ConnectError::TimedOut)
            );
            return;
        }
    }
    panic!("the time-out is not reported");
}

fn event_room(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    while socket.send(&pattern(4000)).is_ok() {}
    events(&world);
    let mut reported = false;
    for _ in 0..200 {
        world.take(&mut conn, 1);
        world.run(Duration::from_millis(5));
        for (id, ready) in events(&world) {
            reported |= id == socket.id() && ready.contains(Readiness::WRITABLE);
        }
        if reported {
            break;
        }
    }
    assert!(reported, "no event reports free space");
    assert!(socket.send(b"more").is_ok());
}

fn event_end(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let (mut ends, first) = world.connect(&listener, 5000);
    let (mut resets, second) = world.connect(&listener, 5001);
    events(&world);
    world.send(&mut ends, ACK | FIN, b"");
    world.run(Duration::from_millis(10));
    let got = events(&world);
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!(got[0].0, first.id());
    assert!(got[0].1.contains(Readiness::READABLE));
    assert!(!got[0].1.contains(Readiness::CLOSED));
    world.send(&mut resets, ACK | RST, b"");
    world.run(Duration::from_millis(10));
    let got = events(&world);
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!(got[0].0, second.id());
    assert!(got[0].1.contains(Readiness::READABLE | Readiness::CLOSED));
}

fn event_datagram(context: &Context) {
    let mut world = context.world();
    let socket = world.net.udp().unwrap();
    socket.bind(world.at_subject(53)).unwrap();
    events(&world);
    world.send_udp(9, 53, b"one");
    world.send_udp(9, 53, b"two");
    world.run(Duration::from_millis(10));
    let got = events(&world);
    assert_eq!(got.len(), 1, "{got:?}");
    assert_eq!(got[0].0, socket.id());
    assert!(got[0].1.contains(Readiness::READABLE));
}

fn event_once(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 32);
    let mut all: Vec<_> = (0..20)
        .map(|at| world.connect(&listener, 5000 + at))
        .collect();
    events(&world);
    for _ in 0..5 {
        for (conn, _) in &mut all {
            world.send(conn, ACK, b"data");
        }
        world.run(Duration::from_millis(10));
    }
    let mut ids: Vec<_> = events(&world).iter().map(|(id, _)| *id).collect();
    let count = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!((ids.len(), count), (20, 20));
    world.run(Duration::from_secs(60));
    let later = events(&world);
    assert!(later.is_empty(), "nothing has changed: {later:?}");
    // A closed socket has no events.
    let gone = all.pop().map(|(mut conn, socket)| {
        let id = socket.id();
        drop(socket);
        world.send(&mut conn, ACK | FIN, b"");
        id
    });
    world.run(Duration::from_millis(50));
    assert!(events(&world).iter().all(|(id, _)| Some(*id) != gone));
    let none = world.net.with(|stack| stack.readiness(gone.unwrap()));
    assert_eq!(none, Readiness::NONE);
}
