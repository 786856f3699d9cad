// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations with invalid ids, timeouts and events, which the other tests don't cover.

use std::net::SocketAddr;
use std::time::Duration;

use swapstone_net::error::{
    AcceptError, BindError, ConnectError, ListenError, RecvError, SendError, SocketError,
    UdpRecvError, UdpSendError,
};
use swapstone_net::{
    Instant, Limits, Net, Readiness, Shared, Shutdown, SocketId, Stack, Statistics, TcpOption,
    TcpSocket, TcpStack, UdpSocket, UdpStack,
};
use swapstone_net_kernel::{Buffers, Kernel};

fn net() -> Net<Kernel> {
    let (kernel, platform) = Kernel::new(Limits::default(), Buffers::Automatic).unwrap();
    Net::new(kernel, platform)
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

/// Listener, client, and the accepted socket.
fn trio(net: &Net<Kernel>) -> [TcpSocket<Kernel>; 3] {
    let listener = net.tcp().unwrap();
    listener.bind(local(0)).unwrap();
    listener.listen(4).unwrap();
    let client = net.tcp().unwrap();
    client.connect(listener.local_addr().unwrap()).unwrap();
    let (serving, _) = listener.accept().unwrap();
    for socket in [&client, &serving, &listener] {
        socket.set_timeout(Some(Duration::from_secs(5)));
    }
    [listener, client, serving]
}

fn bound(net: &Net<Kernel>) -> (UdpSocket<Kernel>, SocketAddr) {
    let socket = net.udp().unwrap();
    socket.bind(local(0)).unwrap();
    socket.set_timeout(Some(Duration::from_secs(5)));
    let at = socket.local_addr().unwrap();
    (socket, at)
}

/// All TCP operations with an id that is not a TCP socket.
fn no_tcp(kernel: &mut Kernel, id: SocketId) {
    let shared: Shared = [1, 2, 3].into();
    let at = local(9);
    assert_eq!(kernel.tcp_bind(id, at), Err(BindError::AlreadyBound));
    assert_eq!(kernel.tcp_listen(id, 1), Err(ListenError::NotBound));
    assert_eq!(kernel.tcp_accept(id), Err(AcceptError::NotListening));
    assert_eq!(kernel.tcp_connect(id, at), Err(ConnectError::AlreadyActive));
    assert_eq!(kernel.tcp_send(id, &[b"x"]), Err(SendError::NotConnected));
    let sent = kernel.tcp_send_shared(id, &shared, 0..3);
    assert_eq!(sent, Err(SendError::NotConnected));
    let received = kernel.tcp_receive(id, &mut |_| panic!("shown"));
    assert_eq!(received, Err(RecvError::NotConnected));
    for half in [Shutdown::Read, Shutdown::Write, Shutdown::Both] {
        let ended = kernel.tcp_shutdown(id, half);
        assert_eq!(ended, Err(SocketError::NotConnected));
    }
    for option in [
        TcpOption::NoDelay(true),
        TcpOption::KeepAlive(None),
        TcpOption::Linger(None),
    ] {
        assert_eq!(kernel.tcp_set(id, option), Err(SocketError::NotConnected));
    }
    assert_eq!((kernel.tcp_local(id), kernel.tcp_peer(id)), (None, None));
    kernel.tcp_close(id);
}

/// All UDP operations with an id that is not a UDP socket.
fn no_udp(kernel: &mut Kernel, id: SocketId) {
    let at = local(9);
    assert_eq!(kernel.udp_bind(id, at), Err(BindError::AlreadyBound));
    assert_eq!(
        kernel.udp_connect(id, Some(at)),
        Err(BindError::AlreadyBound)
    );
    assert_eq!(kernel.udp_connect(id, None), Err(BindError::AlreadyBound));
    let sent = kernel.udp_send(id, &[b"x"], None);
    assert_eq!(sent, Err(UdpSendError::NoPeer));
    let received = kernel.udp_receive(id, &mut |_, _| panic!("shown"));
    assert_eq!(received, Err(UdpRecvError::NotBound));
    assert_eq!((kernel.udp_local(id), kernel.udp_peer(id)), (None, None));
    kernel.udp_close(id);
}

#[test]
fn closed_ids_stay_invalid_after_reuse_of_their_slot() {
    let net = net();
    let (tcp, udp) = net.with(|kernel| (kernel.tcp_open().unwrap(), kernel.udp_open().unwrap()));
    net.with(|kernel| {
        kernel.tcp_close(tcp);
        kernel.udp_close(udp);
    });
    for _ in 0..2 {
        net.with(|kernel| {
            for id in [tcp, udp] {
                no_tcp(kernel, id);
                no_udp(kernel, id);
                assert_eq!(kernel.readiness(id), Readiness::NONE);
            }
            let (new, other) = (kernel.tcp_open().unwrap(), kernel.udp_open().unwrap());
            assert!(![tcp, udp].contains(&new) && ![tcp, udp].contains(&other));
        });
    }
    let none = SocketId {
        index: u32::MAX,
        generation: 0,
    };
    net.with(|kernel| {
        no_tcp(kernel, none);
        no_udp(kernel, none);
    });
}

#[test]
fn operations_of_the_other_kind_fail_and_change_nothing() {
    let net = net();
    let [_listener, client, serving] = trio(&net);
    let (udp, at) = bound(&net);
    net.with(|kernel| {
        no_tcp(kernel, udp.id());
        no_udp(kernel, client.id());
    });
    client.send_all(b"still").unwrap();
    assert_eq!(serving.recv_with(<[u8]>::len), Ok(5));
    net.udp().unwrap().send_to(b"here", at).unwrap();
    assert_eq!(udp.recv_with(|bytes, _| bytes.len()), Ok(4));
}

#[test]
fn waits_end_at_their_timeout() {
    let net = net();
    let [listener, client, _serving] = trio(&net);
    let (udp, _) = bound(&net);
    let short = Duration::from_millis(30);
    listener.set_timeout(Some(short));
    client.set_timeout(Some(short));
    udp.set_timeout(Some(short));
    let begun = net.now();
    assert_eq!(listener.accept().unwrap_err(), AcceptError::TimedOut);
    assert_eq!(client.recv(&mut [0; 4]), Err(RecvError::TimedOut));
    assert_eq!(client.peek(&mut [0; 4]), Err(RecvError::TimedOut));
    assert_eq!(udp.recv_from(&mut [0; 4]), Err(UdpRecvError::TimedOut));
    assert_eq!(udp.peek_from(&mut [0; 4]), Err(UdpRecvError::TimedOut));
    assert!(net.now() - begun >= 5 * short);
    listener.set_nonblocking(true);
    assert_eq!(listener.accept().unwrap_err(), AcceptError::WouldBlock);
}

#[test]
fn a_range_of_shared_memory_is_sent() {
    let net = net();
    let [_listener, client, serving] = trio(&net);
    let shared: Shared = b"abcdef".as_slice().into();
    assert_eq!(client.send_shared(&shared, 1..4), Ok(3));
    assert_eq!(client.send_shared(&shared, 2..2), Ok(0));
    let mut buffer = [0; 8];
    assert_eq!(serving.recv(&mut buffer), Ok(3));
    assert_eq!(&buffer[..3], b"bcd");
    assert_eq!(std::rc::Rc::strong_count(&shared), 1);
}

#[test]
fn a_shutdown_of_both_directions_closes_both() {
    let net = net();
    let [_listener, client, serving] = trio(&net);
    client.shutdown(Shutdown::Both).unwrap();
    assert_eq!(client.recv(&mut [0; 4]), Ok(0));
    assert_eq!(client.send(b"x"), Err(SendError::Closed));
    assert_eq!(serving.recv(&mut [0; 4]), Ok(0));
    assert_eq!(client.shutdown(Shutdown::Both), Ok(()));
}

#[test]
fn a_socket_from_an_id_is_the_same_socket() {
    let net = net();
    let [_listener, client, serving] = trio(&net);
    let again = TcpSocket::from_id(&net, serving.id());
    std::mem::forget(serving); // one of the two closes it
    again.send_all(b"hello").unwrap();
    assert_eq!(client.recv_with(<[u8]>::len), Ok(5));
    drop(again);
    assert_eq!(client.recv(&mut [0; 4]), Ok(0));
}

/// Returns the next event of a socket within a time.
fn event(net: &Net<Kernel>, id: SocketId) -> Readiness {
    let until = net.now() + Duration::from_secs(5);
    loop {
        match net.next_event(Some(until)) {
            Some((of, ready)) if of == id => return ready,
            Some(_) => {}
            None => panic!("no event was reported"),
        }
    }
}

#[test]
fn each_change_is_an_event() {
    let net = net();
    let [listener, client, serving] = trio(&net);
    while net.next_event(Some(net.now())).is_some() {}
    let other = net.tcp().unwrap();
    other.set_nonblocking(true);
    let _ = other.connect(listener.local_addr().unwrap());
    assert!(event(&net, other.id()).contains(Readiness::WRITABLE));
    assert!(listener.readiness().contains(Readiness::READABLE));
    client.send_all(b"data").unwrap();
    assert!(event(&net, serving.id()).contains(Readiness::READABLE));
    assert_eq!(serving.recv_with(<[u8]>::len), Ok(4));
    assert!(!serving.readiness().contains(Readiness::READABLE));
    client.shutdown(Shutdown::Write).unwrap();
    let ready = event(&net, serving.id());
    assert!(ready.contains(Readiness::READABLE) && !ready.contains(Readiness::CLOSED));
    serving.shutdown(Shutdown::Write).unwrap();
    while !event(&net, client.id()).contains(Readiness::CLOSED) {}
    let (udp, at) = bound(&net);
    assert!(udp.readiness().contains(Readiness::WRITABLE));
    assert!(!udp.readiness().contains(Readiness::READABLE));
    net.udp().unwrap().send_to(b"x", at).unwrap();
    while !event(&net, udp.id()).contains(Readiness::READABLE) {}
    assert!(udp.readiness().contains(Readiness::READABLE));
}

#[test]
fn a_refused_connection_is_an_event() {
    let net = net();
    let [listener, ..] = trio(&net);
    let at = listener.local_addr().unwrap();
    drop(listener);
    let client = net.tcp().unwrap();
    client.set_nonblocking(true);
    // Over loopback the response may arrive at once.
    if client.connect(at) == Err(ConnectError::WouldBlock) {
        assert!(event(&net, client.id()).contains(Readiness::WRITABLE));
    }
    assert_eq!(client.connect(at), Err(ConnectError::Refused));
}

#[test]
fn a_connected_socket_sends_to_its_peer_and_returns_the_sender() {
    let net = net();
    let ((here, to), (there, from)) = (bound(&net), bound(&net));
    assert_eq!(there.bind(local(0)), Err(BindError::AlreadyBound));
    let other = net.udp().unwrap();
    assert_eq!(other.bind(to), Err(BindError::InUse));
    let foreign = SocketAddr::from(([192, 0, 2, 77], 0));
    assert_eq!(other.bind(foreign), Err(BindError::NotLocal));
    assert_eq!((other.local_addr(), other.peer_addr()), (None, None));
    there.connect(to).unwrap();
    assert_eq!(there.peer_addr(), Some(to));
    assert_eq!(there.local_addr(), Some(from));
    there.send(b"").unwrap();
    there.send(b"hello").unwrap();
    assert_eq!(here.recv_from(&mut [0; 8]), Ok((0, from)));
    for _ in 0..2 {
        assert_eq!(here.peek_from(&mut [0; 8]), Ok((5, from)));
    }
    assert_eq!(here.recv_with(|bytes, at| (bytes.len(), at)), Ok((5, from)));
    there.disconnect().unwrap();
    assert_eq!(there.send(b"x"), Err(UdpSendError::NoPeer));
}

#[test]
fn limits_and_counters_are_reported() {
    let limits = Limits {
        tcp_sockets: 7,
        udp_sockets: 5,
        ..Limits::default()
    };
    let (mut kernel, _) = Kernel::new(limits, Buffers::Automatic).unwrap();
    assert_eq!(kernel.limits(), limits);
    assert_eq!(kernel.statistics(), Statistics::default());
    let (tcp, udp) = (kernel.tcp_open().unwrap(), kernel.udp_open().unwrap());
    let counted = Statistics {
        tcp_sockets: 1,
        udp_sockets: 1,
        ..Statistics::default()
    };
    assert_eq!(kernel.statistics(), counted);
    assert_eq!(kernel.deadline(Instant::ZERO), None);
    assert!(!kernel.poll(Instant::ZERO));
    assert_eq!(kernel.next_event(), None);
    kernel.tcp_close(tcp);
    kernel.udp_close(udp);
    assert_eq!(kernel.statistics(), Statistics::default());
    assert!(!kernel.capabilities().segmentation_offload);
}
