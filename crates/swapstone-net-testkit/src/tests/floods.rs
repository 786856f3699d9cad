// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbors that are absent, SYN floods and floods of datagrams: what others do must not stop a server.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use swapstone_net_link::Options;

use crate::addresses::{PEER_MAC, SUBJECT_MAC};
use crate::conn::{Conn, MSS_1000, Socket, received};
use crate::context::{Context, Family, Test};
use crate::wire::{ACK, Body, FIN, Ip, PSH, Packet, SYN, Transport, Udp};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both(
        "neighbors: 30 unknown clients are served beside 4 absent SYN/s",
        unknown_clients,
    ),
    Test::both(
        "neighbors: a SYN is answered without address resolution",
        without_resolution,
    ),
    Test::both(
        "neighbors: 10 unknown servers are connected beside absent ones",
        unknown_servers,
    ),
    Test::both(
        "neighbors: a known one is not replaced by a SYN from another",
        not_replaced,
    ),
    Test::both(
        "flood: after 1200 SYNs a request is answered within 50 ms",
        syn_flood,
    ),
    Test::both(
        "flood: a connection whose ACK waits in the device keeps its place",
        waiting_acks,
    ),
    Test::both(
        "limit: a connection that has ended makes room for a SYN at once",
        ended_makes_room,
    ),
    Test::both("flood: ICMP errors have a limited rate", errors),
];

/// A neighbor of the stack under test.
fn neighbor(family: Family, host: u8) -> IpAddr {
    match family {
        Family::V4 => Ipv4Addr::new(10, 0, 0, host).into(),
        Family::V6 => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, host.into()).into(),
    }
}

fn syn_from(world: &World, host: u8, mac: [u8; 6]) -> Packet {
    let mut segment = Conn::new(2000 + u16::from(host), 80).segment(SYN, b"");
    segment.options = MSS_1000.into();
    Packet {
        to: SUBJECT_MAC,
        from: mac,
        body: Body::Ip(Ip {
            source: neighbor(world.family, host),
            destination: world.subject(),
            hops: 64,
            transport: Transport::Tcp(segment),
        }),
    }
}

fn unknown_clients(context: &Context) {
    let mut world = context.world();
    let _listener = world.listen(80, 128);
    world.absent = (200..=207)
        .map(|host| neighbor(world.family, host))
        .collect();
    let mut absent = 200..=207;
    let mut clients = 10..40;
    let mut answered = Vec::new();
    // Two seconds: four absent addresses a second, and all clients in the first half second.
    for _ in 0..8 {
        if let Some(host) = absent.next() {
            let syn = syn_from(&world, host, [2, 9, 0, 0, 0, host]);
            world.inject(&syn.bytes());
        }
        for host in clients.by_ref().take(15) {
            let syn = syn_from(&world, host, PEER_MAC);
            world.inject(&syn.bytes());
        }
        world.run(Duration::from_millis(250));
        for packet in world.inbox.drain(..) {
            let Some(tcp) = packet.tcp().filter(|tcp| tcp.has(SYN | ACK)) else {
                continue;
            };
            let host = (tcp.destination - 2000) as u8;
            if host < 200 && !answered.contains(&host) {
                answered.push(host);
            }
        }
    }
    assert_eq!(answered.len(), 30, "of 30 clients in 2 s");
}

fn without_resolution(context: &Context) {
    if context.backend.name == "lwip" {
        context.unavailable("lwIP resolves the address of a neighbor before it answers");
    }
    let mut world = context.world();
    let _listener = world.listen(80, 128);
    world.absent = (10..40).map(|host| neighbor(world.family, host)).collect();
    for host in 10..40 {
        let mac = [2, 9, 0, 0, 0, host];
        let syn = syn_from(&world, host, mac);
        world.inject(&syn.bytes());
        world.expect("a SYN with ACK", |packet| {
            let tcp = packet.tcp()?;
            (tcp.has(SYN | ACK) && packet.to == mac).then_some(())
        });
    }
}

fn unknown_servers(context: &Context) {
    let mut world = context.world();
    world.absent = (200..=203)
        .map(|host| neighbor(world.family, host))
        .collect();
    let sockets: Vec<_> = (200..=203)
        .chain(10..20)
        .map(|host| {
            let socket = world.net.tcp().unwrap();
            socket.set_nonblocking(true);
            let _ = socket.connect((neighbor(world.family, host), 80).into());
            socket
        })
        .collect();
    world.run(Duration::from_millis(2500));
    let mut seen: Vec<IpAddr> = world
        .inbox
        .iter()
        .filter(|packet| packet.tcp().is_some_and(|tcp| tcp.has(SYN)))
        .filter_map(|packet| packet.ip().map(|ip| ip.destination))
        .collect();
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 10, "SYNs to present neighbors: {seen:?}");
    drop(sockets);
}

