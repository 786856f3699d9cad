// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use swapstone_net::error::{BindError, Limit, Resource, UdpRecvError, UdpSendError};
use swapstone_net::{Readiness, UdpSocket};
use swapstone_net_link::Options;

use super::data::pattern;
use crate::context::{Context, Family, Test};
use crate::watched::Watched;
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both("udp: a datagram comes with its sender", from_sender),
    Test::both("udp: a datagram goes to an address", to_address),
    Test::both("udp: peeking removes nothing", peeked),
    Test::both(
        "udp: a truncated datagram returns its full length",
        truncated,
    ),
    Test::both("udp: an empty datagram is received", empty),
    Test::both("udp: several pieces are one datagram", pieces),
    Test::both(
        "udp: a connected socket receives from its peer only",
        connected,
    ),
    Test::both("udp: a disconnected socket receives from all", disconnected),
    Test::both(
        "udp: a port has one socket, and is free when it is closed",
        ports,
    ),
    Test::both("udp: an unbound socket gets a port", chosen_port),
    Test::both("udp: the unspecified address matches all", unspecified),
    Test::both("udp: the receive queue has the configured length", queue),
    Test::both("udp: a too large datagram names the limit", too_large),
    Test::both("udp: the largest datagram of the MTU goes through", largest),
    Test::both("udp: a blocking receive ends at its timeout", blocks),
    Test::both(
        "udp: the first datagram to an unresolved neighbor is not lost",
        first_not_lost,
    ),
    Test::both("udp: an unconnected socket needs an address", no_peer),
];

fn bound(world: &World, port: u16) -> UdpSocket<Watched> {
    let socket = world.net.udp().unwrap();
    socket.bind(world.at_subject(port)).unwrap();
    socket.set_nonblocking(true);
    socket
}

fn from_sender(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    let mut buffer = [0; 100];
    assert_eq!(socket.recv_from(&mut buffer), Err(UdpRecvError::WouldBlock));
    world.send_udp(9000, 53, b"one");
    world.send_udp(9001, 53, b"two!");
    world.run(Duration::from_millis(10));
    assert!(socket.readiness().contains(Readiness::READABLE));
    assert_eq!(socket.recv_from(&mut buffer), Ok((3, world.at_peer(9000))));
    assert_eq!(&buffer[..3], b"one");
    assert_eq!(socket.recv_from(&mut buffer), Ok((4, world.at_peer(9001))));
    assert_eq!(&buffer[..4], b"two!");
    assert_eq!(socket.recv_from(&mut buffer), Err(UdpRecvError::WouldBlock));
    assert!(!socket.readiness().contains(Readiness::READABLE));
}

fn to_address(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    socket.send_to(b"hello", world.at_peer(9000)).unwrap();
    let sent = world.expect_udp();
    assert_eq!((sent.source, sent.destination), (53, 9000));
    assert_eq!(sent.payload, b"hello");
    assert_eq!(socket.local_addr(), Some(world.at_subject(53)));
    assert_eq!(socket.peer_addr(), None);
}

fn peeked(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    world.send_udp(9000, 53, b"again");
    world.run(Duration::from_millis(10));
    let mut buffer = [0; 5];
    for _ in 0..2 {
        buffer.fill(0);
        assert_eq!(socket.peek_from(&mut buffer), Ok((5, world.at_peer(9000))));
        assert_eq!(&buffer, b"again");
    }
    assert_eq!(socket.recv_from(&mut buffer), Ok((5, world.at_peer(9000))));
    assert_eq!(socket.peek_from(&mut buffer), Err(UdpRecvError::WouldBlock));
}

fn truncated(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    world.send_udp(9000, 53, &pattern(1000));
    world.send_udp(9000, 53, b"next");
    world.run(Duration::from_millis(10));
    let mut buffer = [0; 10];
    assert_eq!(
        socket.recv_from(&mut buffer),
        Ok((1000, world.at_peer(9000)))
    );
    assert_eq!(buffer, pattern(1000)[..10]);
    assert_eq!(socket.recv_from(&mut buffer), Ok((4, world.at_peer(9000))));
}

fn empty(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    world.send_udp(9000, 53, b"");
    world.run(Duration::from_millis(10));
    let mut buffer = [0; 10];
    assert_eq!(socket.recv_from(&mut buffer), Ok((0, world.at_peer(9000))));
    socket.send_to(b"", world.at_peer(9000)).unwrap();
    assert_eq!(world.expect_udp().payload, b"");
}

fn pieces(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    let peer = world.at_peer(9000);
    socket
        .send_parts(&[b"odd", b"", b" and even"], Some(peer))
        .unwrap();
    assert_eq!(world.expect_udp().payload, b"odd and even");
}

fn connected(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    socket.connect(world.at_peer(9000)).unwrap();
    assert_eq!(socket.peer_addr(), Some(world.at_peer(9000)));
    world.send_udp(9001, 53, b"stranger");
    world.send_udp(9000, 53, b"friend");
    world.run(Duration::from_millis(10));
    let mut buffer = [0; 100];
    assert_eq!(socket.recv_from(&mut buffer), Ok((6, world.at_peer(9000))));
    assert_eq!(socket.recv_from(&mut buffer), Err(UdpRecvError::WouldBlock));
    socket.send(b"answer").unwrap();
    assert_eq!(world.expect_udp().destination, 9000);
}

