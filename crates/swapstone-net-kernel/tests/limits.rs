// SPDX-License-Identifier: MIT OR Apache-2.0
//! Exhausted limits. Each test changes settings of its own network namespace: it needs root and
//! `ip`.

use std::fs;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use rustix::thread::{UnshareFlags, unshare_unsafe};
use swapstone_net::error::{
    AcceptError, BindError, ConnectError, Limit, ListenError, Resource, SendError, UdpRecvError,
    UdpSendError,
};
use swapstone_net::{Limits, Net, Readiness, TcpSocket, UdpSocket};
use swapstone_net_kernel::{Buffers, Kernel};

/// A stack in a network namespace of this thread; `None`, with the reason on standard error,
/// without permission.
fn alone(limits: Limits, buffers: Buffers) -> Option<Net<Kernel>> {
    // SAFETY: only this thread's network namespace changes; no open file is affected.
    if let Err(error) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
        eprintln!("skipped: no network namespace of its own ({error}); this test has to be root");
        return None;
    }
    let up = Command::new("ip")
        .args(["link", "set", "lo", "up"])
        .status();
    if let Err(error) = &up {
        eprintln!("skipped: no program ip ({error})");
        return None;
    }
    assert!(up.unwrap().success());
    let (kernel, platform) = Kernel::new(limits, buffers).unwrap();
    Some(Net::new(kernel, platform))
}

fn usual() -> Option<Net<Kernel>> {
    alone(Limits::default(), Buffers::Automatic)
}

fn setting(name: &str, value: &str) {
    fs::write(format!("/proc/sys/net/{name}"), value).unwrap();
}

fn local(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn tcp(net: &Net<Kernel>) -> TcpSocket<Kernel> {
    let socket = net.tcp().unwrap();
    socket.set_nonblocking(true);
    socket
}

fn udp(net: &Net<Kernel>) -> UdpSocket<Kernel> {
    let socket = net.udp().unwrap();
    socket.set_nonblocking(true);
    socket
}

fn listen(net: &Net<Kernel>, port: u16, backlog: usize) -> TcpSocket<Kernel> {
    let server = tcp(net);
    server.bind(local(port)).unwrap();
    server.listen(backlog).unwrap();
    server
}

const FOUR: Limit = Limit {
    of: Resource::Ports,
    most: 4,
};

#[test]
fn ports_to_a_peer_are_exhausted_and_reused() {
    let Some(net) = usual() else { return };
    setting("ipv4/ip_local_port_range", "40000 40003");
    let _servers = (listen(&net, 7000, 16), listen(&net, 7001, 16));
    let mut clients: Vec<_> = (0..4).map(|_| tcp(&net)).collect();
    for client in &clients {
        assert!(matches!(
            client.connect(local(7000)),
            Ok(()) | Err(ConnectError::WouldBlock)
        ));
    }
    let mut ports: Vec<_> = clients
        .iter()
        .map(|client| client.local_addr().unwrap().port())
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, [40000, 40001, 40002, 40003]);
    let late = tcp(&net);
    for _ in 0..2 {
        assert_eq!(late.connect(local(7000)), Err(ConnectError::Limit(FOUR)));
    }
    assert_eq!(late.local_addr(), None);
    // For another peer all ports are free.
    let other = tcp(&net);
    other.set_timeout(Some(Duration::from_secs(5)));
    assert_eq!(other.connect(local(7001)), Ok(()));
    let given = clients.remove(2);
    let port = given.local_addr().unwrap().port();
    assert_eq!(given.set_linger(Some(Duration::ZERO)), Ok(())); // no TIME_WAIT
    drop(given);
    late.set_timeout(Some(Duration::from_secs(5)));
    assert_eq!(late.connect(local(7000)), Ok(()));
    assert_eq!(late.local_addr().unwrap().port(), port);
}

#[test]
fn udp_ports_are_exhausted_for_every_operation() {
    let Some(net) = usual() else { return };
    setting("ipv4/ip_local_port_range", "40000 40003");
    let mut all: Vec<_> = (0..4).map(|_| udp(&net)).collect();
    for socket in &all {
        assert_eq!(socket.bind(local(0)), Ok(()));
    }
    let late = udp(&net);
    assert_eq!(late.bind(local(0)), Err(BindError::Limit(FOUR)));
    assert_eq!(late.connect(local(9)), Err(BindError::Limit(FOUR)));
    let sent = late.send_to(b"x", local(40000));
    assert_eq!(sent, Err(UdpSendError::Limit(FOUR)));
    let taken = late.bind(local(40001));
    assert_eq!(taken, Err(BindError::InUse), "the requested port is in use");
    all.pop();
    assert_eq!(late.send_to(b"x", local(9)), Ok(()));
}

#[test]
fn a_backlog_above_somaxconn_is_an_error() {
    let Some(net) = usual() else { return };
    setting("core/somaxconn", "4");
    let server = tcp(&net);
    assert_eq!(server.listen(5), Err(ListenError::NotBound));
    server.bind(local(7000)).unwrap();
    let limit = Limit {
        of: Resource::Backlog,
        most: 4,
    };
    assert_eq!(server.listen(5), Err(ListenError::Limit(limit)));
    assert_eq!(server.listen(4), Ok(()));
}

