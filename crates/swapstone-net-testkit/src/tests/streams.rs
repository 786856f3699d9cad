// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two stacks: streams over links with and without faults, blocking sockets, reproducible runs.

use std::time::Duration;

use swapstone_net::{Shutdown, TcpSocket};
use swapstone_net_link::{Path, Queue};

use super::data::pattern;
use crate::context::{Context, Test};
use crate::pair::{Blob, Echo, Pair, Server};
use crate::watched::Watched;

pub(super) const TESTS: &[Test] = &[
    Test::both("stream: blocking sockets in both directions", talk),
    Test::both(
        "stream: a server of the stack under test echoes a stream",
        echo_server,
    ),
    Test::both(
        "stream: 100 kB and a drop at once, over a link that loses 5 %",
        drop_over_loss,
    ),
    Test::both(
        "stream: a server's 100 kB and a drop at once, over a link that loses 5 %",
        blob_over_loss,
    ),
    Test::both(
        "stream: loss, reordering, duplicates and bit errors change no byte",
        bad_link,
    )
    .within(120),
    Test::both("stream: a narrow queue changes no byte", narrow_queue).within(120),
    Test::both(
        "stream: 200 connections, one after another, lose no request",
        requests,
    ),
    Test::both(
        "stream: more connections than the backlog are all served",
        more_than_backlog,
    ),
    Test::both(
        "stream: the same seed gives the same frames at the same microseconds",
        same_again,
    ),
    Test::both("part: digest of a run", digest).hidden(),
];

fn delay(milliseconds: u64) -> Path {
    Path {
        delay: Duration::from_millis(milliseconds),
        ..Path::default()
    }
}

fn bad() -> Path {
    Path {
        bandwidth: 100_000_000,
        delay: Duration::from_millis(5),
        jitter: Duration::from_millis(1),
        reorder_ppm: 10_000,
        reorder_by: Duration::from_millis(3),
        loss_ppm: 10_000,
        duplicate_ppm: 10_000,
        corrupt_ppm: 10_000,
        queue: Queue::default(),
    }
}

pub(super) fn connect(pair: &Pair, port: u16) -> TcpSocket<Watched> {
    let socket = pair.subject.tcp().unwrap();
    socket.set_timeout(Some(Duration::from_secs(600)));
    socket.connect(pair.at_other(port)).unwrap();
    socket
}

/// Sends all data and reads it back, in small pieces; returns the received bytes.
pub(super) fn round_trip(socket: &TcpSocket<Watched>, all: &[u8], ahead: usize) -> Vec<u8> {
    let mut got = Vec::new();
    let mut sent = 0;
    while got.len() < all.len() {
        while sent < all.len() && sent < got.len() + ahead {
            sent += socket
                .send(&all[sent..all.len().min(got.len() + ahead)])
                .unwrap();
        }
        let count = socket.recv_with(|bytes| {
            got.extend_from_slice(bytes);
            bytes.len()
        });
        assert_ne!(count, Ok(0), "it ends too early");
        count.unwrap();
    }
    socket.shutdown(Shutdown::Write).unwrap();
    assert_eq!(socket.recv(&mut [0; 10]), Ok(0));
    got
}

fn talk(context: &Context) {
    let pair = context.pair(delay(5));
    pair.link.attach(
        1,
        Server::new(&pair.other, pair.at_other(7), 4, Echo::default),
    );
    let socket = connect(&pair, 7);
    assert_eq!(socket.peer_addr(), Some(pair.at_other(7)));
    let all = pattern(300_000);
    assert!(round_trip(&socket, &all, 20_000) == all);
}

fn echo_server(context: &Context) {
    let pair = context.pair(delay(5));
    pair.link.attach(
        0,
        Server::new(&pair.subject, pair.at_subject(7), 4, Echo::default),
    );
    let socket = pair.other.tcp().unwrap();
    socket.set_timeout(Some(Duration::from_secs(600)));
    socket.connect(pair.at_subject(7)).unwrap();
    let all = pattern(300_000);
    assert!(round_trip(&socket, &all, 20_000) == all);
}

/// The stack under test sends and drops; the other reads to the end.
fn drop_over_loss(context: &Context) {
    let pair = context.pair(Path {
        loss_ppm: 50_000,
        ..delay(5)
    });
    let listener = pair.other.tcp().unwrap();
    listener.bind(pair.at_other(9)).unwrap();
    listener.listen(4).unwrap();
    let all = pattern(100_000);
    let socket = connect(&pair, 9);
    listener.set_timeout(Some(Duration::from_secs(600)));
    let (taker, _) = listener.accept().unwrap();
    taker.set_nonblocking(true);
    let mut got = Vec::new();
    let mut sent = 0;
    socket.set_nonblocking(true);
    while sent < all.len() {
        sent += socket.send(&all[sent..]).unwrap_or(0);
        let now = pair.link.now();
        pair.link.run_until(now + Duration::from_millis(1));
        let _ = taker.recv_with(|bytes| {
            got.extend_from_slice(bytes);
            bytes.len()
        });
    }
    drop(socket);
    taker.set_timeout(Some(Duration::from_secs(600)));
    loop {
        let count = taker.recv_with(|bytes| {
            got.extend_from_slice(bytes);
            bytes.len()
        });
        if count.expect("no reset") == 0 {
            break;
        }
    }
    assert!(got == all, "{} of {} bytes", got.len(), all.len());
}

