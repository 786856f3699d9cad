// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP between two stacks.

mod common;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use common::*;
use swapstone_net::error::{AcceptError, BindError, ConnectError, RecvError, SendError};
use swapstone_net::{Limits, Readiness, Shutdown, Stack};
use swapstone_net_link::{Options, Path, Queue, Verdict, WhenFull};

const SYN: u8 = 2;
const RST: u8 = 4;

/// Records the flags of each TCP frame over IPv4 that a port sends.
fn flags(world: &World, port: usize) -> Rc<RefCell<Vec<u8>>> {
    let seen = Rc::new(RefCell::new(Vec::new()));
    let list = Rc::clone(&seen);
    world.link.set_filter(port, move |_, frame| {
        if frame[12..14] == [8, 0] && frame[23] == 6 {
            list.borrow_mut().push(frame[47]);
        }
        Verdict::Pass
    });
    seen
}

fn echo(address: &str) {
    let world = world();
    let listener = world.listen(address, 1);
    let client = world.client.tcp().unwrap();
    client.connect(at(address)).unwrap();
    world.millis(5);
    let (server, peer) = listener.accept().unwrap();
    assert_eq!(Some(peer), client.local_addr());
    assert_eq!(server.local_addr(), client.peer_addr());
    client.send_vectored(&[b"hello, ", b"", b"world"]).unwrap();
    let mut buffer = [0; 20];
    assert_eq!(server.recv(&mut buffer).unwrap(), 12);
    assert_eq!(&buffer[..12], b"hello, world");
    server.send_all(&buffer[..5]).unwrap();
    assert_eq!(client.peek(&mut buffer).unwrap(), 5);
    assert_eq!(client.recv_with(|bytes| bytes.len()).unwrap(), 5);
}

#[test]
fn bytes_go_both_ways_over_ipv4() {
    echo("10.0.0.2:80");
}

#[test]
fn bytes_go_both_ways_over_ipv6() {
    echo("[fd00::2]:80");
    // The link-local address is derived from the device's.
    echo("[fe80::ff:fe00:2]:80");
}

#[test]
fn connect_returns_the_result() {
    let world = world();
    let connect = |address: &str| world.client.tcp().unwrap().connect(at(address));
    assert_eq!(connect("10.0.0.2:81"), Err(ConnectError::Refused));
    assert_eq!(connect("192.0.2.1:80"), Err(ConnectError::Unreachable));
    let before = world.link.now();
    assert_eq!(connect("10.0.0.3:80"), Err(ConnectError::TimedOut));
    assert_eq!((world.link.now() - before).as_secs(), 60);
    assert_eq!(connect("[fd00::3]:80"), Err(ConnectError::TimedOut));
    assert_eq!(count(&world.client).tcp_sockets, 0);
}

#[test]
fn a_syn_beyond_the_backlog_is_dropped_and_retransmitted() {
    let world = world();
    let listener = world.listen("10.0.0.2:80", 2);
    let answers = flags(&world, 1);
    let clients: Vec<Tcp> = (0..3)
        .map(|_| {
            let client = world.client.tcp().unwrap();
            client.set_nonblocking(true);
            let _ = client.connect(at("10.0.0.2:80"));
            client
        })
        .collect();
    world.millis(500);
    let there = |client: &Tcp| ready(client).contains(Readiness::WRITABLE);
    assert_eq!(clients.iter().filter(|client| there(client)).count(), 2);
    assert!(answers.borrow().iter().all(|flags| flags & RST == 0));
    assert!(count(&world.server).no_room > 0);
    listener.accept().unwrap();
    world.millis(3000);
    assert!(clients.iter().all(there));
    listener.accept().unwrap();
    listener.accept().unwrap();
    assert_eq!(listener.accept().unwrap_err(), AcceptError::WouldBlock);
    assert!(answers.borrow().iter().all(|flags| flags & RST == 0));
}

#[test]
fn a_closed_listener_resets_its_accept_queue() {
    let world = world();
    let listener = world.listen("10.0.0.2:80", 4);
    let client = world.client.tcp().unwrap();
    client.connect(at("10.0.0.2:80")).unwrap();
    drop(listener);
    world.millis(5);
    client.set_nonblocking(true);
    assert_eq!(client.recv(&mut [0]), Err(RecvError::Reset));
    assert_eq!(count(&world.server).tcp_sockets, 0);
}