#[test]
fn a_full_backlog_delays_the_connection() {
    let Some(net) = usual() else { return };
    let server = listen(&net, 7000, 1);
    // Linux accepts one more connection than the backlog.
    let early: Vec<_> = (0..2).map(|_| tcp(&net)).collect();
    for client in &early {
        client.set_timeout(Some(Duration::from_secs(5)));
        assert_eq!(client.connect(local(7000)), Ok(()));
    }
    let late = tcp(&net);
    late.set_timeout(Some(Duration::from_millis(200)));
    let waited = late.connect(local(7000));
    assert_eq!(
        waited,
        Err(ConnectError::TimedOut),
        "no connection is refused"
    );
    assert!(server.readiness().contains(Readiness::READABLE));
    let (_first, peer) = server.accept().unwrap();
    assert_eq!(Some(peer), early[0].local_addr());
    // The SYN is retransmitted after a second.
    late.set_timeout(Some(Duration::from_secs(20)));
    assert_eq!(late.connect(local(7000)), Ok(()));
    assert_eq!(server.accept().unwrap().1, early[1].local_addr().unwrap());
    server.set_timeout(Some(Duration::from_secs(5)));
    assert_eq!(server.accept().unwrap().1, late.local_addr().unwrap());
    server.set_timeout(Some(Duration::from_millis(50)));
    assert_eq!(server.accept().unwrap_err(), AcceptError::TimedOut);
}

#[test]
fn a_full_queue_drops_datagrams_and_blocks_no_sender() {
    let limits = Limits {
        datagrams: 4,
        ..Limits::default()
    };
    let Some(net) = alone(limits, Buffers::Limits) else {
        return;
    };
    let (here, quiet, there) = (udp(&net), udp(&net), udp(&net));
    here.bind(local(5000)).unwrap();
    quiet.bind(local(5001)).unwrap();
    for count in 0..1000_u32 {
        let mut datagram = [0; 1200];
        datagram[..4].copy_from_slice(&count.to_be_bytes());
        assert_eq!(there.send_to(&datagram, local(5000)), Ok(()), "{count}");
    }
    let mut got = 0;
    loop {
        let first = here.recv_with(|bytes, _| u32::from_be_bytes(bytes[..4].try_into().unwrap()));
        match first {
            Ok(number) => assert_eq!(number, got, "the oldest stay, in their order"),
            Err(error) => break assert_eq!(error, UdpRecvError::WouldBlock),
        }
        got += 1;
    }
    assert!((1..100).contains(&got), "{got}");
    for (socket, port) in [(&quiet, 5001), (&here, 5000)] {
        assert_eq!(there.send_to(b"after", local(port)), Ok(()));
        assert_eq!(socket.recv_with(|bytes, _| bytes.len()), Ok(5));
    }
}

#[test]
fn a_full_send_buffer_blocks_or_times_out_without_loss() {
    let limits = Limits {
        send_buffer: 16 << 10,
        receive_buffer: 16 << 10,
        ..Limits::default()
    };
    let Some(net) = alone(limits, Buffers::Limits) else {
        return;
    };
    let server = listen(&net, 7000, 1);
    let client = tcp(&net);
    client.set_timeout(Some(Duration::from_secs(5)));
    client.connect(local(7000)).unwrap();
    let (serving, _) = server.accept().unwrap();
    client.set_nonblocking(true);
    let mut sent = 0;
    let mut fill = || loop {
        match client.send(&[7; 1000]) {
            Ok(count) => sent += count,
            Err(error) => break error,
        }
        assert!(sent < 1 << 20, "the limits bound nothing");
    };
    assert_eq!(fill(), SendError::WouldBlock);
    // Data that the receiver's kernel has accepted since frees some space.
    client.set_timeout(Some(Duration::from_millis(100)));
    assert_eq!(fill(), SendError::TimedOut);
    serving.set_timeout(Some(Duration::from_secs(5)));
    let mut got = 0;
    while got < sent {
        got += serving.recv_with(<[u8]>::len).unwrap();
    }
    assert_eq!(got, sent);
    client.set_timeout(Some(Duration::from_secs(5)));
    assert_eq!(client.send(b"more"), Ok(4));
}

#[test]
fn without_a_route_the_host_is_unreachable() {
    let Some(net) = usual() else { return };
    let far: SocketAddr = "192.0.2.1:80".parse().unwrap();
    assert_eq!(tcp(&net).connect(far), Err(ConnectError::Unreachable));
    let sent = udp(&net).send_to(b"x", far);
    assert_eq!(sent, Err(UdpSendError::Unreachable));
}

#[test]
fn keep_alive_starts_and_stops_the_timer() {
    let Some(net) = usual() else { return };
    let server = listen(&net, 7000, 1);
    let client = tcp(&net);
    client.set_timeout(Some(Duration::from_secs(5)));
    let keeps = || {
        let table = fs::read_to_string("/proc/thread-self/net/tcp").unwrap();
        // The fourth column of a connection is its state (01: established), the sixth its timer
        // (02: keep-alive).
        table.lines().skip(1).any(|line| {
            let columns: Vec<_> = line.split_whitespace().collect();
            columns[3] == "01" && columns[5].starts_with("02:")
        })
    };
    client.set_keep_alive(Some(Duration::from_secs(9))).unwrap();
    client.connect(local(7000)).unwrap();
    let _serving = server.accept().unwrap();
    assert!(keeps(), "a wish from before");
    client.set_keep_alive(None).unwrap();
    assert!(!keeps());
    client
        .set_keep_alive(Some(Duration::from_millis(1)))
        .unwrap();
    assert!(keeps());
}
