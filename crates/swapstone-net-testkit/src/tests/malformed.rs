// SPDX-License-Identifier: MIT OR Apache-2.0
//! Malformed packets are dropped and counted.

use std::time::Duration;

use swapstone_net_link::Random;

use super::data::connection;
use crate::conn::{Conn, Socket, received};
use crate::context::{Context, Test};
use crate::wire::{
    ACK, Arp, Body, FIN, Icmp, Ip, PSH, Packet, SYN, Transport, Udp, fold, sum, transport_sum,
};
use crate::world::{PEER_MAC, PEER_V4, SUBJECT_MAC, SUBJECT_V4, World};

pub(super) const TESTS: &[Test] = &[
    Test::both("malformed: every prefix of every packet", prefixes),
    Test::both(
        "malformed: invalid lengths are dropped and counted",
        lying_lengths,
    ),
    Test::both("malformed: invalid options", lying_options),
    Test::both("malformed: packets with random bits", random_bits).within(180),
    Test::both(
        "malformed: random flags and numbers on a connection",
        random_segments,
    )
    .within(180),
    Test::both("malformed: fragments that overlap or never end", fragments),
    Test::v6("malformed: invalid extension headers", extension_headers),
    Test::both("malformed: invalid addresses", martians),
];

/// Valid packets of all kinds.
fn good(world: &World, conn: &Conn) -> Vec<Packet> {
    let echo = if world.subject().is_ipv4() { 8 } else { 128 };
    let mut syn = Conn::new(7000, 80).segment(SYN, b"");
    syn.options = vec![
        2, 4, 5, 0xb4, 1, 3, 3, 7, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0,
    ];
    let mut all = vec![
        world.packet(Transport::Tcp(syn)),
        world.packet(Transport::Tcp(conn.segment(ACK | PSH, b"data"))),
        world.packet(Transport::Udp(Udp {
            source: 9,
            destination: 53,
            payload: b"data".to_vec(),
        })),
        world.packet(Transport::Icmp(Icmp {
            kind: echo,
            code: 0,
            body: vec![0, 1, 0, 1, 2, 3],
        })),
    ];
    // Neighbor discovery, and ICMP errors that quote packets of the subject.
    let quoted = world.packet(Transport::Udp(Udp::default())).bytes()[14..].to_vec();
    let kinds: &[u8] = if world.subject().is_ipv4() {
        &[3, 4, 5, 11, 12, 13]
    } else {
        &[1, 2, 3, 4, 130, 131, 133, 134, 135, 136, 137]
    };
    for &kind in kinds {
        let mut body = vec![0; 4];
        body.extend(&quoted);
        let mut packet = world.packet(Transport::Icmp(Icmp {
            kind,
            code: 0,
            body,
        }));
        if let Body::Ip(ip) = &mut packet.body {
            ip.hops = 255;
        }
        all.push(packet);
    }
    all.push(Packet {
        to: [0xff; 6],
        from: PEER_MAC,
        body: Body::Arp(Arp {
            operation: 1,
            sender: (PEER_MAC, PEER_V4),
            target: ([0; 6], SUBJECT_V4),
        }),
    });
    all
}

/// Afterwards the existing connection and new ones must work.
fn still_works(world: &mut World, conn: &mut Conn, socket: &Socket) {
    world.run(Duration::from_secs(5));
    world.inbox.clear();
    while received(socket).is_some_and(|got| !got.expect("the connection lives").is_empty()) {}
    world.give(conn, b"alive");
    assert_eq!(received(socket), Some(Ok(b"alive".to_vec())));
    let listener = world.listen(8080, 4);
    world.connect(&listener, 6000);
}

