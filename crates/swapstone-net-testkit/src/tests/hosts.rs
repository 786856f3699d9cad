// SPDX-License-Identifier: MIT OR Apache-2.0
//! Hosts and neighbors: ARP, neighbor discovery, SLAAC, gateways, echo.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use swapstone_net::{Cidr, Stack};
use swapstone_net_link::Options;

use crate::context::{Context, Test};
use crate::wire::{Arp, Body, Icmp, Ip, Packet, Transport};
use crate::world::{PEER_MAC, PEER_V4, PEER_V6, SUBJECT_MAC, SUBJECT_V4, SUBJECT_V6, World};

pub(super) const TESTS: &[Test] = &[
    Test::both("host: an echo request gets a reply", echo),
    Test::both(
        "host: an echo request for another host is ignored",
        echo_other,
    ),
    Test::once(
        "host: an ARP request for its address gets a reply",
        arp_answered,
    ),
    Test::once(
        "host: an ARP request for another host is ignored",
        arp_other,
    ),
    Test::v6(
        "host: a neighbor solicitation gets an advertisement",
        solicitation,
    ),
    Test::v6(
        "host: a solicitation with a hop limit below 255 is ignored",
        solicitation_far,
    ),
    Test::v6(
        "host: it has a link-local address and responds to it",
        link_local,
    ),
    Test::both(
        "host: a neighbor with a new link-layer address is resolved again",
        neighbour_moves,
    ),
    Test::both("host: packets to other networks go to the gateway", gateway),
    Test::v6(
        "host: a router advertisement gives an address and a gateway (SLAAC)",
        slaac,
    ),
    Test::v6(
        "host: without SLAAC an advertisement gives no address",
        no_slaac,
    ),
    Test::v6(
        "host: an advertised address is removed after its lifetime",
        slaac_ends,
    ),
    Test::v6(
        "host: an advertisement with a hop limit below 255 is ignored",
        slaac_far,
    ),
];

fn echo(context: &Context) {
    let mut world = context.world();
    // A peer resolves the Ethernet address first, and so provides its own.
    if world.subject().is_ipv4() {
        ask_arp(&mut world, SUBJECT_V4);
    } else {
        solicit(&mut world, SUBJECT_V6, 255);
    }
    world.resolves = true;
    let (ask, answer) = if world.subject().is_ipv4() {
        (8, 0)
    } else {
        (128, 129)
    };
    for size in [0, 1, 56, 1400] {
        let mut body = vec![0x12, 0x34, 0, 7];
        body.extend(vec![0x55; size]);
        let request = Icmp {
            kind: ask,
            code: 0,
            body: body.clone(),
        };
        let frame = world.frame(Transport::Icmp(request));
        world.inject(&frame);
        let got = world.expect(&format!("an answer with {size} bytes"), |packet| {
            let icmp = packet.icmp().filter(|icmp| icmp.kind == answer)?;
            Some((packet.ip()?.destination, icmp.body.clone()))
        });
        assert_eq!(got, (world.peer(), body));
    }
}

fn echo_other(context: &Context) {
    let mut world = context.world();
    let kind = if world.subject().is_ipv4() { 8 } else { 128 };
    let mut packet = world.packet(Transport::Icmp(Icmp {
        kind,
        code: 0,
        body: vec![0, 1, 0, 1],
    }));
    if let Body::Ip(ip) = &mut packet.body {
        ip.destination = match ip.destination {
            IpAddr::V4(_) => Ipv4Addr::new(10, 0, 0, 77).into(),
            IpAddr::V6(_) => Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 0x77).into(),
        };
    }
    world.inject(&packet.bytes());
    let answer = world.find(Duration::from_secs(1), |packet| packet.icmp().cloned());
    assert_eq!(answer, None);
}

fn ask_arp(world: &mut World, whom: Ipv4Addr) -> Option<Arp> {
    world.resolves = false;
    world.inbox.clear();
    let question = Packet {
        to: [0xff; 6],
        from: PEER_MAC,
        body: Body::Arp(Arp {
            operation: 1,
            sender: (PEER_MAC, PEER_V4),
            target: ([0; 6], whom),
        }),
    };
    world.inject(&question.bytes());
    world.find(Duration::from_secs(1), |packet| match packet.body {
        Body::Arp(arp) if arp.operation == 2 => Some(arp),
        _ => None,
    })
}

