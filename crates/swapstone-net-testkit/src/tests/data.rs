// SPDX-License-Identifier: MIT OR Apache-2.0
//! Data transfer: buffers, retransmission, windows.

use std::time::Duration;

use swapstone_net::error::{RecvError, SendError};
use swapstone_net::{Readiness, Shared, Shutdown};

use crate::conn::{Conn, Socket, drained, received};
use crate::context::{Context, Test};
use crate::wire::{ACK, PSH, SYN};
use crate::world::World;

pub(super) const TESTS: &[Test] = &[
    Test::both("receive: data is shown and removed in pieces", borrowed),
    Test::both("receive: peeking removes nothing", peeked),
    Test::both(
        "receive: data is shown in the device's buffer, if the stack supports it",
        zero_copy,
    ),
    Test::both("receive: out-of-order segments are reordered", out_of_order),
    Test::both(
        "receive: duplicate and overlapping data is read once",
        overlapping,
    ),
    Test::both(
        "receive: data with unacceptable sequence numbers is not accepted",
        blind_data,
    ),
    Test::both("send: several pieces are one stream", vectored),
    Test::both("send: shared memory is sent without a copy", shared),
    Test::both(
        "send: the caller writes to the send buffer, if the stack supports it",
        in_place,
    ),
    Test::both(
        "send: data written to a small buffer is one stream",
        written_in_pieces,
    ),
    Test::both("send: a full buffer returns would-block", would_block),
    Test::both("send: a blocking send waits for room", blocks_for_room),
    Test::both("send: the peer's window is never exceeded", peers_window),
    Test::both(
        "send: the MSS option is valid in a SYN only",
        late_segment_size,
    ),
    Test::both("send: a closed window gets probes", window_probe),
    Test::both(
        "send: a zero-window probe may contain the last byte",
        last_byte_by_probe,
    ),
    Test::both(
        "send: a window that was never open may open slightly",
        window_opens_a_little,
    ),
    Test::both(
        "send: segments are not larger than the peer's MSS",
        segment_size,
    ),
    Test::both("send: unacknowledged data is retransmitted", retransmission),
    Test::both(
        "send: three duplicate ACKs cause a fast retransmit",
        fast_retransmission,
    ),
    Test::both(
        "send: without an answer the connection times out",
        send_times_out,
    ),
    Test::both("nodelay: small segments are delayed or not", nodelay),
];

/// A connection that the peer has started.
pub(super) fn connection(world: &mut World) -> (Conn, Socket) {
    let listener = world.listen(80, 4);
    world.connect(&listener, 5000)
}

/// A connection that the peer has started, with this window.
fn connection_with(world: &mut World, window: u16) -> (Conn, Socket) {
    let listener = world.listen(80, 4);
    let mut conn = Conn::new(5000, 80);
    conn.window = window;
    world.send_syn(&mut conn);
    world.finish_handshake(&mut conn);
    let (socket, _) = world.accept(&listener);
    world.inbox.clear();
    (conn, socket)
}

/// A connection whose peer has closed its window.
fn closed_window(world: &mut World) -> (Conn, Socket) {
    let (mut conn, socket) = connection(world);
    conn.window = 0;
    world.send(&mut conn, ACK, b"x");
    world.run(Duration::from_millis(500));
    world.inbox.clear();
    (conn, socket)
}

/// Bytes that depend on their position.
pub(super) fn pattern(count: usize) -> Vec<u8> {
    (0..count as u32)
        .map(|at| (at.wrapping_mul(0x9e37_79b1) >> 24) as u8)
        .collect()
}

fn borrowed(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    assert_eq!(socket.recv_with(|_| 0), Err(RecvError::WouldBlock));
    world.give(&mut conn, b"hello, world");
    assert!(socket.readiness().contains(Readiness::READABLE));
    let mut places = Vec::new();
    for _ in 0..2 {
        let taken = socket.recv_with(|bytes| {
            assert_eq!(bytes, b"hello, world");
            places.push(bytes.as_ptr());
            0
        });
        assert_eq!(taken, Ok(0));
    }
    assert_eq!(places[0], places[1], "it is looked at where it lies");
    assert_eq!(socket.recv_with(|_| 7), Ok(7));
    let mut buffer = [0; 3];
    assert_eq!(socket.recv(&mut buffer), Ok(3));
    assert_eq!(&buffer, b"wor");
    assert_eq!(received(&socket), Some(Ok(b"ld".to_vec())));
    assert_eq!(received(&socket), None);
    assert!(!socket.readiness().contains(Readiness::READABLE));
}

