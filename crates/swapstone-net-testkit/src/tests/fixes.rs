// SPDX-License-Identifier: MIT OR Apache-2.0
//! Behaviour that a stack has only with one of its fixes.

use std::time::Duration;

use swapstone_net::error::ConnectError;
use swapstone_net_link::Options;

use super::data::pattern;
use crate::conn::{Conn, MSS_1000, Socket, drained, received};
use crate::context::{Context, Family, Test};
use crate::wire::{ACK, FIN, Icmp, PSH, RST, SYN, Transport};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::once(
        "fix: an ACK beyond the window is processed",
        ack_beyond_window,
    ),
    Test::once(
        "fix: the ACK of a zero-window probe is processed",
        ack_of_probe,
    ),
    Test::once(
        "fix: an ACK with an old sequence number is processed",
        ack_behind,
    ),
    Test::both("fix: data after a FIN is not delivered", data_after_fin),
    Test::both(
        "fix: a SYN of an open connection is challenged",
        syn_challenged,
    ),
    Test::both("fix: data with an older ACK is accepted", old_ack),
    Test::both("fix: a FIN that arrives early is kept", early_fin),
    Test::both(
        "fix: a RST in SYN-RECEIVED needs the exact number",
        rst_in_syn_received,
    ),
    Test::v6(
        "fix: segments behind extension headers are accepted",
        extensions,
    ),
    Test::both("fix: segments are lowered to the path MTU", path_mtu),
    Test::both("fix: a SYN with a FIN opens nothing", syn_with_fin),
    Test::both("fix: an MSS of 1 is raised", least_mss),
    Test::once(
        "fix: two duplicate ACKs send new segments",
        limited_transmit,
    ),
    Test::once(
        "fix: frames for TSO are as large as the device permits",
        large_segments,
    ),
    Test::once(
        "fix: the handshake is the first round-trip sample",
        handshake_timed,
    ),
    Test::once(
        "fix: data is acknowledged once, after the application read it",
        ack_after_read,
    ),
    Test::both(
        "fix: two hosts connect to each other at once",
        simultaneous_open,
    ),
];

fn connection(world: &mut World) -> (Conn, Socket) {
    let listener = world.listen(80, 4);
    world.connect(&listener, 5000)
}

/// A connection with 1000 unacknowledged bytes of the stack under test, whose receive window is full.
fn full_window(context: &Context) -> (World, Conn, Socket) {
    let mut config = context.config();
    config.limits.receive_buffer = 4096;
    let mut world = context.world_with(&config, Options::default());
    let (mut conn, socket) = connection(&mut world);
    assert_eq!(socket.send(&[7; 1000]), Ok(1000));
    let data = world.expect_of(&conn, "data", |tcp| tcp.payload.len() == 1000);
    loop {
        let ack = world.find(Duration::from_millis(200), |packet| {
            packet.tcp().filter(|tcp| conn.owns(tcp)).cloned()
        });
        let window = ack.map_or(1000, |tcp| tcp.window);
        if window == 0 {
            break;
        }
        let fill = vec![1; usize::from(window).min(1000)];
        world.send(&mut conn, ACK | PSH, &fill);
    }
    conn.ack = data.seq.wrapping_add(1000);
    (world, conn, socket)
}

/// The 1000 bytes of `full_window` have been acknowledged, so they must not be sent again.
fn expect_no_retransmission(world: &mut World) {
    world.run(Duration::from_millis(10));
    let again = |tcp: &crate::wire::Tcp| tcp.payload.len() == 1000;
    world.inbox.clear();
    world.never_tcp(
        Duration::from_secs(5),
        "acknowledged data is sent again",
        again,
    );
}

fn ack_beyond_window(context: &Context) {
    let (mut world, mut conn, _socket) = full_window(context);
    conn.seq = conn.seq.wrapping_add(100);
    world.send(&mut conn, ACK | PSH, b"beyond");
    expect_no_retransmission(&mut world);
}

fn ack_of_probe(context: &Context) {
    let (mut world, mut conn, _socket) = full_window(context);
    world.send(&mut conn, ACK | PSH, b"p");
    expect_no_retransmission(&mut world);
}

/// smoltcp's SND.NXT moves back at a retransmission, and with it the numbers of its ACKs.
fn ack_behind(context: &Context) {
    let (mut world, mut conn, _socket) = full_window(context);
    conn.seq = conn.seq.wrapping_sub(500);
    world.send(&mut conn, ACK, b"");
    expect_no_retransmission(&mut world);
}