fn not_replaced(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 8);
    let (mut conn, socket) = world.connect(&listener, 5000);
    // A SYN with the peer's IP address from another link-layer address.
    let mut forged = syn_from(&world, 2, [2, 9, 0, 0, 0, 9]);
    if let Body::Ip(ip) = &mut forged.body {
        ip.source = world.peer();
    }
    world.inject(&forged.bytes());
    world.run(Duration::from_millis(10));
    world.inbox.clear();
    socket.send_all(b"still here").unwrap();
    let to = world.expect("data", |packet| {
        let tcp = packet.tcp()?;
        (conn.owns(tcp) && !tcp.payload.is_empty()).then_some(packet.to)
    });
    assert_eq!(to, PEER_MAC);
    world.send(&mut conn, ACK, b"");
}

fn syn_flood(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 16);
    for port in 0..1200 {
        let mut conn = Conn::new(10_000 + port, 80);
        world.send_syn(&mut conn);
        if port % 10 == 9 {
            world.run(Duration::from_millis(1));
        }
    }
    world.inbox.clear();
    let begun = world.now();
    let (mut conn, socket) = world.connect(&listener, 5000);
    world.send(&mut conn, ACK | PSH, b"request");
    let request = world.eventually("a request", || received(&socket));
    assert_eq!(request, Ok(b"request".to_vec()));
    socket.send_all(b"answer").unwrap();
    world.expect_of(&conn, "the answer", |tcp| tcp.payload == b"answer");
    let took = world.now() - begun;
    assert!(took <= Duration::from_millis(50), "{took:?}");
    let counted = world.statistics();
    assert!(counted.no_room > 0, "{counted:?}");
}

/// A stack with a listener and room for this number of connections.
fn narrow(context: &Context, connections: usize) -> (World, Socket) {
    let mut config = context.config();
    config.limits.tcp_sockets = connections + 1;
    let world = context.world_with(&config, Options::default());
    let listener = world.listen(80, connections);
    (world, listener)
}

/// The process of the stack gets no processor for this time. What arrives waits in the device.
fn paused(world: &mut World, pause: Duration, meanwhile: impl FnOnce(&mut World)) {
    world.link.detach(0);
    meanwhile(world);
    world.run(pause);
    world.link.attach(0, world.net.clone());
    world.run(Duration::from_millis(5));
}

fn waiting_acks(context: &Context) {
    let (mut world, listener) = narrow(context, 4);
    let mut conns: Vec<Conn> = (5000..5004).map(|port| Conn::new(port, 80)).collect();
    for conn in &mut conns {
        world.send_syn(conn);
    }
    // The answers come in any order. None is waited for longer: the connections are younger than the pause.
    for _ in 0..conns.len() {
        let answer = world.expect_tcp("a SYN with ACK", |tcp| tcp.has(SYN | ACK));
        let conn = conns.iter_mut().find(|conn| conn.owns(&answer));
        conn.expect("its SYN was sent").ack = answer.seq.wrapping_add(1);
    }
    paused(&mut world, Duration::from_millis(50), |world| {
        world.send_syn(&mut Conn::new(6000, 80));
        for conn in &mut conns {
            world.send(conn, ACK | PSH, b"request");
        }
    });
    for _ in &conns {
        let (socket, _) = world.accept(&listener);
        assert_eq!(received(&socket), Some(Ok(b"request".to_vec())));
    }
}

fn ended_makes_room(context: &Context) {
    let (mut world, listener) = narrow(context, 1);
    let (mut conn, socket) = world.connect(&listener, 5000);
    drop(socket);
    let fin = world.expect_of(&conn, "a FIN", |tcp| tcp.has(FIN));
    conn.ack = fin.seq.wrapping_add(fin.span());
    let mut next = Conn::new(5001, 80);
    paused(&mut world, Duration::from_millis(5), |world| {
        world.send(&mut conn, ACK | FIN, b"");
        world.send_syn(&mut next);
    });
    let begun = world.now();
    world.finish_handshake(&mut next);
    let took = world.now() - begun;
    assert!(took <= Duration::from_millis(5), "{took:?}");
}

fn errors(context: &Context) {
    let mut world = context.world();
    // The neighbor has to be known.
    world.send_udp(3000, 9, b"first");
    world.run(Duration::from_secs(1));
    let (kind, code) = match world.family {
        Family::V4 => (3, 3),
        Family::V6 => (1, 4),
    };
    world.inbox.clear();
    let datagram = world.frame(Transport::Udp(Udp {
        source: 3000,
        destination: 9,
        payload: b"closed port".into(),
    }));
    for _ in 0..200 {
        world.inject(&datagram);
    }
    world.run(Duration::from_millis(100));
    let count = world
        .inbox
        .iter()
        .filter_map(Packet::icmp)
        .filter(|icmp| (icmp.kind, icmp.code) == (kind, code))
        .count();
    assert!((1..=25).contains(&count), "{count} errors in 100 ms");
}
