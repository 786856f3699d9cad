//! The kernel's errors as those of the contract.

use rustix::io::Errno;
use swapstone_net::error::{
    BindError, ConnectError, Limit, ListenError, Resource, SocketError, UdpSendError,
};

use crate::table::Fault;

/// What an IPv4 datagram has at most, in bytes.
const LARGEST_DATAGRAM: usize = 65_507;

const fn limit(of: Resource, most: usize) -> Limit {
    Limit { of, most }
}

/// Ports that the kernel chooses from.
fn ports() -> usize {
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let ends: Vec<usize> = range
        .unwrap_or_default()
        .split_whitespace()
        .filter_map(|end| end.parse().ok())
        .collect();
    match ends[..] {
        [first, last] => last - first + 1,
        _ => 0,
    }
}

/// Connections that the kernel lets wait at one listening socket.
pub fn backlog() -> usize {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
    most.ok()
        .and_then(|most| most.trim().parse().ok())
        .unwrap_or(usize::MAX) // then the kernel decides by itself
}

/// A port that the user has no right to counts as in use. `port` is what was asked for, `sockets` is how many there are.
pub fn bind(error: Errno, port: u16, sockets: Limit) -> BindError {
    match error {
        Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT => BindError::NotLocal,
        Errno::INVAL => BindError::NotNew,
        Errno::AGAIN => BindError::Limit(limit(Resource::Ports, ports())),
        // Of any port that is free, so none is.
        Errno::ADDRINUSE if port == 0 => BindError::Limit(limit(Resource::Ports, ports())),
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => BindError::Limit(sockets),
        _ => BindError::InUse,
    }
}

pub fn listen(error: Errno) -> ListenError {
    match error {
        Errno::ADDRINUSE => ListenError::InUse,
        _ => ListenError::NotNew,
    }
}

pub fn connect(error: Errno, sockets: usize) -> ConnectError {
    match error {
        Errno::INPROGRESS | Errno::ALREADY => ConnectError::WouldBlock,
        Errno::CONNREFUSED | Errno::CONNRESET => ConnectError::Refused,
        Errno::TIMEDOUT => ConnectError::TimedOut,
        Errno::ADDRNOTAVAIL | Errno::AGAIN | Errno::ADDRINUSE => {
            ConnectError::Limit(limit(Resource::Ports, ports()))
        }
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => {
            ConnectError::Limit(limit(Resource::TcpSockets, sockets))
        }
        _ => ConnectError::Unreachable,
    }
}

/// How a connection that a call fails on has ended.
pub fn connection(error: Errno) -> Fault {
    match error {
        Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH => Fault::TimedOut,
        _ => Fault::Reset,
    }
}

pub fn option(error: Errno) -> SocketError {
    match error {
        Errno::NOTCONN => SocketError::NotConnected,
        _ => SocketError::Unsupported,
    }
}

pub fn send_datagram(error: Errno) -> UdpSendError {
    match error {
        Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => UdpSendError::WouldBlock,
        Errno::MSGSIZE => UdpSendError::Limit(limit(Resource::DatagramBytes, LARGEST_DATAGRAM)),
        Errno::DESTADDRREQ => UdpSendError::NoPeer,
        _ => UdpSendError::Unreachable,
    }
}