fn arp_answered(context: &Context) {
    let mut world = context.world();
    let answer = ask_arp(&mut world, SUBJECT_V4).expect("an answer");
    assert_eq!(answer.sender, (SUBJECT_MAC, SUBJECT_V4));
    assert_eq!(answer.target, (PEER_MAC, PEER_V4));
}

fn arp_other(context: &Context) {
    let mut world = context.world();
    assert_eq!(ask_arp(&mut world, Ipv4Addr::new(10, 0, 0, 9)), None);
}

/// Sends an ARP request; returns the reply.
fn solicit(world: &mut World, whom: Ipv6Addr, hops: u8) -> Option<Icmp> {
    world.resolves = false;
    world.inbox.clear();
    let last = &whom.octets()[13..];
    let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
    group[13..].copy_from_slice(last);
    let mut body = vec![0; 4];
    body.extend(whom.octets());
    body.extend([1, 1]);
    body.extend(PEER_MAC);
    let question = Packet {
        to: [0x33, 0x33, 0xff, last[0], last[1], last[2]],
        from: PEER_MAC,
        body: Body::Ip(Ip {
            source: PEER_V6.into(),
            destination: IpAddr::from(group),
            hops,
            transport: Transport::Icmp(Icmp {
                kind: 135,
                code: 0,
                body,
            }),
        }),
    };
    world.inject(&question.bytes());
    world.find(Duration::from_secs(1), |packet| {
        let icmp = packet.icmp().filter(|icmp| icmp.kind == 136)?;
        assert_eq!(packet.ip()?.hops, 255);
        Some(icmp.clone())
    })
}

fn solicitation(context: &Context) {
    let mut world = context.world();
    let answer = solicit(&mut world, SUBJECT_V6, 255).expect("an answer");
    assert_eq!(answer.body[4..20], SUBJECT_V6.octets());
    assert_eq!(answer.body[20..28], [2, 1, 2, 0, 0, 0, 0, 1]);
    // The Solicited flag.
    assert_eq!(answer.body[0] & 0x40, 0x40);
    assert_eq!(solicit(&mut world, PEER_V6, 255), None);
}

fn solicitation_far(context: &Context) {
    let mut world = context.world();
    assert_eq!(solicit(&mut world, SUBJECT_V6, 254), None);
}

/// The link-local address derived from the subject's Ethernet address.
const LINK_LOCAL: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0x00ff, 0xfe00, 1);

fn link_local(context: &Context) {
    let mut world = context.world();
    let addresses = world.net.with(|stack| stack.addresses());
    let local = addresses.iter().find_map(|cidr| match cidr.address {
        IpAddr::V6(v6) if v6.segments()[0] == 0xfe80 => Some(v6),
        _ => None,
    });
    let local = local.expect("a link-local address");
    context.note(format!("{local}"));
    assert!(
        solicit(&mut world, local, 255).is_some(),
        "it is answered for"
    );
    assert!(
        local == LINK_LOCAL || local.segments()[1..4] == [0; 3],
        "{local}"
    );
}

fn neighbour_moves(context: &Context) {
    let mut world = context.world();
    let socket = world.net.udp().unwrap();
    socket.set_nonblocking(true);
    let mut moved = [2, 0, 0, 0, 0, 9];
    socket.send_to(b"x", world.at_peer(9)).unwrap();
    let to = world.expect("a datagram", |packet| packet.udp().map(|_| packet.to));
    assert_eq!(to, PEER_MAC);
    // A neighbor that does not respond is resolved again soon.
    world.resolves = false;
    for _ in 0..3000 {
        world.run(Duration::from_secs(1));
        let _ = socket.send_to(b"x", world.at_peer(9));
        let question = world.find(Duration::from_millis(10), |packet| match &packet.body {
            Body::Arp(arp) if arp.operation == 1 => Some(arp.sender),
            Body::Ip(_) if packet.icmp().is_some_and(|icmp| icmp.kind == 135) => {
                Some((packet.from, SUBJECT_V4))
            }
            _ => None,
        });
        if question.is_some() {
            moved[0] = 0;
            break;
        }
    }
    assert_eq!(moved[0], 0, "it is never asked for again");
}

