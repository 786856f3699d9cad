// SPDX-License-Identifier: MIT OR Apache-2.0
//! Checksums of received packets are verified, unless the device has done so.

use std::time::Duration;

use swapstone_net::device::Checksum;
use swapstone_net_link::Options;

use super::data::connection;
use crate::conn::received;
use crate::context::{Context, Test};
use crate::wire::{ACK, Icmp, PROTOCOL_TCP, PSH, Packet, Transport, Udp, fold, pseudo_header};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both(
        "checksum: a wrong one of TCP is dropped and counted",
        tcp_wrong,
    ),
    Test::both(
        "checksum: a wrong one of UDP is dropped and counted",
        udp_wrong,
    ),
    Test::both(
        "checksum: a wrong one of ICMP is dropped and counted",
        icmp_wrong,
    ),
    Test::once(
        "checksum: a wrong one of the IPv4 header is dropped and counted",
        header_wrong,
    ),
    Test::both(
        "checksum: a UDP datagram without one is accepted over IPv4 and dropped over IPv6",
        udp_none,
    ),
    Test::both(
        "checksum: every flipped bit of a segment is detected",
        every_bit,
    ),
    Test::both(
        "checksum: what the device verified is not verified again",
        verified,
    ),
    Test::both("checksum: a partial one is not verified", partial),
    Test::both(
        "checksum: a device with checksum offload gets partial ones",
        left_out,
    ),
];

/// The offset of a packet's transport header.
fn transport(world: &World) -> usize {
    14 + if world.subject().is_ipv4() { 20 } else { 40 }
}

fn tcp_wrong(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let before = world.statistics().malformed;
    let mut frame = world.frame(Transport::Tcp(conn.segment(ACK | PSH, b"data")));
    let at = transport(&world) + 16;
    frame[at + 1] ^= 1;
    world.inject(&frame);
    world.run(Duration::from_millis(50));
    assert_eq!(received(&socket), None);
    assert_eq!(world.statistics().malformed, before + 1);
    world.give(&mut conn, b"data");
    assert_eq!(received(&socket), Some(Ok(b"data".to_vec())));
    assert_eq!(world.statistics().malformed, before + 1);
}

fn datagram(world: &World) -> Vec<u8> {
    world.frame(Transport::Udp(Udp {
        source: 9000,
        destination: 53,
        payload: b"data".to_vec(),
    }))
}

/// Sends a frame to a UDP socket on port 53; returns the numbers of datagrams and of malformed
/// frames.
fn udp_takes(
    context: &Context,
    change: impl Fn(usize, &mut Vec<u8>),
    mark: Checksum,
) -> (usize, u64) {
    let mut world = context.world();
    let socket = world.net.udp().unwrap();
    socket.bind(world.at_subject(53)).unwrap();
    socket.set_nonblocking(true);
    let before = world.statistics().malformed;
    let mut frame = datagram(&world);
    change(transport(&world), &mut frame);
    world.inject_as(&frame, mark);
    world.run(Duration::from_millis(50));
    let mut count = 0;
    while socket
        .recv_with(|bytes, _| assert_eq!(bytes, b"data"))
        .is_ok()
    {
        count += 1;
    }
    (count, world.statistics().malformed - before)
}

fn udp_wrong(context: &Context) {
    let change = |at: usize, frame: &mut Vec<u8>| frame[at + 7] ^= 1;
    assert_eq!(udp_takes(context, change, Checksum::Unknown), (0, 1));
}

fn icmp_wrong(context: &Context) {
    let mut world = context.world();
    let before = world.statistics().malformed;
    let kind = if world.subject().is_ipv4() { 8 } else { 128 };
    let mut frame = world.frame(Transport::Icmp(Icmp {
        kind,
        code: 0,
        body: vec![0, 1, 0, 1, 5],
    }));
    let at = transport(&world) + 2;
    frame[at] ^= 0x10;
    world.inject(&frame);
    let answer = world.find(Duration::from_secs(1), |packet| packet.icmp().cloned());
    assert_eq!(answer, None);
    assert_eq!(world.statistics().malformed, before + 1);
}

fn header_wrong(context: &Context) {
    let mut world = context.world();
    let socket = world.net.udp().unwrap();
    socket.bind(world.at_subject(53)).unwrap();
    socket.set_nonblocking(true);
    let before = world.statistics().malformed;
    let mut frame = datagram(&world);
    frame[14 + 10] ^= 1;
    for mark in [Checksum::Unknown, Checksum::Verified, Checksum::Partial] {
        world.inject_as(&frame, mark);
    }
    world.run(Duration::from_millis(50));
    assert!(socket.recv_with(|_, _| ()).is_err());
    assert_eq!(world.statistics().malformed, before + 3);
}

fn udp_none(context: &Context) {
    let change = |at: usize, frame: &mut Vec<u8>| frame[at + 6..at + 8].fill(0);
    let expected = match context.family {
        crate::context::Family::V4 => (1, 0),
        crate::context::Family::V6 => (0, 1),
    };
    assert_eq!(udp_takes(context, change, Checksum::Unknown), expected);
}

fn every_bit(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let good = world.frame(Transport::Tcp(conn.segment(ACK | PSH, b"data")));
    for bit in transport(&world) * 8..good.len() * 8 {
        let mut frame = good.clone();
        frame[bit / 8] ^= 0x80 >> (bit % 8);
        assert!(Packet::parse(&frame, false).is_err());
        world.inject(&frame);
        world.run(Duration::from_millis(3));
        assert_eq!(received(&socket), None, "bit {bit}");
    }
    world.give(&mut conn, b"data");
    assert_eq!(received(&socket), Some(Ok(b"data".to_vec())));
}

fn verified(context: &Context) {
    // It is wrong, to show whether it is verified.
    let change = |at: usize, frame: &mut Vec<u8>| frame[at + 7] ^= 1;
    assert_eq!(udp_takes(context, change, Checksum::Verified), (1, 0));
}

fn partial(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let before = world.statistics().malformed;
    let mut frame = world.frame(Transport::Tcp(conn.segment(ACK | PSH, b"data")));
    let at = transport(&world);
    let pseudo = pseudo_header(
        world.peer(),
        world.subject(),
        PROTOCOL_TCP,
        frame.len() - at,
    );
    frame[at + 16..at + 18].copy_from_slice(&fold(pseudo).to_be_bytes());
    world.inject_as(&frame, Checksum::Partial);
    conn.seq = conn.seq.wrapping_add(4);
    world.run(Duration::from_millis(50));
    assert_eq!(received(&socket), Some(Ok(b"data".to_vec())));
    assert_eq!(world.statistics().malformed, before);
    world.give(&mut conn, b"and more");
}

fn left_out(context: &Context) {
    let options = Options {
        partial_checksums: true,
        ..Options::default()
    };
    let mut world = context.world_with(&context.config(), options);
    let (mut conn, socket) = connection(&mut world);
    assert_eq!(socket.send(b"without a sum"), Ok(13));
    assert_eq!(world.take(&mut conn, 13), b"without a sum");
    let udp = world.net.udp().unwrap();
    udp.send_to(b"without", world.at_peer(9)).unwrap();
    assert_eq!(world.expect_udp().payload, b"without");
    let count = world.seen.borrow().partial;
    context.note(format!("{count} frames left with a partial checksum"));
}
