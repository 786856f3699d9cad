// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exhausted limits: ports, backlogs, packet memory, queues of datagrams. They are named or
//! counted, and available again afterwards.

use std::net::IpAddr;
use std::time::Duration;

use swapstone_net::error::{
    BindError, ConnectError, Limit, ListenError, Resource, SendError, UdpRecvError, UdpSendError,
};
use swapstone_net::{Config, Readiness, UdpSocket};
use swapstone_net_link::Options;

use super::data::pattern;
use crate::conn::{Conn, Socket};
use crate::context::{Context, Test};
use crate::memory;
use crate::watched::Watched;
use crate::wire::{ACK, RST, SYN};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both(
        "ports: with all connected to one peer the next connect names the limit",
        all_connecting,
    )
    .within(180),
    Test::both(
        "ports: with all bound nothing is bound or connected, and the limit named",
        all_bound,
    )
    .within(180),
    Test::once(
        "ports: of UDP, with all bound the next one names the limit",
        all_udp,
    )
    .within(180),
    Test::v6(
        "ports: of UDP over IPv6, with all bound the next one names the limit",
        all_udp,
    )
    .within(180)
    .slow(),
    Test::both(
        "ports: a second connection with the same addresses names the limit",
        same_again,
    ),
    Test::once(
        "limit: a backlog beyond the sockets names the limit",
        backlog_too_large,
    ),
    Test::both(
        "limit: a full backlog drops and counts a SYN, and a retransmission succeeds",
        backlog_full,
    ),
    Test::both(
        "limit: memory for sent data is bounded; a full one blocks or is named",
        send_memory,
    ),
    Test::both(
        "udp: a flood of one socket holds no memory and blocks no other",
        flood,
    ),
];

/// The ephemeral ports (RFC 6335, section 6).
const FIRST: u16 = 49152;
const PORTS: usize = 65536 - FIRST as usize;

const ALL_PORTS: Limit = Limit {
    of: Resource::Ports,
    most: PORTS,
};

/// A socket for each port, and some more.
fn plenty(context: &Context) -> Config {
    let mut config = context.config();
    config.limits.tcp_sockets = PORTS + 16;
    config.limits.udp_sockets = PORTS + 16;
    config.limits.receive_buffer = 2048;
    config.limits.send_buffer = 2048;
    config.limits.packet_memory = 64 << 20;
    config
}

fn tcp(world: &World) -> Socket {
    let socket = world.net.tcp().expect("there is room");
    socket.set_nonblocking(true);
    socket
}

fn local_port(socket: &Socket) -> u16 {
    socket.local_addr().expect("it has one").port()
}

fn all_connecting(context: &Context) {
    let mut world = context.world_with(&plenty(context), Options::default());
    let (one, other) = (world.at_peer(80), world.at_peer(81));
    // Few frames may wait for an unresolved neighbor.
    let _first = world.begin_connect(79);
    let mut used = vec![false; 65536];
    let mut sockets = Vec::new();
    while sockets.len() < PORTS - 1 {
        let socket = tcp(&world);
        let count = sockets.len();
        let begun = socket.connect(one);
        assert_eq!(begun, Err(ConnectError::WouldBlock), "after {count}");
        let port = usize::from(local_port(&socket));
        assert!(port >= usize::from(FIRST) && !used[port], "{port}");
        used[port] = true;
        sockets.push(socket);
        if sockets.len().is_multiple_of(256) {
            world.run(Duration::from_micros(1500));
            world.inbox.clear();
        }
    }
    // The last free port is found, too.
    let last = tcp(&world);
    assert_eq!(last.connect(one), Err(ConnectError::WouldBlock));
    assert!(!used[usize::from(local_port(&last))]);
    let socket = tcp(&world);
    assert_eq!(socket.connect(one), Err(ConnectError::Limit(ALL_PORTS)));
    let text = ConnectError::Limit(ALL_PORTS).to_string();
    assert!(text.contains("16384 local ports to this peer"), "{text}");
    // For another peer all ports are free.
    let elsewhere = tcp(&world);
    assert_eq!(elsewhere.connect(other), Err(ConnectError::WouldBlock));
    // A closed one is reused; the failure has not changed the socket.
    let given = sockets.swap_remove(PORTS / 3);
    let port = local_port(&given);
    drop(given);
    assert_eq!(socket.connect(one), Err(ConnectError::WouldBlock));
    assert_eq!(local_port(&socket), port);
    world.run(Duration::from_millis(10));
    // The connection works.
    world.inbox.clear();
    let syn = world.expect_tcp("its SYN", |tcp| tcp.has(SYN) && tcp.source == port);
    let mut conn = Conn::new(80, port);
    conn.ack = syn.seq.wrapping_add(1);
    world.send(&mut conn, SYN | ACK, b"");
    world.eventually("a connection", || socket.connect(one).ok());
}