#[test]
fn a_dropped_socket_delivers_its_data() {
    let world = world();
    let (client, server) = world.pair();
    let bytes: Vec<u8> = (0..60_000u32).map(|byte| byte as u8).collect();
    assert_eq!(client.send(&bytes).unwrap(), bytes.len());
    drop(client);
    assert_eq!(count(&world.client).orphans, 1);
    world.millis(2000);
    let (read, end) = drain(&server);
    assert_eq!((read, end), (bytes, Ok(0)));
    drop(server);
    world.millis(100);
    let after = count(&world.client);
    assert_eq!((after.orphans, after.tcp_sockets), (0, 0));
    assert_eq!(count(&world.server).tcp_sockets, 0);
    assert_eq!(world.client.with(|stack| stack.time_waits()), 1);
    world.run(Duration::from_secs(61));
    world.client.poll();
    assert_eq!(world.client.with(|stack| stack.time_waits()), 0);
}

#[test]
fn a_closed_socket_times_out() {
    let world = world();
    let (client, server) = world.pair();
    client.send(b"never read").unwrap();
    drop(client);
    // The peer acknowledges all data and sends no FIN.
    world.run(Duration::from_secs(59));
    assert_eq!(count(&world.client).orphans, 1);
    world.run(Duration::from_secs(5));
    assert_eq!(count(&world.client).orphans, 0);
    world.millis(10);
    assert_eq!(drain(&server), (b"never read".to_vec(), Ok(0)));
}

#[test]
fn closing_with_unread_data_resets() {
    let world = world();
    let (client, server) = world.pair();
    client.send(b"unread").unwrap();
    world.millis(50);
    drop(server);
    world.millis(50);
    assert_eq!(client.recv(&mut [0; 8]), Err(RecvError::Reset));
    assert_eq!(client.send(b"x"), Err(SendError::Reset));
    assert!(ready(&client).contains(Readiness::CLOSED));
    assert_eq!(count(&world.server).tcp_sockets, 0);
}

#[test]
fn data_for_a_closed_socket_is_reset() {
    let world = world();
    let (client, server) = world.pair();
    drop(server);
    world.millis(5);
    assert_eq!(client.recv(&mut [0; 8]), Ok(0));
    client.send(b"late").unwrap();
    world.millis(50);
    assert_eq!(client.send(b"x"), Err(SendError::Reset));
}

#[test]
fn linger_resets_at_once_or_after_its_time() {
    let world = world();
    let (client, server) = world.pair();
    server.set_linger(Some(Duration::ZERO)).unwrap();
    drop(server);
    world.millis(5);
    assert_eq!(client.recv(&mut [0; 8]), Err(RecvError::Reset));
    drop(client);
    let (client, server) = world.pair();
    client.set_linger(Some(Duration::from_secs(2))).unwrap();
    let sent = client.send(&[7; 70_000]).unwrap();
    world.millis(1000);
    // The peer's window is full, so not all data can be delivered.
    let more = client.send(&[7; 70_000]).unwrap();
    drop(client);
    world.millis(1900);
    assert_eq!(count(&world.client).orphans, 1);
    world.millis(200);
    assert_eq!(count(&world.client).orphans, 0);
    let (read, end) = drain(&server);
    assert_eq!(
        (read.len() < sent + more, end),
        (true, Err(RecvError::Reset))
    );
    assert_eq!(read.len(), 64 << 10);
}

#[test]
fn a_half_closed_connection_stays_usable() {
    let world = world();
    let (client, server) = world.pair();
    client.send(b"request").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.send(b"x"), Err(SendError::Closed));
    world.millis(50);
    assert_eq!(drain(&server), (b"request".to_vec(), Ok(0)));
    for _ in 0..20 {
        server.send(&[1; 1000]).unwrap();
        world.millis(1000);
    }
    assert_eq!(
        drain(&client),
        (vec![1; 20_000], Err(RecvError::WouldBlock))
    );
    server.shutdown(Shutdown::Write).unwrap();
    world.millis(50);
    assert_eq!(drain(&client), (vec![], Ok(0)));
    assert!(ready(&client).contains(Readiness::CLOSED));
}

