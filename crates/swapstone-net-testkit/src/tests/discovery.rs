// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbor discovery with invalid or forged messages (RFC 4861), and the path MTU (RFC 8201).

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use super::hosts::{advertisement, slaac_world};
use crate::context::{Context, Test};
use crate::wire::{Body, Icmp, Ip, Mac, Packet, Transport, Udp};
use crate::world::{PEER_MAC, PEER_V6, SUBJECT_MAC, SUBJECT_V6, World};

pub(super) const TESTS: &[Test] = &[
    Test::v6(
        "discovery: an option of length 0, or a truncated one, is dropped and counted",
        no_length,
    ),
    Test::v6(
        "discovery: a link-layer address is read from its own option only",
        among_options,
    ),
    Test::v6(
        "discovery: an unspecified source with a link-layer address option is dropped",
        from_nobody,
    ),
    Test::v6(
        "discovery: fragmented messages are dropped (RFC 6980)",
        in_fragments,
    ),
    Test::v6(
        "discovery: a redirect is accepted from the router only",
        redirected,
    ),
    Test::v6("discovery: the router's redirect is followed", followed),
    Test::v6(
        "discovery: an invalid path MTU is ignored (RFC 8201)",
        impossible_mtu,
    ),
    Test::v6("discovery: a valid path MTU is accepted", path_mtu),
];

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// A host that is not a router.
const STRANGER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0x66);
/// An address without a host.
const ELSEWHERE: Mac = [2, 0, 0, 0, 0, 0x66];

/// A message about `target` with these options.
fn message(kind: u8, flags: u8, target: Ipv6Addr, options: &[&[u8]]) -> Packet {
    let mut body = vec![flags, 0, 0, 0];
    body.extend(target.octets());
    body.extend(options.concat());
    Packet {
        to: SUBJECT_MAC,
        from: PEER_MAC,
        body: Body::Ip(Ip {
            source: PEER_V6.into(),
            destination: SUBJECT_V6.into(),
            hops: 255,
            transport: Transport::Icmp(Icmp {
                kind,
                code: 0,
                body,
            }),
        }),
    }
}

fn option(kind: u8, length: u8, address: Mac) -> Vec<u8> {
    [&[kind, length], &address[..]].concat()
}

/// Returns the Ethernet addresses to which advertisements were sent within a second.
fn answers(world: &mut World) -> Vec<Mac> {
    world.run(Duration::from_secs(1));
    let sent = world.inbox.drain(..);
    sent.filter(|packet| packet.icmp().is_some_and(|icmp| icmp.kind == ADVERTISEMENT))
        .map(|packet| packet.to)
        .collect()
}

/// Returns the Ethernet address to which a datagram for the peer is sent.
fn way(world: &mut World) -> Mac {
    let peer = world.at_peer(9);
    way_to(world, peer)
}

/// Returns the Ethernet address to which a datagram for a host is sent.
fn way_to(world: &mut World, whom: SocketAddr) -> Mac {
    world.run(Duration::from_millis(10));
    let socket = world.net.udp().expect("a socket");
    socket.send_to(b"which way?", whom).expect("a datagram");
    world.expect("a datagram", |packet| packet.udp().map(|_| packet.to))
}

fn no_length(context: &Context) {
    let mut world = context.world();
    assert_eq!(way(&mut world), PEER_MAC);
    world.resolves = false;
    let before = world.statistics().malformed;
    let lies: [(u8, &[u8]); 4] = [
        (0, &ELSEWHERE),
        (0, &[]),
        (2, &ELSEWHERE),
        (1, &ELSEWHERE[..4]),
    ];
    for (length, rest) in lies {
        let one = [&[1, length], rest].concat();
        world.inject(&message(SOLICITATION, 0, SUBJECT_V6, &[&one]).bytes());
        let other = [&[2, length], rest].concat();
        for flags in [0x20, 0x60] {
            world.inject(&message(ADVERTISEMENT, flags, PEER_V6, &[&other]).bytes());
        }
        assert_eq!(answers(&mut world), [] as [Mac; 0], "length {length}");
        assert_eq!(way(&mut world), PEER_MAC, "length {length}");
    }
    assert_eq!(world.statistics().malformed - before, 12);
}

