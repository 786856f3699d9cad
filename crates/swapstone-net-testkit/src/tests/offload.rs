// SPDX-License-Identifier: MIT OR Apache-2.0
//! Large segments for a device with TSO, and none for a device without.

use std::time::Duration;

use swapstone_net::device::ETHERNET_HEADER;
use swapstone_net::error::RecvError;
use swapstone_net::{Shared, Stack};
use swapstone_net_link::{Options, Path};

use super::data::pattern;
use super::streams::{connect, round_trip};
use crate::conn::{Conn, Socket};
use crate::context::{Context, Test};
use crate::pair::{Echo, Server, Service};
use crate::wire::{ACK, SYN};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both(
        "offload: a device with TSO gets large segments, if the stack supports it",
        cut_by_device,
    ),
    Test::both(
        "offload: shared memory in large segments arrives unchanged",
        shared,
    ),
    Test::both(
        "offload: a device without TSO gets no frame above its MTU",
        never_larger,
    ),
    Test::both(
        "offload: a device with checksum offload only gets no frame above its MTU",
        never_larger_partial,
    ),
    Test::both(
        "offload: a device with a smaller MTU gets no frame above it",
        never_larger_narrow,
    ),
    Test::both(
        "offload: a stream in large segments both ways changes no byte",
        stream,
    ),
    Test::both(
        "offload: lost large segments are retransmitted without a change",
        stream_over_loss,
    ),
];

/// A link whose device accepts segments of up to 60 000 bytes.
fn cutting() -> Options {
    Options {
        partial_checksums: true,
        segments: 60_000,
        frames: 2048,
        ..Options::default()
    }
}

fn offloads(world: &World) -> bool {
    world
        .net
        .with(|stack| stack.capabilities())
        .segmentation_offload
}

/// A connection whose peer has this MSS.
fn connection(world: &mut World, segment: u16) -> (Conn, Socket) {
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    let mut syn = conn.segment(SYN, b"");
    syn.options = [&[2, 4], &segment.to_be_bytes()[..]].concat();
    conn.seq = conn.seq.wrapping_add(1);
    world.send_tcp(syn);
    world.finish_handshake(&mut conn);
    let (socket, _) = world.accept(&listener);
    (conn, socket)
}

/// Sends all data in the sizes of `send`; returns what the peer received.
fn transfer(
    world: &mut World,
    conn: &mut Conn,
    size: usize,
    mut send: impl FnMut(usize) -> usize,
) -> Vec<u8> {
    let (mut got, mut sent) = (Vec::new(), 0);
    while got.len() < size {
        while sent < size {
            match send(sent) {
                0 => break,
                count => sent += count,
            }
        }
        // Immediate acknowledgements let the window grow, so that large segments are sent.
        world.run(Duration::from_millis(3));
        let before = got.len();
        while let Some(packet) = world.inbox.pop_front() {
            let Some(tcp) = packet.tcp().filter(|tcp| conn.owns(tcp)) else {
                continue;
            };
            if tcp.seq == conn.ack {
                got.extend_from_slice(&tcp.payload);
                conn.ack = conn.ack.wrapping_add(tcp.span());
            }
        }
        if got.len() > before {
            world.send(conn, ACK, b"");
        }
        assert!(world.now().micros() < 600_000_000, "{} bytes", got.len());
    }
    got
}

/// Checks the segmentation parameters of sent frames.
fn check_cuts(world: &World, segment: u16) {
    let seen = world.seen.borrow();
    let ip = if world.subject().is_ipv4() { 20 } else { 40 };
    let headers = (ETHERNET_HEADER + ip + 20) as u16;
    for (how, size) in &seen.segmented {
        assert_eq!((how.size, how.headers), (segment, headers));
        assert_eq!(how.ipv6, ip == 40);
        assert!(*size > usize::from(headers + segment), "{size}");
        assert!(*size <= ETHERNET_HEADER + 60_000, "{size}");
    }
    assert!(seen.largest <= ETHERNET_HEADER + 1500, "{}", seen.largest);
}

fn cut_by_device(context: &Context) {
    let mut world = context.world_with(&context.config(), cutting());
    let (mut conn, socket) = connection(&mut world, 1000);
    let all = pattern(200_000);
    let send = |at: usize| socket.send(&all[at..]).unwrap_or(0);
    let got = transfer(&mut world, &mut conn, all.len(), send);
    assert!(got == all, "{} of {} bytes", got.len(), all.len());
    check_cuts(&world, 1000);
    let cut = world.seen.borrow().segmented.len();
    assert_eq!(
        cut > 0,
        offloads(&world),
        "capabilities and behaviour agree"
    );
    context.note(format!("{cut} frames for 200000 bytes left to be cut"));
    assert_eq!(world.link.counters(0).oversized, 0);
}