#[test]
fn data_is_readable_after_time_wait() {
    let world = world();
    let (client, server) = world.pair();
    client.shutdown(Shutdown::Write).unwrap();
    world.millis(50);
    server.send(b"last words").unwrap();
    drop(server);
    world.run(Duration::from_secs(100));
    assert_eq!(drain(&client), (b"last words".to_vec(), Ok(0)));
}

#[test]
fn data_before_a_rst_is_read() {
    let world = world();
    let (client, server) = world.pair();
    client.send(b"for you").unwrap();
    server.send(b"unread").unwrap();
    world.millis(50);
    client.set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    world.millis(50);
    assert_eq!(drain(&server), (b"for you".to_vec(), Err(RecvError::Reset)));
}

#[test]
fn a_shutdown_for_reading_discards_data() {
    let world = world();
    let (client, server) = world.pair();
    client.send(b"early").unwrap();
    world.millis(50);
    server.shutdown(Shutdown::Read).unwrap();
    client.send(&[0; 60_000]).unwrap();
    world.millis(200);
    client.send(&[0; 60_000]).unwrap();
    world.millis(200);
    assert_eq!(drain(&server), (vec![], Ok(0)));
    assert_eq!(server.send(b"still"), Ok(5));
    world.millis(50);
    assert_eq!(drain(&client).0, b"still");
}

#[test]
fn a_full_send_buffer_blocks_and_free_space_is_an_event() {
    let world = world();
    let (client, server) = world.pair();
    let mut sent = 0;
    loop {
        match client.send(&[9; 10_000]) {
            Ok(size) => sent += size,
            Err(error) => break assert_eq!(error, SendError::WouldBlock),
        }
        world.millis(100);
    }
    assert_eq!(sent, 128 << 10);
    assert!(!ready(&client).contains(Readiness::WRITABLE));
    while world.client.with(|stack| stack.next_event()).is_some() {}
    drain(&server).1.unwrap_err();
    world.millis(1000);
    let event = world.client.with(|stack| stack.next_event()).unwrap();
    assert_eq!(event.0, client.id());
    assert!(event.1.contains(Readiness::WRITABLE));
    assert!(client.send(b"more").is_ok());
}

#[test]
fn each_socket_is_in_the_queue_of_events_once() {
    let world = world();
    let (client, server) = world.pair();
    while world.server.with(|stack| stack.next_event()).is_some() {}
    for _ in 0..3 {
        client.send(b"x").unwrap();
        world.millis(100);
    }
    let next = || world.server.with(|stack| stack.next_event());
    let (id, ready) = next().unwrap();
    assert_eq!(id, server.id());
    assert!(ready.contains(Readiness::READABLE));
    assert_eq!(next(), None);
    client.send(b"x").unwrap();
    world.millis(100);
    assert_eq!(next().map(|event| event.0), Some(server.id()));
}

#[test]
fn a_port_in_time_wait_is_reused_at_once() {
    let world = world();
    let listener = world.listen("10.0.0.2:80", 4);
    for round in 0..20u8 {
        let client = world.client.tcp().unwrap();
        client.bind(at("10.0.0.1:5000")).unwrap();
        client.connect(at("10.0.0.2:80")).unwrap();
        client.send_all(&[round; 3000]).unwrap();
        world.millis(100);
        let (server, peer) = listener.accept().unwrap();
        assert_eq!(peer.port(), 5000);
        server.set_nonblocking(true);
        assert!(drain(&server).0 == vec![round; 3000]);
        // The server closes first, so TIME-WAIT is on its side.
        drop(server);
        world.millis(5);
        drop(client);
        world.millis(5);
        assert_eq!(world.server.with(|stack| stack.time_waits()), 1);
        assert_eq!(world.client.with(|stack| stack.time_waits()), 0);
    }
}

#[test]
fn a_retransmitted_fin_is_acknowledged_in_time_wait() {
    let world = world();
    let (client, server) = world.pair();
    drop(server);
    world.millis(5);
    // The last ACK, sent in TIME-WAIT, is lost twice.
    let mut lost = 0;
    world.link.set_filter(1, move |_, frame| {
        let tcp = frame[12..14] == [8, 0] && frame[23] == 6;
        lost += u32::from(tcp);
        if tcp && lost <= 2 {
            Verdict::Drop
        } else {
            Verdict::Pass
        }
    });
    drop(client);
    world.run(Duration::from_secs(5));
    assert_eq!(count(&world.client).tcp_sockets, 0);
    assert_eq!(count(&world.client).retransmitted, 2);
    assert_eq!(world.server.with(|stack| stack.time_waits()), 1);
}