fn peeked(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    world.give(&mut conn, b"hello");
    let mut buffer = [0; 4];
    for _ in 0..2 {
        assert_eq!(socket.peek(&mut buffer), Ok(4));
        assert_eq!(&buffer, b"hell");
    }
    assert_eq!(received(&socket), Some(Ok(b"hello".to_vec())));
}

fn zero_copy(context: &Context) {
    let mut world = context.world();
    if !world
        .net
        .with(|stack| swapstone_net::Stack::capabilities(stack))
        .zero_copy_receive
    {
        context.unavailable("this stack copies received data once, as its capabilities report");
    }
    let (mut conn, socket) = connection(&mut world);
    for _ in 0..10 {
        world.give(&mut conn, &pattern(900));
        let seen = world.seen.clone();
        let taken = socket.recv_with(|bytes| {
            assert!(
                seen.borrow().in_a_frame(bytes),
                "the bytes are not the device's"
            );
            bytes.len()
        });
        assert_eq!(taken, Ok(900));
    }
}

fn out_of_order(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let first = conn.seq;
    for (offset, part) in [(4, b"5678"), (12, b"defg"), (8, b"9abc")] {
        conn.seq = first + offset;
        world.send(&mut conn, ACK | PSH, part);
        world.run(Duration::from_millis(5));
        assert_eq!(received(&socket), None);
    }
    conn.seq = first;
    world.send(&mut conn, ACK | PSH, b"1234");
    // A stack may drop out-of-order segments; the peer retransmits what is not acknowledged.
    world.run(Duration::from_millis(500));
    let (mut got, _) = drained(&socket);
    assert!(
        got.len() >= 8,
        "at least one piece that came early was kept: {got:?}"
    );
    conn.seq = first + got.len() as u32;
    world.send(&mut conn, ACK | PSH, &b"123456789abcdefg"[got.len()..]);
    world.run(Duration::from_millis(500));
    got.extend(drained(&socket).0);
    assert_eq!(got, b"123456789abcdefg");
}

fn overlapping(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let first = conn.seq;
    for (offset, part) in [
        (0, &b"1234"[..]),
        (0, b"1234"),
        (2, b"3456"),
        (0, b"12345678"),
    ] {
        conn.seq = first + offset;
        world.send(&mut conn, ACK | PSH, part);
        world.run(Duration::from_millis(5));
    }
    world.expect_of(&conn, "an acknowledgement of all", |tcp| {
        tcp.ack == first + 8
    });
    assert_eq!(drained(&socket).0, b"12345678");
}

fn blind_data(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let good = conn.clone();
    // An acknowledgement of data that was never sent is unacceptable (RFC 9293, 3.10.7.4).
    conn.ack = conn.ack.wrapping_add(1 << 30);
    world.send(&mut conn, ACK | PSH, b"bad");
    world.run(Duration::from_millis(50));
    assert_eq!(received(&socket), None);
    conn = good;
    world.give(&mut conn, b"good");
    assert_eq!(received(&socket), Some(Ok(b"good".to_vec())));
}

fn vectored(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let sent = socket.send_vectored(&[b"one, ", b"", b"two, ", b"three"]);
    assert_eq!(sent, Ok(15));
    assert_eq!(world.take(&mut conn, 15), b"one, two, three");
    assert_eq!(socket.send(b""), Ok(0));
}

fn shared(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let memory: Shared = pattern(3000).into();
    let at = memory.as_ptr() as usize;
    world.seen.borrow_mut().shared = at..at + memory.len();
    let mut sent = 100;
    while sent < 2900 {
        sent += socket.send_shared(&memory, sent..2900).unwrap();
    }
    assert_eq!(world.take(&mut conn, 2800), memory[100..2900]);
    let direct = world.seen.borrow().sent_from_shared;
    context.note(format!(
        "{direct} of 2800 bytes went to the device from the caller's memory"
    ));
    let claims = world
        .net
        .with(|stack| swapstone_net::Stack::capabilities(stack))
        .zero_copy_send;
    assert_eq!(direct >= 2800, claims, "capabilities and behaviour agree");
    // The stack releases the memory once all is acknowledged.
    world.run(Duration::from_secs(1));
    assert_eq!(std::rc::Rc::strong_count(&memory), 1);
}

