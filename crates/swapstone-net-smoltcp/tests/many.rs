// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many connections: at once, and one after another.

mod common;

use std::time::Duration;

use common::*;
use swapstone_net::{Limits, Readiness};
use swapstone_net_link::Options;

fn small(sockets: usize) -> Limits {
    Limits {
        tcp_sockets: sockets,
        receive_buffer: 2048,
        send_buffer: 2048,
        ..Limits::default()
    }
}

#[test]
fn ten_thousand_connections_at_once() {
    const MANY: usize = 10_000;
    let options = Options {
        frames: 30_000,
        ..Options::default()
    };
    let world = world_with(options, small(MANY + 1));
    let listener = world.listen("10.0.0.2:80", MANY);
    let clients: Vec<Tcp> = (0..MANY)
        .map(|_| {
            let client = world.client.tcp().unwrap();
            client.set_nonblocking(true);
            let _ = client.connect(at("10.0.0.2:80"));
            client
        })
        .collect();
    world.run(Duration::from_secs(10));
    let servers: Vec<Tcp> = (0..MANY)
        .map(|_| {
            let (server, _) = listener.accept().unwrap();
            server.set_nonblocking(true);
            server
        })
        .collect();
    for (number, client) in clients.iter().enumerate() {
        assert!(client.readiness().contains(Readiness::WRITABLE));
        client.connect(at("10.0.0.2:80")).unwrap();
        client.send(&number.to_be_bytes()).unwrap();
    }
    world.millis(100);
    let mut seen = vec![false; MANY];
    for server in &servers {
        let number = usize::from_be_bytes(drain(server).0.try_into().unwrap());
        assert!(!std::mem::replace(&mut seen[number], true));
        let peer = server.peer_addr();
        assert_eq!(clients[number].local_addr(), peer);
    }
    assert_eq!(count(&world.server).tcp_sockets, MANY as u64 + 1);
    drop((clients, servers));
    world.run(Duration::from_secs(10));
    assert_eq!(count(&world.client).tcp_sockets, 0);
    assert_eq!(count(&world.server).tcp_sockets, 1);
}

/// Connections one after another, closed by the client: before half of them, all its ports are in
/// TIME-WAIT.
fn in_sequence(many: u32) {
    let world = world_with(Options::default(), small(16));
    let listener = world.listen("10.0.0.2:80", 4);
    for number in 0..many {
        let client = world.client.tcp().unwrap();
        client.connect(at("10.0.0.2:80")).unwrap();
        client.send(&number.to_be_bytes()).unwrap();
        drop(client);
        world.millis(3);
        let (server, _) = listener.accept().unwrap();
        server.set_nonblocking(true);
        let (read, end) = drain(&server);
        assert_eq!((&read[..], end), (&number.to_be_bytes()[..], Ok(0)));
        drop(server);
        world.millis(2);
        assert!(count(&world.client).tcp_sockets <= 2);
        assert!(count(&world.server).tcp_sockets <= 3);
        assert!(world.client.with(|stack| stack.time_waits()) <= 4096);
    }
    assert_eq!(world.server.with(|stack| stack.time_waits()), 0);
    assert_eq!(count(&world.client).retransmitted, 0);
}

#[test]
fn connections_in_sequence() {
    in_sequence(20_000);
}

#[test]
#[ignore = "takes minutes: run it with --release -- --ignored"]
fn a_million_connections_in_sequence() {
    in_sequence(1_000_000);
}