fn all_bound(context: &Context) {
    let world = context.world_with(&plenty(context), Options::default());
    let any = world.at_subject(0);
    let mut sockets: Vec<_> = (0..PORTS)
        .map(|count| {
            let socket = tcp(&world);
            assert_eq!(socket.bind(any), Ok(()), "after {count}");
            socket
        })
        .collect();
    let mut ports: Vec<_> = sockets.iter().map(local_port).collect();
    ports.sort_unstable();
    assert!(ports.iter().copied().eq(FIRST..=65535));
    let socket = tcp(&world);
    assert_eq!(socket.bind(any), Err(BindError::Limit(ALL_PORTS)));
    let peer = world.at_peer(80);
    assert_eq!(socket.connect(peer), Err(ConnectError::Limit(ALL_PORTS)));
    // Ports below the range are not selected.
    let low = tcp(&world);
    assert_eq!(low.bind(world.at_subject(FIRST - 1)), Ok(()));
    let given = sockets.swap_remove(PORTS / 2);
    let port = local_port(&given);
    drop(given);
    assert_eq!(socket.bind(any), Ok(()));
    assert_eq!(local_port(&socket), port);
}

fn all_udp(context: &Context) {
    let mut world = context.world_with(&plenty(context), Options::default());
    let open = |world: &World| -> UdpSocket<Watched> {
        let socket = world.net.udp().expect("there is room");
        socket.set_nonblocking(true);
        socket
    };
    let mut sockets: Vec<_> = (FIRST..=65535)
        .map(|port| {
            let socket = open(&world);
            assert_eq!(socket.bind(world.at_subject(port)), Ok(()), "{port}");
            socket
        })
        .collect();
    let (socket, peer) = (open(&world), world.at_peer(9000));
    let bound = socket.bind(world.at_subject(0));
    assert_eq!(bound, Err(BindError::Limit(ALL_PORTS)));
    assert_eq!(socket.connect(peer), Err(BindError::Limit(ALL_PORTS)));
    let sent = socket.send_to(b"x", peer);
    assert_eq!(sent, Err(UdpSendError::Limit(ALL_PORTS)));
    let given = sockets.swap_remove(PORTS / 2);
    let port = given.local_addr().map(|at| at.port());
    drop(given);
    assert_eq!(socket.send_to(b"through", peer), Ok(()));
    let datagram = world.expect_udp();
    assert_eq!(datagram.payload, b"through");
    assert_eq!(Some(datagram.source), port);
}

fn same_again(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let (mut conn, socket) = world.connect(&listener, 5000);
    drop(listener);
    let other = tcp(&world);
    assert_eq!(other.bind(world.at_subject(80)), Ok(()));
    let limit = Limit {
        of: Resource::Ports,
        most: 1,
    };
    let same = other.connect(world.at_peer(5000));
    assert_eq!(same, Err(ConnectError::Limit(limit)));
    // The existing connection is unchanged, and the port works for another peer.
    world.give(&mut conn, b"alive");
    assert_eq!(socket.recv_with(|bytes| bytes.len()), Ok(5));
    let begun = other.connect(world.at_peer(5001));
    assert_eq!(begun, Err(ConnectError::WouldBlock));
    let syn = world.expect_tcp("a SYN", |tcp| tcp.has(SYN));
    assert_eq!((syn.source, syn.destination), (80, 5001));
}