/// Requests data of the server at `at`; returns the number of received bytes.
fn ask_blob(pair: &Pair, size: u32) -> usize {
    let socket = pair.other.tcp().unwrap();
    socket.set_timeout(Some(Duration::from_secs(600)));
    socket.connect(pair.at_subject(80)).expect("connected");
    socket.send_all(&size.to_be_bytes()).expect("asked");
    let mut total = 0;
    loop {
        let count = socket.recv_with(|bytes| bytes.len()).expect("no reset");
        total += count;
        if count == 0 {
            return total;
        }
    }
}

fn blob_over_loss(context: &Context) {
    let pair = context.pair(Path {
        loss_ppm: 50_000,
        ..delay(5)
    });
    pair.link.attach(
        0,
        Server::new(&pair.subject, pair.at_subject(80), 4, Blob::default),
    );
    assert_eq!(ask_blob(&pair, 100_000), 100_000);
}

fn bad_link(context: &Context) {
    let pair = context.pair(bad());
    pair.link.attach(
        1,
        Server::new(&pair.other, pair.at_other(7), 4, Echo::default),
    );
    let socket = connect(&pair, 7);
    let all = pattern(500_000);
    let begun = pair.link.now();
    let got = round_trip(&socket, &all, 60_000);
    let seconds = (pair.link.now() - begun).as_secs_f64();
    context.note(format!("500 kB there and back in {seconds:.1} virtual s"));
    assert!(got == all);
    let counters = (pair.link.counters(0), pair.link.counters(1));
    for counters in [counters.0, counters.1] {
        assert!(counters.lost > 0 && counters.corrupted > 0, "{counters:?}");
        assert!(
            counters.duplicated > 0 && counters.reordered > 0,
            "{counters:?}"
        );
    }
}

fn narrow_queue(context: &Context) {
    let path = Path {
        bandwidth: 10_000_000,
        delay: Duration::from_millis(10),
        queue: Queue {
            frames: 8,
            ..Queue::default()
        },
        ..Path::default()
    };
    let pair = context.pair(path);
    pair.link.attach(
        1,
        Server::new(&pair.other, pair.at_other(7), 4, Echo::default),
    );
    let socket = connect(&pair, 7);
    let all = pattern(500_000);
    assert!(round_trip(&socket, &all, 60_000) == all);
}

fn requests(context: &Context) {
    let pair = context.pair(delay(1));
    let server = Server::new(&pair.subject, pair.at_subject(80), 4, Blob::default);
    let served = server.served();
    pair.link.attach(0, server);
    for count in 0..200 {
        assert_eq!(ask_blob(&pair, 340), 340, "request {count}");
    }
    assert_eq!(served.accepted.get(), 200);
    assert!(served.errors.borrow().is_empty());
}

fn more_than_backlog(context: &Context) {
    let pair = context.pair(delay(1));
    let server = Server::new(&pair.subject, pair.at_subject(80), 2, Blob::default);
    let served = server.served();
    pair.link.attach(0, server);
    let sockets: Vec<_> = (0..50).map(|_| pair.other.tcp().unwrap()).collect();
    for socket in &sockets {
        socket.set_nonblocking(true);
        let _ = socket.connect(pair.at_subject(80));
        // One millisecond apart, with a round trip of two: about every third finds a full backlog.
        let now = pair.link.now();
        pair.link.run_until(now + Duration::from_millis(1));
    }
    for socket in &sockets {
        socket.set_nonblocking(false);
        socket.set_timeout(Some(Duration::from_secs(300)));
        socket
            .connect(pair.at_subject(80))
            .expect("served sooner or later");
        socket.send_all(&10_u32.to_be_bytes()).unwrap();
        let mut total = 0;
        while total < 10 {
            total += socket.recv(&mut [0; 100]).unwrap();
        }
    }
    assert_eq!(served.accepted.get(), 50);
}

fn digest(context: &Context) {
    let pair = context.pair(bad());
    pair.link.attach(
        1,
        Server::new(&pair.other, pair.at_other(7), 4, Echo::default),
    );
    let socket = connect(&pair, 7);
    let all = pattern(100_000);
    assert!(round_trip(&socket, &all, 60_000) == all);
    drop(socket);
    let now = pair.link.now();
    pair.link.run_until(now + Duration::from_secs(200));
    context.note(format!("{:016x}", pair.link.digest()));
}

fn same_again(context: &Context) {
    let part = "part: digest of a run";
    let (one, again, other) = (
        context.child(part, context.seed),
        context.child(part, context.seed),
        context.child(part, context.seed.wrapping_add(1)),
    );
    assert_eq!(one.len(), 1);
    assert_eq!(one, again);
    assert_ne!(one, other);
}