fn gateway(context: &Context) {
    let mut config = context.config();
    config.gateway_v4 = Some(Ipv4Addr::new(10, 0, 0, 254));
    config.gateway_v6 = Some("fd00::fe".parse().unwrap());
    let mut world = context.world_with(&config, Options::default());
    world.resolves = false;
    let far: IpAddr = if world.subject().is_ipv4() {
        Ipv4Addr::new(192, 0, 2, 1).into()
    } else {
        "2001:db8::1".parse().unwrap()
    };
    let socket = world.net.udp().unwrap();
    socket.set_nonblocking(true);
    socket.send_to(b"far", (far, 9).into()).unwrap();
    let asked = world.expect("a question", |packet| match &packet.body {
        Body::Arp(arp) if arp.operation == 1 => Some(IpAddr::from(arp.target.1)),
        Body::Ip(_) => {
            let icmp = packet.icmp().filter(|icmp| icmp.kind == 135)?;
            let target: [u8; 16] = icmp.body[4..20].try_into().ok()?;
            Some(IpAddr::from(target))
        }
        Body::Arp(_) => None,
    });
    let expected: IpAddr = if world.subject().is_ipv4() {
        Ipv4Addr::new(10, 0, 0, 254).into()
    } else {
        "fd00::fe".parse().unwrap()
    };
    assert_eq!(asked, expected);
}

/// A router advertisement for 2001:db8:1::/64 with this lifetime in seconds.
pub(super) fn advertisement(seconds: u32, hops: u8) -> Packet {
    let mut body = vec![64, 0, 0x07, 0x08, 0, 0, 0, 0, 0, 0, 0, 0];
    // The router's Ethernet address.
    body.extend([1, 1]);
    body.extend(PEER_MAC);
    // The prefix, on-link and for SLAAC.
    body.extend([3, 4, 64, 0xc0]);
    body.extend(seconds.to_be_bytes());
    body.extend(seconds.to_be_bytes());
    body.extend([0; 4]);
    body.extend(Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 0).octets());
    Packet {
        to: [0x33, 0x33, 0, 0, 0, 1],
        from: PEER_MAC,
        body: Body::Ip(Ip {
            source: Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2).into(),
            destination: Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1).into(),
            hops,
            transport: Transport::Icmp(Icmp {
                kind: 134,
                code: 0,
                body,
            }),
        }),
    }
}

/// The address in the advertised network.
fn advertised(world: &World) -> Option<Cidr> {
    let addresses = world.net.with(|stack| stack.addresses());
    addresses.into_iter().find(|cidr| match cidr.address {
        IpAddr::V6(v6) => v6.segments()[..4] == [0x2001, 0xdb8, 1, 0],
        IpAddr::V4(_) => false,
    })
}

pub(super) fn slaac_world(context: &Context) -> World {
    let mut config = context.config();
    config.slaac = true;
    context.world_with(&config, Options::default())
}

fn slaac(context: &Context) {
    let mut world = slaac_world(context);
    world.inject(&advertisement(3600, 255).bytes());
    world.run(Duration::from_secs(5));
    let address = advertised(&world).expect("an advertised address");
    context.note(format!("{}", address.address));
    assert_eq!(address.prefix, 64);
    let IpAddr::V6(v6) = address.address else {
        unreachable!("it was chosen so")
    };
    assert!(solicit(&mut world, v6, 255).is_some(), "it is answered for");
    // The router is the default gateway.
    world.resolves = true;
    let socket = world.net.udp().unwrap();
    let far: IpAddr = "2001:db8:ffff::1".parse().unwrap();
    socket.set_nonblocking(true);
    socket.send_to(b"far", (far, 9).into()).unwrap();
    let (to, source) = world.expect("a datagram", |packet| {
        packet.udp()?;
        Some((packet.to, packet.ip()?.source))
    });
    assert_eq!(to, PEER_MAC);
    assert_eq!(
        source, address.address,
        "the address that is known out there"
    );
}

fn no_slaac(context: &Context) {
    let mut world = context.world();
    world.inject(&advertisement(3600, 255).bytes());
    world.run(Duration::from_secs(5));
    assert_eq!(advertised(&world), None);
}

fn slaac_ends(context: &Context) {
    let mut world = slaac_world(context);
    world.inject(&advertisement(7300, 255).bytes());
    world.run(Duration::from_secs(5));
    assert!(advertised(&world).is_some());
    world.run(Duration::from_secs(7200));
    assert!(advertised(&world).is_some());
    world.run(Duration::from_secs(200));
    assert_eq!(advertised(&world), None);
}

fn slaac_far(context: &Context) {
    let mut world = slaac_world(context);
    world.inject(&advertisement(3600, 254).bytes());
    world.run(Duration::from_secs(5));
    assert_eq!(advertised(&world), None);
}