fn data_after_fin(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    world.give(&mut conn, b"data");
    world.send(&mut conn, ACK | FIN, b"");
    world.run(Duration::from_millis(100));
    world.send(&mut conn, ACK | PSH, b"late");
    world.run(Duration::from_millis(100));
    assert_eq!(drained(&socket), (b"data".to_vec(), Some(Ok(()))));
    // The other direction still works.
    assert_eq!(socket.send(b"answer"), Ok(6));
    assert_eq!(world.take(&mut conn, 6), b"answer");
}

fn syn_challenged(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let next = conn.seq;
    world.run(Duration::from_millis(100));
    world.inbox.clear();
    let mut restarted = conn.clone();
    restarted.seq = next.wrapping_add(100);
    world.send_syn(&mut restarted);
    let challenge = world.expect_of(&conn, "a challenge ACK", |_| true);
    assert_eq!((challenge.flags, challenge.ack), (ACK, next));
    assert_eq!(received(&socket), None);
    // The restarted peer has no such connection, and resets it.
    conn.seq = challenge.ack;
    world.send(&mut conn, RST, b"");
    world.run(Duration::from_millis(100));
    assert!(matches!(received(&socket), Some(Err(_))));
}

fn old_ack(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let first = conn.ack;
    assert_eq!(socket.send(&[5; 200]), Ok(200));
    world.take(&mut conn, 200);
    world.run(Duration::from_millis(100));
    conn.ack = first.wrapping_add(100);
    world.send(&mut conn, ACK | PSH, b"sent before");
    let got = world.eventually("data", || received(&socket));
    assert_eq!(got, Ok(b"sent before".to_vec()));
}

fn early_fin(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let start = conn.seq;
    conn.seq = start.wrapping_add(5);
    world.send(&mut conn, ACK | PSH | FIN, b" last");
    let end = conn.seq;
    world.run(Duration::from_millis(50));
    assert_eq!(received(&socket), None);
    conn.seq = start;
    world.send(&mut conn, ACK | PSH, b"first");
    world.expect_of(&conn, "an ACK of the FIN", |tcp| tcp.ack == end);
    assert_eq!(drained(&socket), (b"first last".to_vec(), Some(Ok(()))));
}

fn rst_in_syn_received(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    let answer = world.expect_of(&conn, "a SYN with ACK", |tcp| tcp.has(SYN | ACK));
    conn.ack = answer.seq.wrapping_add(1);
    let mut forged = conn.clone();
    forged.seq = conn.seq.wrapping_add(100);
    world.send(&mut forged, RST, b"");
    world.run(Duration::from_millis(100));
    world.send(&mut conn, ACK, b"");
    world.accept(&listener);
}

fn extensions(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    // Destination options of padding only, and the header of an atomic fragment.
    let options: &[u8] = &[6, 0, 1, 4, 0, 0, 0, 0];
    let fragment: &[u8] = &[6, 0, 0, 0, 0, 0, 0, 9];
    for (kind, header, text) in [(60, options, b"one"), (44, fragment, b"two")] {
        let segment = conn.segment(ACK | PSH, text);
        conn.seq = conn.seq.wrapping_add(3);
        let mut frame = world.frame(Transport::Tcp(segment));
        frame[14 + 6] = kind;
        let length = (frame.len() - 54 + header.len()) as u16;
        frame[14 + 4..14 + 6].copy_from_slice(&length.to_be_bytes());
        frame.splice(54..54, header.iter().copied());
        world.inject(&frame);
        let got = world.eventually("data", || received(&socket));
        assert_eq!(got, Ok(text.to_vec()));
    }
    // An option that must not be skipped: the packet is dropped.
    let mut frame = world.frame(Transport::Tcp(conn.segment(ACK | PSH, b"no")));
    frame[14 + 6] = 60;
    let length = (frame.len() - 54 + 8) as u16;
    frame[14 + 4..14 + 6].copy_from_slice(&length.to_be_bytes());
    frame.splice(54..54, [6, 0, 0x5e, 4, 0, 0, 0, 0]);
    world.inject(&frame);
    world.run(Duration::from_millis(100));
    assert_eq!(received(&socket), None);
}

fn path_mtu(context: &Context) {
    lowered_to_path_mtu(context, &[]);
}