fn shared(context: &Context) {
    let mut world = context.world_with(&context.config(), cutting());
    let (mut conn, socket) = connection(&mut world, 1000);
    let memory: Shared = pattern(100_001).into();
    let send = |at: usize| {
        // Parts that don't end at segment boundaries.
        let end = (at + 7001).min(memory.len());
        socket.send_shared(&memory, at..end).unwrap_or(0)
    };
    let got = transfer(&mut world, &mut conn, memory.len(), send);
    assert!(got == *memory, "{} of {} bytes", got.len(), memory.len());
    check_cuts(&world, 1000);
    let any = !world.seen.borrow().segmented.is_empty();
    assert_eq!(any, offloads(&world), "capabilities and behaviour agree");
}

fn never_larger(context: &Context) {
    uncut(context, Options::default());
}

fn never_larger_partial(context: &Context) {
    let options = Options {
        partial_checksums: true,
        ..Options::default()
    };
    uncut(context, options);
}

fn never_larger_narrow(context: &Context) {
    let options = Options {
        mtu: 1280,
        ..Options::default()
    };
    uncut(context, options);
}

fn uncut(context: &Context, options: Options) {
    let mut world = context.world_with(&context.config(), options);
    // The peer's MSS exceeds the MTU.
    let (mut conn, socket) = connection(&mut world, 9000);
    let all = pattern(50_000);
    let send = |at: usize| socket.send(&all[at..]).unwrap_or(0);
    let got = transfer(&mut world, &mut conn, all.len(), send);
    assert!(got == all, "{} of {} bytes", got.len(), all.len());
    let seen = world.seen.borrow();
    assert!(seen.segmented.is_empty(), "{:?}", seen.segmented);
    assert_eq!(seen.largest, ETHERNET_HEADER + options.mtu);
    assert_eq!(world.link.counters(0).oversized, 0);
}

fn stream(context: &Context) {
    let pair = context.pair_on(&context.config(), path(0), cutting());
    let echo = Server::new(&pair.other, pair.at_other(7), 4, Echo::default);
    pair.link.attach(1, echo);
    let socket = connect(&pair, 7);
    let all = pattern(1_000_000);
    assert!(round_trip(&socket, &all, 60_000) == all);
    let claims = pair
        .subject
        .with(|stack| stack.capabilities())
        .segmentation_offload;
    assert_eq!(!pair.seen.borrow().segmented.is_empty(), claims);
}

/// Reads and discards all data.
#[derive(Debug, Default)]
struct Discard;

impl Service for Discard {
    fn serve(&mut self, socket: &Socket) -> bool {
        loop {
            match socket.recv_with(<[u8]>::len) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error != RecvError::WouldBlock,
            }
        }
    }
}

/// Checks that a server that reads at once sends about one ACK for each large frame.
pub(super) fn acknowledges_once(context: &Context) {
    let pair = context.pair_on(&context.config(), path(0), cutting());
    let sink = Server::new(&pair.subject, pair.at_subject(9), 4, Discard::default);
    pair.link.attach(0, sink);
    let socket = pair.other.tcp().unwrap();
    socket.connect(pair.at_subject(9)).unwrap();
    socket.send_all(&pattern(2_000_000)).unwrap();
    let counted = pair.subject.with(|stack| stack.statistics());
    context.note(format!(
        "{} frames in, {} out",
        counted.frames_in, counted.frames_out
    ));
    assert!(
        counted.frames_out * 10 <= counted.frames_in * 12,
        "{counted:?}"
    );
}

fn stream_over_loss(context: &Context) {
    let pair = context.pair_on(&context.config(), path(30_000), cutting());
    let echo = Server::new(&pair.other, pair.at_other(7), 4, Echo::default);
    pair.link.attach(1, echo);
    let socket = connect(&pair, 7);
    let all = pattern(500_000);
    assert!(round_trip(&socket, &all, 60_000) == all);
    assert!(pair.link.counters(0).lost > 0, "nothing was lost");
}

fn path(loss_ppm: u32) -> Path {
    Path {
        delay: Duration::from_millis(5),
        loss_ppm,
        ..Path::default()
    }
}