fn among_options(context: &Context) {
    let mut world = context.world();
    world.resolves = false;
    // A nonce (RFC 3971) has the length of an address.
    let (nonce, own) = (option(14, 1, ELSEWHERE), option(1, 1, PEER_MAC));
    world.inject(&message(SOLICITATION, 0, SUBJECT_V6, &[&nonce, &own]).bytes());
    assert_eq!(answers(&mut world), [PEER_MAC]);
    let moved = option(2, 1, ELSEWHERE);
    world.inject(&message(ADVERTISEMENT, 0x20, PEER_V6, &[&nonce]).bytes());
    assert_eq!(way(&mut world), PEER_MAC, "it has no link-layer address");
    let unknown = option(14, 1, [2, 0, 0, 0, 0, 0x77]);
    world.inject(&message(ADVERTISEMENT, 0x60, PEER_V6, &[&unknown, &moved]).bytes());
    assert_eq!(way(&mut world), ELSEWHERE, "the peer has moved");
}

fn from_nobody(context: &Context) {
    let mut world = context.world();
    world.resolves = false;
    let ask = |options: &[&[u8]]| {
        let mut packet = message(SOLICITATION, 0, SUBJECT_V6, options);
        let Body::Ip(ip) = &mut packet.body else {
            unreachable!("it was made so")
        };
        ip.source = Ipv6Addr::UNSPECIFIED.into();
        let last = SUBJECT_V6.octets();
        let group = format!(
            "ff02::1:ff{:02x}:{:02x}{:02x}",
            last[13], last[14], last[15]
        );
        ip.destination = IpAddr::V6(group.parse().expect("an address"));
        packet.to = [0x33, 0x33, 0xff, last[13], last[14], last[15]];
        packet.bytes()
    };
    world.inject(&ask(&[&option(1, 1, ELSEWHERE)]));
    assert_eq!(answers(&mut world), [] as [Mac; 0]);
    // Without the option it is duplicate address detection.
    world.inject(&ask(&[]));
    assert_eq!(answers(&mut world), [[0x33, 0x33, 0, 0, 0, 1]]);
}

/// Sends the payload of an IPv6 frame in two fragments, the first with this number of bytes.
fn in_two(world: &mut World, whole: &[u8], first: u16) {
    let (protocol, hops) = (whole[20], whole[21]);
    let (one, other) = whole[54..].split_at(usize::from(first));
    for (offset, more, bytes) in [(0, true, one), (first, false, other)] {
        let mut body = vec![protocol, 0];
        body.extend((offset | u16::from(more)).to_be_bytes());
        body.extend([0, 0, 0, 7]);
        body.extend(bytes);
        let mut fragment = world.packet(Transport::Other(44, body));
        if let Body::Ip(ip) = &mut fragment.body {
            ip.hops = hops;
        }
        world.inject(&fragment.bytes());
    }
}

fn in_fragments(context: &Context) {
    let mut world = context.world();
    assert_eq!(way(&mut world), PEER_MAC);
    let moved = option(2, 1, ELSEWHERE);
    let nonce = option(14, 1, ELSEWHERE);
    let whole = message(ADVERTISEMENT, 0x20, PEER_V6, &[&moved, &nonce]).bytes();
    // The first fragment contains the whole option.
    in_two(&mut world, &whole, 32);
    assert_eq!(way(&mut world), PEER_MAC);
    // Unfragmented, it is accepted.
    world.inject(&whole);
    assert_eq!(way(&mut world), ELSEWHERE);
}

/// A redirect for `whom` to another host.
fn redirect(from: Ipv6Addr, whom: Ipv6Addr) -> Packet {
    let moved = option(2, 1, ELSEWHERE);
    let mut packet = message(137, 0, STRANGER, &[&whom.octets(), &moved]);
    if let Body::Ip(ip) = &mut packet.body {
        ip.source = from.into();
    }
    packet
}

fn redirected(context: &Context) {
    let mut world = context.world();
    assert_eq!(way(&mut world), PEER_MAC);
    world.inject(&redirect(STRANGER, PEER_V6).bytes());
    assert_eq!(way(&mut world), PEER_MAC);
}