fn prefixes(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let mut count = 0;
    let before = world.statistics();
    for packet in good(&world, &conn) {
        let whole = packet.bytes();
        for length in 0..whole.len() {
            world.inject(&whole[..length]);
            count += 1;
        }
        world.run(Duration::from_millis(5));
    }
    let after = world.statistics();
    assert_eq!(after.frames_in - before.frames_in, count, "all were taken");
    let dropped = after.malformed - before.malformed;
    // Wrong lengths and checksums are counted; a few prefixes could be other valid packets.
    assert_eq!(dropped, count, "each is malformed");
    still_works(&mut world, &mut conn, &socket);
}

/// Sets the checksum of an IPv4 header, and optionally of its payload, so that only the tested
/// field is wrong.
fn seal(frame: &mut [u8], transport: Option<(usize, u8)>) {
    if frame[12..14] == [0x08, 0x00] {
        let header = (usize::from(frame[14] & 15) * 4).clamp(20, frame.len() - 14);
        frame[24..26].fill(0);
        let value = !fold(sum(&frame[14..14 + header]));
        frame[24..26].copy_from_slice(&value.to_be_bytes());
    }
    let Some((at, protocol)) = transport else {
        return;
    };
    let Ok(packet) = Packet::parse(&frame[..], true) else {
        return;
    };
    let ip = packet.ip().expect("it is IP");
    frame[at..at + 2].fill(0);
    let start = if ip.source.is_ipv4() { 34 } else { 54 };
    let value = transport_sum(ip.source, ip.destination, protocol, &frame[start..]);
    frame[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

fn lying_lengths(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let before = world.statistics().malformed;
    let v4 = world.subject().is_ipv4();
    let start = if v4 { 34 } else { 54 };
    let segment = world.frame(Transport::Tcp(conn.segment(ACK | PSH, b"data")));
    let datagram = world.frame(Transport::Udp(Udp {
        source: 9,
        destination: 53,
        payload: b"data".to_vec(),
    }));
    let mut lies: Vec<(&str, Vec<u8>)> = Vec::new();
    let mut lie = |name, of: &Vec<u8>, change: &dyn Fn(&mut Vec<u8>)| {
        let mut frame = of.clone();
        change(&mut frame);
        seal(&mut frame, None);
        lies.push((name, frame));
    };
    lie("version 5", &segment, &|frame| {
        frame[14] = 0x50 | frame[14] & 15
    });
    let field = if v4 { 16 } else { 18 };
    lie("IP longer than the frame", &segment, &|frame| {
        frame[field..field + 2].copy_from_slice(&1000_u16.to_be_bytes());
    });
    if v4 {
        lie("header of 16 bytes", &segment, &|frame| frame[14] = 0x44);
        lie("header longer than the packet", &segment, &|frame| {
            frame[14] = 0x4f;
            frame[16..18].copy_from_slice(&44_u16.to_be_bytes());
        });
        lie("IP shorter than its header", &segment, &|frame| {
            frame[16..18].copy_from_slice(&10_u16.to_be_bytes());
        });
    }
    lie("TCP header of 16 bytes", &segment, &|frame| {
        frame[start + 12] = 0x40
    });
    lie("TCP header longer than the segment", &segment, &|frame| {
        frame[start + 12] = 0xf0
    });
    for length in [0_u16, 7, 13, 1000] {
        if length == 0 && !v4 {
            // Over IPv6, 0 would mean a jumbogram.
            continue;
        }
        lie("UDP with a wrong length", &datagram, &|frame| {
            frame[start + 4..start + 6].copy_from_slice(&length.to_be_bytes());
        });
    }
    for (name, frame) in &lies {
        let count = world.statistics().malformed;
        world.inject(frame);
        world.run(Duration::from_millis(5));
        assert_eq!(world.statistics().malformed, count + 1, "{name}");
    }
    assert_eq!(world.statistics().malformed - before, lies.len() as u64);
    still_works(&mut world, &mut conn, &socket);
}

fn lying_options(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let lies: [&[u8]; 10] = [
        &[2, 0, 0, 0],
        &[2, 1, 0, 0],
        &[2, 40, 0, 0],
        &[2, 4, 0, 0],
        &[3, 3, 255, 0],
        &[8, 10, 0, 0],
        &[5, 255, 0, 0],
        &[5, 2, 5, 3],
        &[254, 0, 0, 0],
        &[1, 1, 1, 2],
    ];
    for (at, options) in lies.iter().enumerate() {
        for flags in [SYN, ACK, ACK | PSH] {
            let mut of = if flags == SYN {
                Conn::new(7000 + at as u16, 80)
            } else {
                conn.clone()
            };
            of.window = 1000;
            let mut segment = of.segment(flags, b"");
            segment.options = options.to_vec();
            world.send_tcp(segment);
        }
    }
    still_works(&mut world, &mut conn, &socket);
}

fn random_bits(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let mut random = Random::new(u64::from(context.seed));
    let packets = good(&world, &conn);
    let rounds = if context.slow { 200_000 } else { 20_000 };
    for round in 0..rounds {
        let packet = &packets[random.below(packets.len() as u64) as usize];
        let mut frame = packet.bytes();
        for _ in 0..=random.below(4) {
            let at = 12 + random.below(frame.len() as u64 - 12) as usize;
            frame[at] = random.bits() as u8;
        }
        if random.happens(300_000) {
            frame.truncate(random.below(frame.len() as u64) as usize);
        }
        // Half of them have valid checksums and are processed further. A RST or FIN that fits would
        // be accepted.
        let right_sum = random.happens(500_000) && frame.len() > 60;
        if let Some(sum) = sum_of(packet).filter(|_| right_sum) {
            seal(&mut frame, Some(sum));
        }
        let harmless = Packet::parse(&frame, true).is_ok_and(|packet| {
            packet
                .tcp()
                .is_none_or(|tcp| tcp.flags & (FIN | 4) == 0 && tcp.payload.is_empty())
        });
        if harmless || Packet::parse(&frame, true).is_err() {
            world.inject(&frame);
        }
        if round % 20 == 0 {
            world.run(Duration::from_millis(5));
            world.inbox.clear();
        }
    }
    context.note(format!("{rounds} frames"));
    still_works(&mut world, &mut conn, &socket);
}

/// The offset of a packet's transport checksum, and the protocol.
fn sum_of(packet: &Packet) -> Option<(usize, u8)> {
    let ip = packet.ip()?;
    let start = if ip.source.is_ipv4() { 34 } else { 54 };
    match (&ip.transport, ip.source.is_ipv4()) {
        (Transport::Tcp(_), _) => Some((start + 16, 6)),
        (Transport::Udp(_), _) => Some((start + 6, 17)),
        (Transport::Icmp(_), true) => Some((start + 2, 1)),
        (Transport::Icmp(_), false) => Some((start + 2, 58)),
        (Transport::Other(..), _) => None,
    }
}

fn random_segments(context: &Context) {
    let mut world = context.world();
    let mut random = Random::new(u64::from(context.seed));
    let rounds = if context.slow { 5000 } else { 300 };
    let listener = world.listen(80, 16);
    for round in 0..rounds {
        let (conn, socket) = world.connect(&listener, 1024 + round as u16);
        for _ in 0..30 {
            let mut other = conn.clone();
            let near = |number: u32, random: &mut Random| match random.below(4) {
                0 => number,
                1 => number.wrapping_add(random.below(70_000) as u32),
                2 => number.wrapping_sub(random.below(70_000) as u32),
                _ => random.bits() as u32,
            };
            other.seq = near(conn.seq, &mut random);
            other.ack = near(conn.ack, &mut random);
            other.window = random.bits() as u16;
            let payload = vec![1; random.below(1000) as usize];
            let segment = other.segment(random.bits() as u8 & 0x3f, &payload);
            world.send_tcp(segment);
            if random.happens(200_000) {
                let _ = socket.send(b"something");
            }
            if random.happens(200_000) {
                world.run(Duration::from_millis(random.below(500)));
                let _ = received(&socket);
            }
        }
        drop(socket);
        while listener.accept().is_ok() {}
        // Half-open connections of random SYNs must end before the next round.
        world.run(Duration::from_secs(300));
        world.inbox.clear();
        while listener.accept().is_ok() {}
    }
    drop(listener);
    let (mut conn, socket) = {
        let listener = world.listen(81, 4);
        world.connect(&listener, 60_000)
    };
    still_works(&mut world, &mut conn, &socket);
}

fn fragments(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let v4 = world.subject().is_ipv4();
    let mut random = Random::new(u64::from(context.seed));
    for round in 0..2000 {
        let offset = random.below(1 << 13) as u16;
        let more = random.below(2) as u16;
        let payload = vec![7; 8 * random.below(100) as usize + 8];
        let mut frame = world.packet(Transport::Other(17, payload.clone())).bytes();
        if v4 {
            frame[18..20].copy_from_slice(&(random.below(4) as u16).to_be_bytes());
            frame[20..22].copy_from_slice(&(offset | more << 13).to_be_bytes());
        } else {
            let mut body = vec![17, 0];
            body.extend((offset << 3 | more).to_be_bytes());
            body.extend((random.below(4) as u32).to_be_bytes());
            body.extend(&payload);
            frame = world.packet(Transport::Other(44, body)).bytes();
        }
        seal(&mut frame, None);
        world.inject(&frame);
        if round % 50 == 0 {
            world.run(Duration::from_millis(5));
        }
    }
    world.run(Duration::from_secs(120));
    still_works(&mut world, &mut conn, &socket);
}

fn extension_headers(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let mut random = Random::new(u64::from(context.seed));
    for round in 0..5000 {
        let kinds = [0_u8, 43, 44, 50, 51, 59, 60, 135, 139, 140];
        let mut body = Vec::new();
        let first = kinds[random.below(10) as usize];
        for _ in 0..random.below(20) {
            let next = kinds[random.below(10) as usize];
            let length = random.below(3) as u8;
            body.extend([next, length]);
            let fill = if random.happens(100_000) {
                random.below(30)
            } else {
                u64::from(length) * 8 + 6
            };
            body.extend((0..fill).map(|_| random.below(8) as u8));
        }
        let frame = world.packet(Transport::Other(first, body)).bytes();
        world.inject(&frame);
        if round % 50 == 0 {
            world.run(Duration::from_millis(5));
            world.inbox.clear();
        }
    }
    still_works(&mut world, &mut conn, &socket);
}

fn martians(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let _listener = world.listen(8000, 4);
    let sources = if world.subject().is_ipv4() {
        [
            "255.255.255.255",
            "224.0.0.1",
            "127.0.0.1",
            "0.0.0.0",
            "10.0.0.1",
        ]
    } else {
        ["ff02::1", "ff0e::1", "::1", "::", "fd00::1"]
    };
    for source in sources {
        for segment in [
            Conn::new(8000, 8000).segment(SYN, b""),
            Conn::new(9, 9).segment(ACK, b"x"),
        ] {
            let packet = Packet {
                to: SUBJECT_MAC,
                from: PEER_MAC,
                body: Body::Ip(Ip {
                    source: source.parse().unwrap(),
                    destination: world.subject(),
                    hops: 64,
                    transport: Transport::Tcp(segment),
                }),
            };
            world.inject(&packet.bytes());
            world.run(Duration::from_millis(10));
        }
    }
    let answer = world.find(Duration::from_secs(3), |packet| {
        let to = packet.ip()?.destination;
        packet
            .tcp()
            .filter(|_| to.is_multicast() || to.is_unspecified() || to.is_loopback())
            .cloned()
    });
    assert_eq!(answer, None, "a response to an invalid address");
    still_works(&mut world, &mut conn, &socket);
}