fn backlog_too_large(context: &Context) {
    let mut config = context.config();
    config.limits.tcp_sockets = 8;
    let mut world = context.world_with(&config, Options::default());
    let socket = tcp(&world);
    let limit = Limit {
        of: Resource::Backlog,
        most: 8,
    };
    assert_eq!(socket.listen(9), Err(ListenError::NotBound));
    assert_eq!(socket.bind(world.at_subject(80)), Ok(()));
    assert_eq!(socket.listen(9), Err(ListenError::Limit(limit)));
    assert_eq!(socket.listen(usize::MAX), Err(ListenError::Limit(limit)));
    // The socket is unchanged.
    assert_eq!(socket.listen(8), Ok(()));
    world.connect(&socket, 5000);
}

fn backlog_full(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 2);
    for port in [5000, 5001] {
        let mut conn = Conn::new(port, 80);
        world.send_syn(&mut conn);
        world.finish_handshake(&mut conn);
        world.run(Duration::from_millis(10));
    }
    let before = world.statistics();
    let mut late = Conn::new(5002, 80);
    let again = late.clone();
    // The connecting side gets neither SYN-ACK nor RST.
    for _ in 0..3 {
        late = again.clone();
        world.send_syn(&mut late);
        world.never_tcp(Duration::from_millis(300), "an answer", |tcp| {
            tcp.destination == 5002
        });
    }
    let after = world.statistics();
    assert_eq!(after.no_room - before.no_room, 3, "each SYN is counted");
    assert_eq!(after.tcp_sockets, before.tcp_sockets);
    // The accept queue has the first connections in order, and no other.
    assert!(listener.readiness().contains(Readiness::READABLE));
    let (_first, peer) = world.accept(&listener);
    assert_eq!(peer, world.at_peer(5000));
    late = again;
    world.send_syn(&mut late);
    world.finish_handshake(&mut late);
    assert_eq!(world.accept(&listener).1, world.at_peer(5001));
    let (socket, peer) = world.accept(&listener);
    assert_eq!(peer, world.at_peer(5002));
    world.give(&mut late, b"served");
    assert_eq!(socket.recv_with(|bytes| bytes.len()), Ok(6));
    assert_eq!(world.statistics().no_room, after.no_room);
    assert!(!listener.readiness().contains(Readiness::READABLE));
}

/// Checks the error for exhausted packet memory.
fn check_memory(limit: Limit, most: usize) {
    let of = Resource::PacketMemory;
    assert_eq!(limit, Limit { of, most });
}