fn followed(context: &Context) {
    if context.backend.name == "smoltcp" {
        context.unavailable("smoltcp looks at no redirect");
    }
    let mut world = slaac_world(context);
    let router = advertisement(3600, 255);
    world.inject(&router.bytes());
    world.run(Duration::from_secs(5));
    let far = Ipv6Addr::new(0x2001, 0xdb8, 0xffff, 0, 0, 0, 0, 1);
    let whom = SocketAddr::new(far.into(), 9);
    assert_eq!(way_to(&mut world, whom), PEER_MAC);
    world.inject(&redirect(STRANGER, far).bytes());
    assert_eq!(way_to(&mut world, whom), PEER_MAC, "a stranger's");
    let Some(IpAddr::V6(from)) = router.ip().map(|ip| ip.source) else {
        unreachable!("it was made so")
    };
    world.inject(&redirect(from, far).bytes());
    assert_eq!(way_to(&mut world, whom), ELSEWHERE);
}

/// The peer's response to a datagram: packet too big with this MTU.
fn too_big(world: &World, mtu: u32) -> Vec<u8> {
    let mut quoted = world.packet(Transport::Udp(Udp {
        source: 9,
        destination: 9,
        payload: vec![0; 64],
    }));
    if let Body::Ip(ip) = &mut quoted.body {
        std::mem::swap(&mut ip.source, &mut ip.destination);
    }
    let mut body = mtu.to_be_bytes().to_vec();
    body.extend(&quoted.bytes()[14..]);
    world.frame(Transport::Icmp(Icmp {
        kind: 2,
        code: 0,
        body,
    }))
}

fn path_mtu(context: &Context) {
    if context.backend.name == "smoltcp" {
        context.unavailable("smoltcp has no discovery of a path's MTU");
    }
    let mut world = context.world();
    way(&mut world);
    let frame = too_big(&world, 1300);
    world.inject(&frame);
    world.run(Duration::from_millis(10));
    let socket = world.net.udp().expect("a socket");
    socket
        .send_to(&[7; 1400], world.at_peer(9))
        .expect("it fits");
    world.run(Duration::from_millis(10));
    let sent = world.inbox.drain(..);
    let sizes: Vec<usize> = sent.map(|packet| packet.bytes().len() - 14).collect();
    assert_eq!(sizes.len(), 2, "{sizes:?}");
    assert!(sizes.iter().all(|&size| size <= 1300), "{sizes:?}");
}

/// The number of packets of the response to a fragmented request of 2800 bytes; 0 if the stack does
/// not reassemble.
fn in_pieces(world: &mut World) -> usize {
    let question = world.frame(Transport::Icmp(Icmp {
        kind: 128,
        code: 0,
        body: vec![7; 2800],
    }));
    in_two(world, &question, 1400);
    world.run(Duration::from_millis(10));
    let sent = world.inbox.drain(..);
    sent.map(|packet| {
        let size = packet.bytes().len() - 14;
        assert!(size <= 1500, "{size} bytes");
    })
    .count()
}

fn impossible_mtu(context: &Context) {
    let mut world = context.world();
    let socket = world.net.udp().expect("a socket");
    way(&mut world);
    let pieces = in_pieces(&mut world);
    context.note(format!("{pieces} pieces of an answer of 2800 bytes"));
    for mtu in [0, 1, 40, 47, 48, 55, 56, 1279, 1501, 9000, 0xffff_ffff_u32] {
        let frame = too_big(&world, mtu);
        world.inject(&frame);
        world.run(Duration::from_millis(10));
        world.inbox.clear();
        // A packet that fits is not fragmented.
        socket
            .send_to(&[7; 1400], world.at_peer(9))
            .expect("it fits");
        let size = world.expect("a datagram", |packet| {
            packet.udp().map(|udp| udp.payload.len())
        });
        assert_eq!(size, 1400, "after an MTU of {mtu}");
        assert_eq!(in_pieces(&mut world), pieces, "after an MTU of {mtu}");
    }
}