fn late_segment_size(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    // Bytes are queued in a segment for an MSS of 1000 when an option with 100 arrives, behind and
    // before other options.
    assert_eq!(socket.send(b"waits"), Ok(5));
    for options in [[2, 4, 0, 100, 1, 1, 1, 1], [1, 2, 4, 0, 100, 1, 1, 0]] {
        let mut segment = conn.segment(ACK, b"");
        segment.options = options.into();
        world.send_tcp(segment);
        world.run(Duration::from_millis(5));
        assert_eq!(socket.send(b"more"), Ok(4));
    }
    world.take(&mut conn, 13);
    assert_eq!(socket.send(&pattern(1000)), Ok(1000));
    world.expect_of(&conn, "a segment of the SYN's size", |tcp| {
        tcp.payload.len() > 900
    });
}

fn in_place(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let mut rooms = Vec::new();
    for word in [b"one, ", b"two, "] {
        let sent = socket.send_with(100, |room| {
            rooms.push(room.as_ptr() as usize);
            assert!(
                (5..=100).contains(&room.len()),
                "{} bytes of room",
                room.len()
            );
            room[..5].copy_from_slice(word);
            5
        });
        assert_eq!(sent, Ok(5));
    }
    assert_eq!(socket.send(b"three"), Ok(5));
    assert_eq!(world.take(&mut conn, 15), b"one, two, three");
    let claims = world
        .net
        .with(|stack| swapstone_net::Stack::capabilities(stack))
        .send_in_place;
    // The second write continues in the send buffer: there was no copy.
    assert_eq!(
        rooms[1] == rooms[0] + 5,
        claims,
        "capabilities and behaviour agree"
    );
    assert_eq!(socket.send_with(10, |_| 0), Ok(0));
    assert_eq!(socket.send_with(0, |_| panic!("it is for 0 bytes")), Ok(0));
    socket.shutdown(Shutdown::Write).unwrap();
    let closed = socket.send_with(10, |_| panic!("nothing can be sent"));
    assert_eq!(closed, Err(SendError::Closed));
}

fn written_in_pieces(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let all = pattern(300_000);
    let (mut sent, mut full, mut arrived) = (0, 0, Vec::new());
    while sent < all.len() {
        let left = &all[sent..];
        match socket.send_with(left.len().min(777), |room| {
            room.copy_from_slice(&left[..room.len()]);
            room.len()
        }) {
            Ok(0) => panic!("nothing was taken, and no error"),
            Ok(count) => sent += count,
            Err(error) => {
                assert_eq!(error, SendError::WouldBlock);
                full += 1;
                let waiting = sent - arrived.len();
                arrived.extend(world.take(&mut conn, waiting));
            }
        }
    }
    let waiting = sent - arrived.len();
    arrived.extend(world.take(&mut conn, waiting));
    assert!(full > 0, "the buffer was never full");
    assert!(arrived == all, "what arrived is not what was written");
}

/// Sends until the buffer is full; returns the number of bytes.
fn fill(socket: &Socket, bytes: &[u8]) -> usize {
    let mut sent = 0;
    while sent < bytes.len() {
        match socket.send(&bytes[sent..bytes.len().min(sent + 3000)]) {
            Ok(0) => panic!("nothing was sent, and no error"),
            Ok(count) => sent += count,
            Err(error) => {
                assert_eq!(error, SendError::WouldBlock);
                break;
            }
        }
    }
    sent
}

fn would_block(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let all = pattern(1 << 20);
    let mut sent = fill(&socket, &all);
    let buffer = world
        .net
        .with(|stack| swapstone_net::Stack::limits(stack))
        .send_buffer;
    assert!(sent <= 2 * buffer, "{sent} of a buffer of {buffer}");
    assert!(!socket.readiness().contains(Readiness::WRITABLE));
    let mut got = Vec::new();
    while got.len() < 300_000 {
        let bytes = world.take(&mut conn, 1);
        got.extend(bytes);
        sent += fill(&socket, &all[sent..]);
    }
    assert_eq!(got, all[..got.len()]);
}

