// SPDX-License-Identifier: MIT OR Apache-2.0
//! Waiting ends in time in each style; and the reported properties of a stack.

use std::time::Duration;

use swapstone_net::error::{AcceptError, RecvError, SendError};
use swapstone_net::{Readiness, Shutdown, Stack, TcpSocket};

use super::data::connection;
use crate::conn::Conn;
use crate::context::{Context, Test};
use crate::wire::{ACK, FIN, PSH, SYN};

pub(super) const TESTS: &[Test] = &[
    Test::both("wait: accept and receive end at their timeout", times_out),
    Test::both(
        "wait: accept and receive end when something arrives",
        ends_with_what_comes,
    ),
    Test::both(
        "wait: an event loop waits for an event or a time",
        event_loop,
    ),
    Test::both(
        "close: both directions at once, and later data is discarded",
        both_halves,
    ),
    Test::both("socket: one created from an id is the same", from_id),
    Test::once(
        "stack: its name, limits and addresses are as configured",
        what_it_is,
    ),
];

const SHORT: Duration = Duration::from_millis(300);

fn times_out(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let (_conn, socket) = world.connect(&listener, 5000);
    listener.set_timeout(Some(SHORT));
    socket.set_timeout(Some(SHORT));
    let begun = world.now();
    assert_eq!(listener.accept().err(), Some(AcceptError::TimedOut));
    assert_eq!(world.now() - begun, SHORT);
    assert_eq!(socket.recv(&mut [0; 4]), Err(RecvError::TimedOut));
    assert_eq!(socket.peek(&mut [0; 4]), Err(RecvError::TimedOut));
    assert_eq!(world.now() - begun, 3 * SHORT);
}

fn ends_with_what_comes(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    listener.set_nonblocking(false);
    let mut conn = Conn::new(5000, 80);
    world.send_syn(&mut conn);
    world.finish_handshake(&mut conn);
    // The last segment of the handshake takes a millisecond.
    let begun = world.now();
    let (socket, peer) = listener.accept().expect("it comes");
    assert_eq!(peer, world.at_peer(5000));
    assert_eq!((world.now() - begun).as_millis(), 1);
    world.send(&mut conn, ACK | PSH, b"data");
    assert_eq!(socket.recv_with(<[u8]>::len), Ok(4));
    assert_eq!((world.now() - begun).as_millis(), 2);
    world.send(&mut conn, ACK | FIN, b"");
    assert_eq!(socket.recv(&mut [0; 4]), Ok(0));
    assert_eq!((world.now() - begun).as_millis(), 3);
}

fn event_loop(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    crate::conn::events(&world);
    let begun = world.now();
    assert_eq!(world.net.next_event(Some(begun + SHORT)), None);
    assert_eq!(world.now() - begun, SHORT);
    world.send(&mut conn, ACK | PSH, b"data");
    let (id, ready) = world.net.next_event(None).expect("data comes");
    assert_eq!(id, socket.id());
    assert!(ready.contains(Readiness::READABLE));
    assert_eq!(
        world.now() - begun,
        SHORT + Duration::from_millis(1),
        "as soon as it comes"
    );
}

fn both_halves(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    assert_eq!(socket.send(b"last"), Ok(4));
    assert_eq!(socket.shutdown(Shutdown::Both), Ok(()));
    assert_eq!(socket.send(b"x"), Err(SendError::Closed));
    assert_eq!(socket.recv(&mut [0; 4]), Ok(0));
    assert_eq!(world.take(&mut conn, 4), b"last");
    world.send(&mut conn, ACK | PSH, b"late");
    world.run(Duration::from_millis(20));
    assert_eq!(socket.recv(&mut [0; 4]), Ok(0));
    assert_eq!(socket.shutdown(Shutdown::Both), Ok(()), "it is so already");
}

fn from_id(context: &Context) {
    let mut world = context.world();
    let (mut conn, socket) = connection(&mut world);
    let id = socket.id();
    std::mem::forget(socket); // one of the two closes it
    let again = TcpSocket::from_id(&world.net, id);
    assert_eq!(again.peer_addr(), Some(world.at_peer(5000)));
    world.give(&mut conn, b"data");
    assert_eq!(again.recv_with(<[u8]>::len), Ok(4));
    drop(again);
    world.expect_of(&conn, "an end", |tcp| tcp.has(FIN) && !tcp.has(SYN));
}

fn what_it_is(context: &Context) {
    let mut config = context.config();
    config.limits.tcp_sockets = 77;
    config.limits.udp_sockets = 33;
    let world = context.world_with(&config, swapstone_net_link::Options::default());
    world.net.with(|stack| {
        let can = stack.capabilities();
        assert_eq!(can.name, context.backend.name);
        assert!(
            can.version
                .starts_with(|first: char| first.is_ascii_digit())
        );
        assert!(!can.congestion_control.is_empty());
        assert!(can.ipv6 && can.keep_alive);
        assert_eq!(stack.limits(), config.limits);
        let addresses = stack.addresses();
        for address in &config.addresses {
            assert!(addresses.contains(address), "{address:?} of {addresses:?}");
        }
    });
}