/// A connection whose SYN has these options lowers its segments to the path MTU.
pub(super) fn lowered_to_path_mtu(context: &Context, options: &[u8]) {
    if context.backend.name == "lwip" && context.family == Family::V4 {
        context.unavailable("lwIP does not set DF in IPv4 packets: routers fragment them");
    }
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    let mut syn = conn.segment(SYN, b"");
    syn.options = [&[2, 4, 0x05, 0xa0], options].concat(); // 1440
    conn.seq = conn.seq.wrapping_add(1);
    world.send_tcp(syn);
    world.finish_handshake(&mut conn);
    let (socket, _) = world.accept(&listener);
    let all = pattern(6000);
    assert_eq!(socket.send(&all), Ok(6000));
    let lost = world.expect("data", |packet| {
        let tcp = packet.tcp()?;
        (conn.owns(tcp) && tcp.payload.len() > 1240).then(|| packet.clone())
    });
    let (headers, mtu) = match context.family {
        Family::V4 => (20, 600_u32),
        Family::V6 => (40, 1280),
    };
    let quoted = lost.bytes()[14..14 + headers + 20].to_vec();
    let (kind, code) = match context.family {
        Family::V4 => (3, 4),
        Family::V6 => (2, 0),
    };
    let body = [&mtu.to_be_bytes()[..], &quoted].concat();
    let frame = world.frame(Transport::Icmp(Icmp { kind, code, body }));
    world.inject(&frame);
    world.run(Duration::from_millis(20));
    world.inbox.clear();
    if context.backend.name == "lwip" {
        // It fragments what it sends again.
        world.expect("fragments", |packet| {
            let ip = packet.ip()?;
            matches!(ip.transport, Transport::Other(44, _)).then_some(())
        });
        return;
    }
    // The path carries only what fits; the rest is lost.
    let most = mtu as usize - headers - 20 - options.len();
    let mut got = Vec::<u8>::new();
    while got.len() < all.len() {
        let tcp = world.expect("a segment that fits", |packet| {
            let tcp = packet.tcp().filter(|tcp| conn.owns(tcp))?;
            (!tcp.payload.is_empty() && tcp.payload.len() <= most).then(|| tcp.clone())
        });
        if tcp.seq == conn.ack {
            got.extend(&tcp.payload);
            conn.ack = conn.ack.wrapping_add(tcp.span());
        }
        world.send(&mut conn, ACK, b"");
    }
    assert!(got == all);
}

fn syn_with_fin(context: &Context) {
    let mut world = context.world();
    let _listener = world.listen(80, 4);
    let conn = Conn::new(5000, 80);
    let mut syn = conn.segment(SYN | FIN, b"");
    syn.options = MSS_1000.into();
    world.send_tcp(syn);
    world.never_tcp(Duration::from_secs(2), "it is answered", |tcp| {
        tcp.has(SYN | ACK)
    });
}

fn least_mss(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    let mut syn = conn.segment(SYN, b"");
    syn.options = vec![2, 4, 0, 1];
    conn.seq = conn.seq.wrapping_add(1);
    world.send_tcp(syn);
    world.finish_handshake(&mut conn);
    let (socket, _) = world.accept(&listener);
    socket.send_all(&[3; 200]).unwrap();
    let data = world.expect_of(&conn, "data", |tcp| !tcp.payload.is_empty());
    assert!(data.payload.len() >= 48, "{}", data.payload.len());
}

fn limited_transmit(context: &Context) {
    if context.backend.name == "smoltcp" {
        context.unavailable("smoltcp has no limited transmit");
    }
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    assert_eq!(socket.send(&pattern(40_000)), Ok(40_000));
    world.run(Duration::from_millis(20));
    let first = world.inbox.len();
    for _ in 0..2 {
        world.inbox.clear();
        world.send(&mut conn, ACK, b"");
        world.run(Duration::from_millis(10));
        let new = world.inbox.iter().filter_map(|packet| packet.tcp());
        let new = new.filter(|tcp| tcp.payload.len() == 1000).count();
        assert_eq!(new, 1, "after {first} segments");
    }
}

