// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contract over the loopback interface.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use swapstone_net::error::{
    AcceptError, BindError, ConnectError, Limit, ListenError, OpenError, RecvError, Resource,
    SendError, SocketError, UdpRecvError, UdpSendError,
};
use swapstone_net::{Limits, Net, Readiness, Shutdown, Stack, TcpOption, TcpSocket, TcpStack};
use swapstone_net_kernel::{Buffers, Kernel};

type Socket = TcpSocket<Kernel>;

fn net_with(limits: Limits) -> Net<Kernel> {
    let (kernel, platform) = Kernel::new(limits, Buffers::Automatic).unwrap();
    Net::new(kernel, platform)
}

fn net() -> Net<Kernel> {
    net_with(Limits::default())
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn listening(net: &Net<Kernel>) -> (Socket, SocketAddr) {
    let server = net.tcp().unwrap();
    server.bind(local(0)).unwrap();
    server.listen(16).unwrap();
    let address = server.local_addr().unwrap();
    (server, address)
}

/// A connection: the client's socket and the server's, with timeouts of a few seconds.
fn pair(net: &Net<Kernel>) -> (Socket, Socket) {
    let (server, address) = listening(net);
    let client = net.tcp().unwrap();
    client.connect(address).unwrap();
    let (serving, peer) = server.accept().unwrap();
    assert_eq!(client.local_addr(), Some(peer));
    assert_eq!(client.peer_addr(), Some(address));
    for socket in [&client, &serving] {
        socket.set_timeout(Some(Duration::from_secs(5)));
    }
    (client, serving)
}

/// Polls until a condition holds.
fn settle(net: &Net<Kernel>) {
    let end = Instant::now() + Duration::from_millis(50);
    while Instant::now() < end {
        net.poll();
    }
}

fn received(socket: &Socket) -> Result<Vec<u8>, RecvError> {
    let mut all = Vec::new();
    let mut buffer = [0; 1000];
    loop {
        match socket.recv(&mut buffer)? {
            0 => return Ok(all),
            size => all.extend_from_slice(&buffer[..size]),
        }
    }
}

#[test]
fn data_is_sent_both_ways_and_each_direction_closes_separately() {
    let net = net();
    let (client, serving) = pair(&net);
    client.send_vectored(&[b"he", b"", b"llo"]).unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    assert_eq!(client.send(b"x"), Err(SendError::Closed));
    assert_eq!(received(&serving).unwrap(), b"hello");
    assert_eq!(serving.recv(&mut [0; 4]), Ok(0));
    serving.send_all(b"goodbye").unwrap();
    drop(serving);
    assert_eq!(received(&client).unwrap(), b"goodbye");
}

#[test]
fn unconsumed_data_is_shown_again() {
    let net = net();
    let (client, serving) = pair(&net);
    client.send_all(b"abcdef").unwrap();
    assert_eq!(serving.peek(&mut [0; 3]), Ok(3));
    assert_eq!(serving.recv_with(|_| 2), Ok(2));
    assert!(serving.readiness().contains(Readiness::READABLE));
    let mut rest = Vec::new();
    serving
        .recv_with(|bytes| {
            rest.extend_from_slice(bytes);
            bytes.len()
        })
        .unwrap();
    assert_eq!(rest, b"cdef");
    serving.set_nonblocking(true);
    assert_eq!(serving.recv(&mut [0; 4]), Err(RecvError::WouldBlock));
}

#[test]
fn data_is_read_before_the_end() {
    let net = net();
    let (client, serving) = pair(&net);
    let much = vec![7; 100_000]; // more than one read
    client.send_all(&much).unwrap();
    drop(client);
    settle(&net);
    assert_eq!(received(&serving).unwrap(), much);
}

#[test]
fn unread_data_resets_the_connection_even_if_it_was_shown() {
    let net = net();
    let (client, serving) = pair(&net);
    client.send_all(b"abc").unwrap();
    assert_eq!(serving.recv_with(|_| 1), Ok(1));
    drop(serving);
    assert_eq!(client.recv(&mut [0; 4]), Err(RecvError::Reset));
    assert_eq!(client.recv(&mut [0; 4]), Err(RecvError::Reset));
    assert_eq!(client.send(b"x"), Err(SendError::Reset));
}

#[test]
fn a_linger_time_of_zero_resets() {
    let net = net();
    let (client, serving) = pair(&net);
    client.set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    assert_eq!(serving.recv(&mut [0; 4]), Err(RecvError::Reset));
    let other = net.tcp().unwrap();
    assert_eq!(
        other.set_linger(Some(Duration::from_secs(1))),
        Err(SocketError::Unsupported)
    );
}

#[test]
fn a_shutdown_for_reading_discards_data() {
    let net = net();
    let (client, serving) = pair(&net);
    client.send_all(b"before").unwrap();
    assert_eq!(serving.recv_with(|_| 1), Ok(1));
    serving.shutdown(Shutdown::Read).unwrap();
    assert_eq!(serving.recv(&mut [0; 4]), Ok(0));
    client.set_timeout(Some(Duration::from_secs(20)));
    client.send_all(&vec![1; 20 << 20]).unwrap(); // more than all buffers
    serving.send_all(b"still there").unwrap();
    assert_eq!(client.recv(&mut [0; 20]), Ok(11));
}

#[test]
fn a_full_send_buffer_blocks_and_free_space_is_an_event() {
    let net = net();
    let (client, serving) = pair(&net);
    client.set_nonblocking(true);
    let mut sent = 0;
    let chunk = [1; 10_000];
    loop {
        match client.send(&chunk) {
            Ok(size) => sent += size,
            Err(error) => break assert_eq!(error, SendError::WouldBlock),
        }
    }
    while net.next_event(Some(net.now())).is_some() {}
    let mut buffer = vec![0; 60_000];
    let mut got = 0;
    while got < sent {
        got += serving.recv(&mut buffer).unwrap();
    }
    let until = net.now() + Duration::from_secs(5);
    let writable = loop {
        match net.next_event(Some(until)) {
            Some((id, ready)) if id == client.id() => break ready,
            Some(_) => {}
            None => panic!("no event was reported"),
        }
    };
    assert!(writable.contains(Readiness::WRITABLE));
    assert!(client.send(&chunk).unwrap() > 0);
}

#[test]
fn an_event_loop_serves_many_connections() {
    let net = net();
    let (server, address) = listening(&net);
    server.set_nonblocking(true);
    let clients: Vec<Socket> = (0..50)
        .map(|_| {
            let client = net.tcp().unwrap();
            client.set_nonblocking(true);
            assert_eq!(client.connect(address), Err(ConnectError::WouldBlock));
            client
        })
        .collect();
    let mut serving = Vec::new();
    let mut answered = 0;
    let until = net.now() + Duration::from_secs(10);
    while answered < clients.len() {
        let (id, ready) = net.next_event(Some(until)).expect("an event in time");
        if id == server.id() {
            while let Ok((socket, _)) = server.accept() {
                socket.set_nonblocking(true);
                serving.push(socket);
            }
        } else if let Some(client) = clients.iter().find(|client| client.id() == id) {
            if ready.contains(Readiness::WRITABLE) && client.connect(address).is_ok() {
                client.send_all(b"ping").unwrap();
            }
            let mut buffer = [0; 8];
            if client.recv(&mut buffer) == Ok(4) {
                answered += 1;
            }
        } else if let Some(socket) = serving.iter().find(|socket| socket.id() == id) {
            let mut buffer = [0; 8];
            if let Ok(size @ 1..) = socket.recv(&mut buffer) {
                socket.send_all(&buffer[..size]).unwrap();
            }
        }
    }
    let statistics = net.with(|kernel| kernel.statistics());
    assert_eq!(statistics.tcp_sockets, 101);
    drop((clients, serving, server));
    assert_eq!(net.with(|kernel| kernel.statistics()).tcp_sockets, 0);
}

#[test]
fn polling_without_waiting_works() {
    let net = net();
    let (client, serving) = pair(&net);
    serving.set_nonblocking(true);
    for _ in 0..20 {
        client.send_all(b"x").unwrap();
        let end = Instant::now() + Duration::from_secs(5);
        while serving.recv(&mut [0; 4]) == Err(RecvError::WouldBlock) {
            assert!(Instant::now() < end);
            net.poll();
        }
    }
}

#[test]
fn a_refused_connection_returns_the_same_error_again() {
    let net = net();
    let (server, address) = listening(&net);
    drop(server);
    let client = net.tcp().unwrap();
    assert_eq!(client.connect(address), Err(ConnectError::Refused));
    assert_eq!(client.connect(address), Err(ConnectError::Refused));
    assert_eq!(client.peer_addr(), None);
    assert_eq!(client.send(b"x"), Err(SendError::NotConnected));
}

#[test]
fn bind_and_listen_check_the_state() {
    let net = net();
    let (server, address) = listening(&net);
    let other = net.tcp().unwrap();
    assert_eq!(other.listen(1), Err(ListenError::NotBound));
    assert_eq!(other.bind(address), Err(BindError::InUse));
    let foreign = SocketAddr::from(([192, 0, 2, 77], 0));
    assert_eq!(other.bind(foreign), Err(BindError::NotLocal));
    other.bind(local(0)).unwrap();
    assert_eq!(other.bind(local(0)), Err(BindError::AlreadyBound));
    assert_eq!(other.accept().unwrap_err(), AcceptError::NotListening);
    assert_eq!(server.listen(1), Err(ListenError::AlreadyActive));
    assert_eq!(server.connect(address), Err(ConnectError::AlreadyActive));
}

#[test]
fn a_port_in_time_wait_is_free() {
    let net = net();
    let (server, address) = listening(&net);
    let client = net.tcp().unwrap();
    client.connect(address).unwrap();
    let (serving, _) = server.accept().unwrap();
    drop(serving); // the server closes first, so TIME_WAIT is on its port
    assert_eq!(client.recv(&mut [0; 4]), Ok(0));
    drop((client, server));
    settle(&net);
    let again = net.tcp().unwrap();
    again.bind(address).unwrap();
    again.listen(1).unwrap();
}

#[test]
fn limits_are_named() {
    let net = net_with(Limits {
        tcp_sockets: 2,
        udp_sockets: 0,
        ..Limits::default()
    });
    let (server, address) = listening(&net);
    let client = net.tcp().unwrap();
    client.connect(address).unwrap();
    let limit = Limit {
        of: Resource::TcpSockets,
        most: 2,
    };
    assert_eq!(server.accept().unwrap_err(), AcceptError::Limit(limit));
    assert_eq!(net.tcp().unwrap_err(), OpenError::Limit(limit));
    assert!(net.udp().is_err());
    drop(client);
    server.accept().unwrap();
}

#[test]
fn the_ipv6_wildcard_accepts_both_families() {
    let net = net();
    let server = net.tcp().unwrap();
    if server.bind("[::]:0".parse().unwrap()).is_err() {
        eprintln!("skipped: this machine has no IPv6");
        return;
    }
    server.listen(4).unwrap();
    let port = server.local_addr().unwrap().port();
    for (to, ipv6) in [("127.0.0.1", false), ("::1", true)] {
        let client = net.tcp().unwrap();
        client
            .connect(SocketAddr::new(to.parse().unwrap(), port))
            .unwrap();
        let (serving, peer) = server.accept().unwrap();
        assert_eq!(peer.is_ipv6(), ipv6);
        assert_eq!(serving.local_addr().unwrap().ip().to_string(), to);
    }
}

#[test]
fn options_are_stored_until_the_descriptor_exists() {
    let net = net();
    let (_server, address) = listening(&net);
    let client = net.tcp().unwrap();
    client.set_nodelay(true).unwrap();
    client
        .set_keep_alive(Some(Duration::from_millis(1500)))
        .unwrap();
    client.connect(address).unwrap();
    client.set_keep_alive(None).unwrap();
    let id = client.id();
    assert_eq!(
        net.with(|kernel| kernel.tcp_set(id, TcpOption::NoDelay(false))),
        Ok(())
    );
}

#[test]
fn datagrams_keep_their_boundaries_and_stay_queued() {
    let net = net();
    let here = net.udp().unwrap();
    assert_eq!(here.recv_from(&mut []), Err(UdpRecvError::NotBound));
    here.bind(local(0)).unwrap();
    let to = here.local_addr().unwrap();
    let there = net.udp().unwrap();
    assert_eq!(there.send(b"x"), Err(UdpSendError::NoPeer));
    there.send_parts(&[b"on", b"e"], Some(to)).unwrap();
    let many = vec![&b"2"[..]; 20];
    there.send_parts(&many, Some(to)).unwrap();
    here.set_timeout(Some(Duration::from_secs(5)));
    let mut buffer = [0; 2];
    let from = there.local_addr().unwrap().port();
    assert_eq!(
        here.peek_from(&mut buffer).map(|(size, _)| size),
        Ok(3),
        "what does not fit counts"
    );
    assert_eq!(here.recv_from(&mut buffer), Ok((3, local(from))));
    assert_eq!(&buffer, b"on");
    let shown = here.recv_with(|bytes, _| bytes.to_vec());
    assert_eq!(shown, Ok(b"2".repeat(20)));
    here.set_nonblocking(true);
    assert_eq!(here.recv_from(&mut buffer), Err(UdpRecvError::WouldBlock));
    let large = vec![0; 70_000];
    assert!(matches!(
        there.send_to(&large, to),
        Err(UdpSendError::Limit(Limit {
            of: Resource::DatagramBytes,
            ..
        }))
    ));
}

#[test]
fn a_connected_udp_socket_receives_from_its_peer_only() {
    let net = net();
    let [one, two, three] = [0; 3].map(|_| {
        let socket = net.udp().unwrap();
        socket.bind(local(0)).unwrap();
        socket.set_timeout(Some(Duration::from_secs(5)));
        socket
    });
    one.connect(two.local_addr().unwrap()).unwrap();
    let to = one.local_addr().unwrap();
    three.send_to(b"three", to).unwrap();
    two.send_to(b"two", to).unwrap();
    assert_eq!(one.recv_with(|bytes, _| bytes.to_vec()), Ok(b"two".into()));
    one.disconnect().unwrap();
    assert_eq!(one.peer_addr(), None);
}

#[test]
fn properties_and_addresses_are_reported() {
    let net = net();
    net.with(|kernel| {
        let can = kernel.capabilities();
        assert_eq!(can.name, "kernel");
        assert!(
            can.version
                .starts_with(|first: char| first.is_ascii_digit())
        );
        assert!(!can.zero_copy_receive && !can.zero_copy_send);
        let loopback = local(0).ip();
        assert!(kernel.addresses().iter().any(|it| it.address == loopback));
    });
}