#[test]
fn a_fin_with_data_is_acknowledged_before_time_wait() {
    let world = world();
    let (client, server) = world.pair();
    client.shutdown(Shutdown::Write).unwrap();
    world.millis(50);
    server.send(b"data and end in one segment").unwrap();
    drop(server);
    world.run(Duration::from_secs(5));
    assert_eq!(count(&world.server).retransmitted, 0);
    assert_eq!(count(&world.server).tcp_sockets, 0);
    assert_eq!(world.client.with(|stack| stack.time_waits()), 1);
    assert_eq!(drain(&client).0.len(), 27);
}

#[test]
fn a_silent_peer_times_out() {
    let world = world();
    let (client, server) = world.pair();
    let (idle, probed) = (server, client);
    probed
        .set_keep_alive(Some(Duration::from_secs(10)))
        .unwrap();
    world.run(Duration::from_secs(1000));
    assert_eq!(probed.recv(&mut [0]), Err(RecvError::WouldBlock));
    world.link.detach(1);
    world.link.set_filter(1, |_, _| Verdict::Drop);
    world.run(Duration::from_secs(61));
    assert_eq!(probed.recv(&mut [0]), Err(RecvError::TimedOut));
    drop(idle);
}

#[test]
fn unacknowledged_data_times_out_and_idle_connections_do_not() {
    let world = world();
    let (client, _server) = world.pair();
    world.run(Duration::from_secs(7200));
    client.send(b"x").unwrap();
    world.millis(100);
    assert_eq!(client.recv(&mut [0]), Err(RecvError::WouldBlock));
    world.link.set_filter(1, |_, _| Verdict::Drop);
    client.send(b"y").unwrap();
    world.run(Duration::from_secs(119));
    assert_eq!(client.recv(&mut [0]), Err(RecvError::WouldBlock));
    world.run(Duration::from_secs(2));
    assert_eq!(client.recv(&mut [0]), Err(RecvError::TimedOut));
    assert_eq!(client.send(b"z"), Err(SendError::TimedOut));
}

fn transfer(world: &World, to: &str, size: usize) -> Duration {
    let listener = world.listen(to, 1);
    let client = world.client.tcp().unwrap();
    client.connect(at(to)).unwrap();
    world.millis(100);
    let (server, _) = listener.accept().unwrap();
    client.set_nonblocking(true);
    server.set_nonblocking(true);
    let start = world.link.now();
    let byte = |at: usize| (at * 7 + at / 251) as u8;
    let (mut sent, mut received) = (0, 0);
    while received < size {
        let chunk: Vec<u8> = (sent..size.min(sent + 8192)).map(byte).collect();
        sent += client.send(&chunk).unwrap_or(0);
        let taken = server.recv_with(|bytes| {
            assert!(
                bytes
                    .iter()
                    .enumerate()
                    .all(|(at, is)| *is == byte(received + at))
            );
            bytes.len()
        });
        received += taken.unwrap_or(0);
        if sent == size || taken.is_err() {
            world.run(Duration::from_micros(500));
        }
        assert!(
            (world.link.now() - start).as_secs() < 600,
            "{received} of {size}"
        );
    }
    world.link.now() - start
}

#[test]
fn throughput_survives_loss() {
    let world = world();
    world.link.set_paths(Path {
        bandwidth: 100_000_000,
        delay: Duration::from_millis(5),
        loss_ppm: 10_000,
        duplicate_ppm: 2_000,
        corrupt_ppm: 2_000,
        reorder_ppm: 2_000,
        reorder_by: Duration::from_millis(3),
        ..Path::default()
    });
    let time = transfer(&world, "10.0.0.2:80", 4 << 20);
    assert!(count(&world.client).retransmitted > 20);
    assert!(count(&world.server).malformed > 2);
    // Without congestion control it takes minutes of virtual time, which is equal on every run.
    assert!(time < Duration::from_secs(20), "{time:?}");
}