fn blocks_for_room(context: &Context) {
    let mut world = context.world();
    let (_conn, socket) = connection(&mut world);
    fill(&socket, &pattern(1 << 20));
    socket.set_timeout(Some(Duration::from_millis(200)));
    let begun = world.now();
    assert_eq!(socket.send(b"more"), Err(SendError::TimedOut));
    assert_eq!((world.now() - begun).as_millis(), 200);
}

fn peers_window(context: &Context) {
    let mut world = context.world();
    // From the start, because a peer should not shrink its window.
    let (conn, socket) = connection_with(&mut world, 2500);
    let base = conn.ack;
    fill(&socket, &pattern(50_000));
    world.run(Duration::from_secs(20));
    let mut most = 0;
    while let Some(packet) = world.inbox.pop_front() {
        let Some(tcp) = packet.tcp().filter(|tcp| conn.owns(tcp)) else {
            continue;
        };
        most = most.max(tcp.seq.wrapping_sub(base) + tcp.payload.len() as u32);
    }
    assert!((1000..=2500).contains(&most), "{most}");
}

fn window_probe(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = closed_window(&mut world);
    assert_eq!(socket.send(b"waiting"), Ok(7));
    let base = conn.ack;
    // Whether the probe contains a byte or not, the peer responds, and finally opens its window.
    for _ in 0..3 {
        world.expect("a probe", |packet| packet.tcp().map(|_| ()));
        world.send(&mut conn, ACK, b"");
    }
    conn.window = 1000;
    world.send(&mut conn, ACK, b"");
    let data = world.expect_of(&conn, "data", |tcp| tcp.payload.len() > 1);
    assert_eq!((data.seq, data.payload.as_slice()), (base, &b"waiting"[..]));
}

fn last_byte_by_probe(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = closed_window(&mut world);
    let base = conn.ack;
    assert_eq!(socket.send(b"1"), Ok(1));
    // The peer accepts the byte of the probe and no more. A stack that probes without data keeps
    // it.
    let probe = world.expect_of(&conn, "a probe", |_| true);
    conn.ack = base.wrapping_add(probe.payload.len() as u32);
    world.send(&mut conn, ACK, b"");
    world.run(Duration::from_secs(60));
    assert_eq!(socket.send(b"23"), Ok(2));
    world.run(Duration::from_secs(60));
    world.inbox.clear();
    conn.window = 1000;
    world.send(&mut conn, ACK, b"");
    let rest = 3 - probe.payload.len();
    assert_eq!(world.take(&mut conn, rest), b"123"[3 - rest..]);
}

fn window_opens_a_little(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection_with(&mut world, 0);
    let all = pattern(300);
    assert_eq!(socket.send(&all[..100]), Ok(100));
    conn.window = 20;
    world.send(&mut conn, ACK, b"");
    world.run(Duration::from_millis(10));
    assert_eq!(socket.send(&all[100..]), Ok(200));
    // The peer accepts any segment and opens its window by 20 bytes each time.
    let mut got = Vec::<u8>::new();
    let base = conn.ack;
    while got.len() < all.len() {
        let data = world.expect_of(&conn, "data", |tcp| !tcp.payload.is_empty());
        let end = data.seq.wrapping_sub(base) as usize + data.payload.len();
        assert!(end <= got.len() + 20, "{end} after {}", got.len());
        if data.seq == conn.ack {
            got.extend(&data.payload);
            conn.ack = data.seq.wrapping_add(data.payload.len() as u32);
        }
        world.send(&mut conn, ACK, b"");
    }
    assert_eq!(got, all);
}

fn segment_size(context: &Context) {
    let mut world = context.world();
    // The MSS option of the subject: the MTU minus the headers.
    let (_, syn) = world.begin_connect(80);
    let headers = if world.subject().is_ipv4() { 40 } else { 60 };
    assert_eq!(syn.mss(), Some(1500 - headers));
    // The peer's MSS is obeyed: its SYN has 1000.
    let (conn, socket) = connection(&mut world);
    fill(&socket, &pattern(5000));
    let first = world.expect_of(&conn, "data", |tcp| !tcp.payload.is_empty());
    assert!(
        (500..=1000).contains(&first.payload.len()),
        "{}",
        first.payload.len()
    );
    world.never_tcp(Duration::from_secs(2), "a segment is too large", |tcp| {
        tcp.payload.len() > 1000
    });
}