fn disconnected(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    socket.connect(world.at_peer(9000)).unwrap();
    socket.disconnect().unwrap();
    assert_eq!(socket.peer_addr(), None);
    world.send_udp(9001, 53, b"stranger");
    world.run(Duration::from_millis(10));
    let mut buffer = [0; 100];
    assert_eq!(socket.recv_from(&mut buffer), Ok((8, world.at_peer(9001))));
}

fn ports(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    let other = world.net.udp().unwrap();
    assert_eq!(other.bind(world.at_subject(53)), Err(BindError::InUse));
    assert_eq!(other.bind(world.at_peer(54)), Err(BindError::NotLocal));
    assert_eq!(
        socket.bind(world.at_subject(54)),
        Err(BindError::AlreadyBound)
    );
    drop(socket);
    assert_eq!(other.bind(world.at_subject(53)), Ok(()));
    other.set_nonblocking(true);
    world.send_udp(9000, 53, b"mine");
    world.run(Duration::from_millis(10));
    assert_eq!(other.recv_with(|bytes, _| bytes.len()), Ok(4));
}

fn chosen_port(context: &Context) {
    let mut world = context.world();
    let mut ports = Vec::new();
    let mut sockets = Vec::new();
    for _ in 0..16 {
        let socket = world.net.udp().unwrap();
        socket.set_nonblocking(true);
        assert_eq!(socket.recv_with(|_, _| ()), Err(UdpRecvError::NotBound));
        socket.send_to(b"x", world.at_peer(9000)).unwrap();
        let sent = world.expect_udp();
        assert_eq!(socket.local_addr().map(|at| at.port()), Some(sent.source));
        assert!(sent.source >= 49152, "{}", sent.source);
        ports.push(i32::from(sent.source));
        sockets.push(socket);
    }
    let near = ports
        .windows(2)
        .filter(|pair| (pair[1] - pair[0]).abs() < 256);
    assert!(near.count() < 4, "the ports are a series: {ports:?}");
    ports.sort_unstable();
    ports.dedup();
    assert_eq!(ports.len(), 16);
}

fn unspecified(context: &Context) {
    let mut world = context.world();
    let socket = world.net.udp().unwrap();
    let any: std::net::IpAddr = match world.family {
        Family::V4 => Ipv4Addr::UNSPECIFIED.into(),
        Family::V6 => Ipv6Addr::UNSPECIFIED.into(),
    };
    socket.bind((any, 53).into()).unwrap();
    socket.set_nonblocking(true);
    world.send_udp(9000, 53, b"hello");
    world.run(Duration::from_millis(10));
    assert_eq!(socket.recv_with(|bytes, _| bytes.len()), Ok(5));
}

fn queue(context: &Context) {
    let mut config = context.config();
    config.limits.datagrams = 4;
    let mut world = context.world_with(&config, Options::default());
    let socket = bound(&world, 53);
    let before = world.statistics().no_room;
    for count in 0..10_u8 {
        world.send_udp(9000, 53, &[count; 100]);
    }
    world.run(Duration::from_millis(10));
    let mut got = Vec::new();
    while let Ok(first) = socket.recv_with(|bytes, _| bytes[0]) {
        got.push(first);
    }
    assert_eq!(got, [0, 1, 2, 3], "the oldest stay");
    assert_eq!(world.statistics().no_room, before + 6);
}

fn too_large(context: &Context) {
    let world = context.world();
    let socket = bound(&world, 53);
    for size in [65_508, 70_000] {
        match socket.send_to(&vec![0; size], world.at_peer(9000)) {
            Err(UdpSendError::Limit(Limit { of, most })) => {
                assert_eq!(of, Resource::DatagramBytes);
                assert!((1452..=65_507).contains(&most), "{most}");
                let fits = socket.send_to(&vec![0; most], world.at_peer(9000));
                assert_eq!(fits, Ok(()));
                context.note(format!("at most {most} bytes"));
            }
            // The IPv6 header is not part of the 65535 bytes.
            Ok(()) if size == 65_508 && !world.subject().is_ipv4() => {}
            other => panic!("{size}: {other:?}"),
        }
    }
}

fn largest(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    let size = if world.subject().is_ipv4() {
        1472
    } else {
        1452
    };
    socket.send_to(&pattern(size), world.at_peer(9000)).unwrap();
    assert_eq!(world.expect_udp().payload, pattern(size));
    world.send_udp(9000, 53, &pattern(size));
    world.run(Duration::from_millis(10));
    assert_eq!(
        socket.recv_with(|bytes, _| bytes.to_vec()),
        Ok(pattern(size))
    );
}

fn blocks(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    socket.set_timeout(Some(Duration::from_millis(300)));
    let begun = world.now();
    assert_eq!(socket.recv_with(|_, _| ()), Err(UdpRecvError::TimedOut));
    assert_eq!((world.now() - begun).as_millis(), 300);
    world.send_udp(9000, 53, b"x");
    let begun = world.now();
    assert_eq!(socket.recv_with(|bytes, _| bytes.len()), Ok(1));
    assert_eq!((world.now() - begun).as_millis(), 1);
}

fn first_not_lost(context: &Context) {
    let mut world = context.world();
    let socket = bound(&world, 53);
    socket.send_to(b"first", world.at_peer(9000)).unwrap();
    assert_eq!(world.expect_udp().payload, b"first");
}

fn no_peer(context: &Context) {
    let world = context.world();
    let socket = bound(&world, 53);
    assert_eq!(socket.send(b"x"), Err(UdpSendError::NoPeer));
}