#[test]
fn segmentation_offload_is_used() {
    for (to, headers) in [("10.0.0.2:80", 54), ("[fd00::2]:80", 74)] {
        let options = Options {
            partial_checksums: true,
            segments: 60_000,
            ..Options::default()
        };
        let limits = Limits {
            receive_buffer: 1 << 20,
            send_buffer: 1 << 20,
            ..Limits::default()
        };
        let world = world_with(options, limits);
        let sizes = Rc::new(RefCell::new((0, Vec::new())));
        let seen = Rc::clone(&sizes);
        world.link.set_filter(0, move |_, frame| {
            let v6 = frame[12] == 0x86;
            let tcp = if v6 { frame[20] == 6 } else { frame[23] == 6 };
            let mut seen = seen.borrow_mut();
            seen.0 = seen.0.max(frame.len());
            if tcp && frame[if v6 { 67 } else { 47 }] & SYN != 0 {
                let at = if v6 { 74 } else { 54 };
                assert_eq!(frame[at..at + 2], [2, 4]);
                seen.1
                    .push(u16::from_be_bytes([frame[at + 2], frame[at + 3]]));
            }
            Verdict::Pass
        });
        transfer(&world, to, 4 << 20);
        let (largest, offered) = &*sizes.borrow();
        assert!((20_000..=60_014).contains(largest), "{largest}");
        assert_eq!(*offered, [(1514 - headers) as u16]);
    }
}

#[test]
fn a_full_transmit_queue_loses_nothing() {
    let limits = Limits {
        receive_buffer: 1 << 18,
        send_buffer: 1 << 18,
        ..Limits::default()
    };
    let world = world_with(Options::default(), limits);
    world.link.set_paths(Path {
        bandwidth: 50_000_000,
        delay: Duration::from_millis(2),
        queue: Queue {
            frames: 4,
            when_full: WhenFull::Refuse,
            ..Queue::default()
        },
        ..Path::default()
    });
    transfer(&world, "10.0.0.2:80", 2 << 20);
    assert!(world.link.counters(0).refused > 100);
    assert_eq!(count(&world.client).retransmitted, 0);
}

#[test]
fn a_wildcard_listener_accepts_all_addresses() {
    let world = world();
    let four = world.listen("0.0.0.0:80", 4);
    let six = world.listen("[::]:80", 4);
    for to in ["10.0.0.2:80", "[fd00::2]:80", "[fe80::ff:fe00:2]:80"] {
        world.client.tcp().unwrap().connect(at(to)).unwrap();
    }
    world.millis(5);
    assert_eq!(
        four.accept().unwrap().0.local_addr(),
        Some(at("10.0.0.2:80"))
    );
    assert!(four.accept().is_err());
    assert!(six.accept().is_ok() && six.accept().is_ok());
    drop(four);
    // A listener on the IPv6 wildcard accepts IPv4, too, without a more specific one.
    world
        .client
        .tcp()
        .unwrap()
        .connect(at("10.0.0.2:80"))
        .unwrap();
    world.millis(5);
    assert!(six.accept().unwrap().1.is_ipv4());
    let again = world.server.tcp().unwrap();
    assert_eq!(again.bind(at("[fd00::2]:80")), Err(BindError::InUse));
    assert_eq!(again.bind(at("10.9.9.9:80")), Err(BindError::NotLocal));
    again.bind(at("10.0.0.2:0")).unwrap();
    assert!(again.local_addr().unwrap().port() >= 49152);
    assert_eq!(again.bind(at("10.0.0.2:0")), Err(BindError::AlreadyBound));
}

/// Connects to an address without a host, and closes the socket during neighbor discovery.
fn wait_for_nobody(host: &Host) {
    let lost = host.tcp().unwrap();
    lost.set_nonblocking(true);
    let _ = lost.connect(at("10.0.0.9:80"));
    host.poll();
}

#[test]
fn a_reused_socket_has_no_former_neighbor_state() {
    let world = world();
    // Both neighbors are resolved.
    drop(world.pair());
    world.millis(100);
    wait_for_nobody(&world.client);
    wait_for_nobody(&world.server);
    let start = world.link.now();
    let (client, server) = world.pair();
    server.send(b"hello").unwrap();
    world.millis(5);
    assert_eq!(drain(&client).0, b"hello");
    assert!(world.link.now() < start + Duration::from_millis(50));
}