fn large_segments(context: &Context) {
    let offload = Options {
        partial_checksums: true,
        segments: 60_000,
        frames: 2048,
        ..Options::default()
    };
    let mut config = context.config();
    config.limits.send_buffer = 1 << 20;
    let mut world = context.world_with(&config, offload);
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    let mut syn = conn.segment(SYN, b"");
    // An MSS of 1000 and a window scale of 7.
    syn.options = vec![2, 4, 0x03, 0xe8, 3, 3, 7, 1];
    conn.seq = conn.seq.wrapping_add(1);
    world.send_tcp(syn);
    world.finish_handshake(&mut conn);
    let (socket, _) = world.accept(&listener);
    let all = pattern(1_000_000);
    let (mut sent, mut got) = (0, 0);
    while got < all.len() {
        sent += socket.send(&all[sent..]).unwrap_or(0);
        world.run(Duration::from_millis(3));
        let before = got;
        for packet in world.inbox.drain(..) {
            if let Some(tcp) = packet.tcp().filter(|tcp| tcp.seq == conn.ack) {
                got += tcp.payload.len();
                conn.ack = conn.ack.wrapping_add(tcp.span());
            }
        }
        if got > before {
            world.send(&mut conn, ACK, b"");
        }
    }
    let largest = world.seen.borrow().segmented.iter().map(|one| one.1).max();
    context.note(format!("the largest frame has {largest:?} bytes"));
    assert!(largest > Some(32_000), "{largest:?}");
}

fn handshake_timed(context: &Context) {
    if context.backend.name == "smoltcp" {
        context.unavailable("smoltcp's retransmission timeout is at least 1 s");
    }
    let mut world = context.world();
    // lwIP's clock starts with the first connection.
    let _first = world.let_connect(79);
    world.run(Duration::from_secs(1));
    let (conn, socket) = world.let_connect(80);
    socket.send_all(b"lost").unwrap();
    let data = |tcp: &crate::wire::Tcp| tcp.payload == b"lost";
    world.expect_of(&conn, "data", data);
    let begun = world.now();
    world.expect_of(&conn, "the data again", data);
    let took = world.now() - begun;
    assert!(took < Duration::from_millis(600), "{took:?}");
}

fn ack_after_read(context: &Context) {
    super::offload::acknowledges_once(context);
}

/// The peer's SYN crosses that of the stack, and the peer then sends an ACK, or the same SYN with an
/// ACK, as RFC 9293, figure 7, has it. smoltcp drops the latter as a copy and answers with an ACK.
fn simultaneous_open(context: &Context) {
    let mut world = context.world();
    let both = [(80, ACK), (81, SYN | ACK)];
    let cases = if context.backend.name == "smoltcp" {
        &both[..1]
    } else {
        &both
    };
    for &(port, flags) in cases {
        let (socket, syn) = world.begin_connect(port);
        let mut conn = Conn::new(port, syn.source);
        let mut crossing = conn.segment(SYN, b"");
        // An MSS of 1000 and a window scale of 7.
        crossing.options = vec![2, 4, 0x03, 0xe8, 3, 3, 7, 1];
        world.send_tcp(crossing.clone());
        conn.seq = conn.seq.wrapping_add(1);
        let answer = world.expect_of(&conn, "a SYN with ACK", |tcp| tcp.has(SYN | ACK));
        assert_eq!((answer.seq, answer.ack), (syn.seq, conn.seq));
        assert!(socket.connect(world.at_peer(port)).is_err(), "not yet");
        conn.ack = syn.seq.wrapping_add(1);
        conn.window = 1024;
        if flags & SYN == 0 {
            world.send(&mut conn, ACK, b"");
        } else {
            crossing.flags = SYN | ACK;
            crossing.ack = conn.ack;
            crossing.window = conn.window;
            world.send_tcp(crossing);
        }
        let peer = world.at_peer(port);
        let outcome = world.eventually("a connection", || match socket.connect(peer) {
            Err(ConnectError::WouldBlock) => None,
            outcome => Some(outcome),
        });
        assert_eq!(outcome, Ok(()));
        // The window of a SYN is not scaled, that of an ACK is.
        assert_eq!(socket.send(&pattern(2000)), Ok(2000));
        world.run(Duration::from_millis(50));
        let mut end = 0;
        for packet in world.inbox.drain(..) {
            if let Some(tcp) = packet.tcp().filter(|tcp| conn.owns(tcp)) {
                assert_eq!(tcp.ack, conn.seq);
                end = end.max(tcp.seq.wrapping_sub(conn.ack) as usize + tcp.payload.len());
            }
        }
        assert_eq!(end, if flags == ACK { 2000 } else { 1000 });
        assert_eq!(world.take(&mut conn, 2000), pattern(2000));
        world.give(&mut conn, b"both ways");
        assert_eq!(received(&socket), Some(Ok(b"both ways".to_vec())));
    }
}