fn send_memory(context: &Context) {
    const MEMORY: usize = 256 << 10;
    let mut config = context.config();
    config.limits.packet_memory = MEMORY;
    let mut world = context.world_with(&config, Options::default());
    let listener = world.listen(80, 32);
    let mut all: Vec<_> = (0..20)
        .map(|at| world.connect(&listener, 5000 + at))
        .collect();
    let udp = world.net.udp().unwrap();
    udp.set_nonblocking(true);
    udp.bind(world.at_subject(53)).unwrap();
    // The peers neither acknowledge nor open their windows.
    let bytes = pattern(1 << 20);
    let mut sent = vec![0; all.len()];
    for (count, (_, socket)) in sent.iter_mut().zip(&all) {
        loop {
            match socket.send(&bytes[*count..*count + 1000]) {
                Ok(more) => *count += more,
                Err(error) => break assert_eq!(error, SendError::WouldBlock),
            }
        }
        assert!(*count <= 2 * config.limits.send_buffer, "{count}");
    }
    context.note(format!(
        "{} bytes were taken from 20 senders",
        sent.iter().sum::<usize>()
    ));
    match udp.send_to(&bytes[..1000], world.at_peer(9000)) {
        Ok(()) | Err(UdpSendError::WouldBlock) => {}
        Err(UdpSendError::Limit(limit)) => check_memory(limit, MEMORY),
        Err(error) => panic!("{error:?}"),
    }
    let more = tcp(&world);
    match more.connect(world.at_peer(81)) {
        Err(ConnectError::WouldBlock) => {}
        Err(ConnectError::Limit(limit)) => check_memory(limit, MEMORY),
        other => panic!("{other:?}"),
    }
    let more = tcp(&world);
    more.bind(world.at_subject(82)).unwrap();
    match more.listen(1) {
        Ok(()) => {}
        Err(ListenError::Limit(limit)) => check_memory(limit, MEMORY),
        other => panic!("{other:?}"),
    }
    // When the peers acknowledge, all bytes arrive, and memory is free again.
    world.inbox.clear();
    let mut got = vec![Vec::new(); all.len()];
    let until = world.now() + Duration::from_secs(600);
    while got.iter().zip(&sent).any(|(got, sent)| got.len() < *sent) {
        assert!(world.now() < until, "some bytes don't come");
        let mut heard = vec![false; all.len()];
        world.run(Duration::from_millis(10));
        while let Some(packet) = world.inbox.pop_front() {
            let Some(tcp) = packet.tcp() else { continue };
            let Some(at) = all.iter().position(|(conn, _)| conn.owns(tcp)) else {
                continue;
            };
            assert!(!tcp.has(RST), "no connection may break");
            let conn = &mut all[at].0;
            if tcp.seq == conn.ack {
                got[at].extend_from_slice(&tcp.payload);
                conn.ack = conn.ack.wrapping_add(tcp.span());
            }
            heard[at] = true;
        }
        for ((conn, _), _) in all.iter_mut().zip(heard).filter(|(_, heard)| *heard) {
            world.send(conn, ACK, b"");
        }
    }
    assert!(
        got.iter()
            .zip(&sent)
            .all(|(got, sent)| *got == bytes[..*sent])
    );
    for (_, socket) in &all {
        assert_eq!(socket.send(b"more"), Ok(4));
    }
}

fn flood(context: &Context) {
    let mut config = context.config();
    config.limits.datagrams = 8;
    let mut world = context.world_with(&config, Options::default());
    let bound = |world: &World, port| {
        let socket = world.net.udp().unwrap();
        socket.bind(world.at_subject(port)).unwrap();
        socket.set_nonblocking(true);
        socket
    };
    let (busy, quiet) = (bound(&world, 53), bound(&world, 54));
    let round = |world: &mut World| {
        for _ in 0..100 {
            world.send_udp(9000, 53, &[1; 1200]);
        }
        world.run(Duration::from_millis(5));
    };
    // In the second round eight datagrams are queued, perhaps in eight frames of the device: no
    // more are held.
    (0..2).for_each(|_| round(&mut world));
    let (before, live) = (world.statistics().no_room, memory::live());
    assert_eq!(before, 192);
    (0..100).for_each(|_| round(&mut world));
    assert_eq!(world.statistics().no_room, before + 10_000, "all counted");
    let grown = memory::live().saturating_sub(live);
    assert!(grown < 4096, "{grown} bytes more");
    world.send_udp(9001, 54, b"through");
    world.run(Duration::from_millis(5));
    assert_eq!(
        quiet.recv_with(|bytes, _| bytes.to_vec()),
        Ok(b"through".to_vec())
    );
    // The socket with a full queue can send, and receives again after it was read.
    let peer: IpAddr = world.peer();
    assert_eq!(busy.send_to(b"busy", (peer, 9000).into()), Ok(()));
    assert_eq!(world.expect_udp().payload, b"busy");
    for _ in 0..8 {
        assert_eq!(busy.recv_with(|bytes, _| bytes.len()), Ok(1200));
    }
    let empty = busy.recv_with(|_, _| ());
    assert_eq!(empty, Err(UdpRecvError::WouldBlock));
    world.send_udp(9000, 53, b"again");
    world.run(Duration::from_millis(5));
    assert_eq!(busy.recv_with(|bytes, _| bytes.len()), Ok(5));
}