fn retransmission(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let before = world.statistics().retransmitted;
    assert_eq!(socket.send(b"again and again"), Ok(15));
    let mut times = Vec::new();
    for _ in 0..4 {
        let tcp = world.expect_of(&conn, "data", |tcp| !tcp.payload.is_empty());
        assert_eq!(
            (tcp.seq, tcp.payload.as_slice()),
            (conn.ack, &b"again and again"[..])
        );
        times.push(world.now().millis());
    }
    let waits: Vec<_> = times.windows(2).map(|pair| pair[1] - pair[0]).collect();
    context.note(format!("sent again after {waits:?} ms"));
    assert!(
        waits[0] >= 200,
        "a retransmission time-out is no shorter: {waits:?}"
    );
    assert!(waits[2] * 2 >= waits[1] * 3, "the waits grow: {waits:?}");
    conn.ack = conn.ack.wrapping_add(15);
    world.send(&mut conn, ACK, b"");
    world.run(Duration::from_millis(100));
    world.inbox.clear();
    world.never_tcp(Duration::from_secs(20), "it was acknowledged", |tcp| {
        !tcp.payload.is_empty()
    });
    match world.statistics().retransmitted - before {
        // The contract allows this if the documentation of the stack states it.
        0 => context.note("retransmissions are not counted"),
        count => assert_eq!(count, 3),
    }
}

fn fast_retransmission(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    // Let the congestion window grow.
    for _ in 0..10 {
        fill(&socket, &pattern(1000)[..1000]);
        world.take(&mut conn, 1000);
    }
    world.run(Duration::from_secs(1));
    world.inbox.clear();
    for _ in 0..6 {
        assert_eq!(socket.send(&pattern(1000)), Ok(1000));
    }
    let base = conn.ack;
    let lost = world.expect_of(&conn, "the first", |tcp| !tcp.payload.is_empty());
    assert_eq!(lost.seq, base);
    let begun = world.now();
    for _ in 0..3 {
        world.expect_of(&conn, "a later one", |tcp| {
            tcp.seq != base && !tcp.payload.is_empty()
        });
        world.send(&mut conn, ACK, b"");
    }
    world.expect_of(&conn, "the first again", |tcp| tcp.seq == base);
    let wait = (world.now() - begun).as_millis();
    assert!(wait < 100, "{wait} ms is a time-out");
}

fn send_times_out(context: &Context) {
    let mut world = context.world();
    let (conn, socket) = connection(&mut world);
    assert_eq!(socket.send(b"anybody?"), Ok(8));
    world.expect_of(&conn, "data", |tcp| !tcp.payload.is_empty());
    for seconds in 0..3600 {
        world.run(Duration::from_secs(1));
        world.inbox.clear();
        match received(&socket) {
            None => {}
            Some(Err(RecvError::TimedOut)) => {
                context.note(format!("{seconds} s"));
                assert_eq!(socket.send(b"x"), Err(SendError::TimedOut));
                assert!(socket.readiness().contains(Readiness::CLOSED));
                return;
            }
            other => panic!("{other:?}"),
        }
    }
    panic!("it does not notice within an hour");
}

fn nodelay(context: &Context) {
    let mut world = context.world();
    for at_once in [false, true] {
        let listener = world.listen(if at_once { 81 } else { 80 }, 1);
        let (mut conn, socket) = world.connect(&listener, 5000);
        socket.set_nodelay(at_once).unwrap();
        let base = conn.ack;
        for part in [b"a", b"b", b"c"] {
            assert_eq!(socket.send(part), Ok(1));
            world.net.poll();
        }
        world.run(Duration::from_millis(20));
        let mut count = 0;
        while let Some(packet) = world.inbox.pop_front() {
            count += usize::from(packet.tcp().is_some_and(|tcp| !tcp.payload.is_empty()));
        }
        assert_eq!(count, if at_once { 3 } else { 1 }, "nodelay is {at_once}");
        conn.ack = base.wrapping_add(if at_once { 3 } else { 1 });
        world.send(&mut conn, ACK, b"");
        if !at_once {
            let rest = world.expect_of(&conn, "the rest", |tcp| !tcp.has(SYN));
            assert_eq!(rest.payload, b"bc");
        }
    }
}
