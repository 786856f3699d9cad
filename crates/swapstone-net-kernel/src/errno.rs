// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversion of `errno` values to the errors of the contract.

use rustix::io::Errno;
use swapstone_net::error::{
    BindError, ConnectError, Limit, ListenError, Resource, SocketError, UdpSendError,
};

use crate::socket::ConnectionError;

/// The maximum payload of a UDP datagram over IPv4 in bytes.
const LARGEST_DATAGRAM: usize = 65_507;

const fn limit(of: Resource, most: usize) -> Limit {
    Limit { of, most }
}

/// The number of ephemeral ports.
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

/// The maximum length of an accept queue.
pub fn backlog() -> usize {
    let most = std::fs::read_to_string("/proc/sys/net/core/somaxconn");
    most.ok()
        .and_then(|most| most.trim().parse().ok())
        .unwrap_or(usize::MAX) // the kernel applies its limit
}

/// `port` is the requested port; `sockets` is reported if the process has no descriptor left.
/// `EACCES` (a privileged port) is reported as in use.
pub fn bind(error: Errno, port: u16, sockets: Limit) -> BindError {
    match error {
        Errno::ADDRNOTAVAIL | Errno::AFNOSUPPORT => BindError::NotLocal,
        Errno::INVAL => BindError::AlreadyBound,
        Errno::AGAIN => BindError::Limit(limit(Resource::Ports, ports())),
        // Any free port was requested, so none is free.
        Errno::ADDRINUSE if port == 0 => BindError::Limit(limit(Resource::Ports, ports())),
        Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM => BindError::Limit(sockets),
        _ => BindError::InUse,
    }
}

pub fn listen(error: Errno) -> ListenError {
    match error {
        Errno::ADDRINUSE => ListenError::InUse,
        _ => ListenError::AlreadyActive,
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

/// The error that ended an established connection.
pub fn connection(error: Errno) -> ConnectionError {
    match error {
        Errno::TIMEDOUT | Errno::HOSTUNREACH | Errno::NETUNREACH => ConnectionError::TimedOut,
        _ => ConnectionError::Reset,
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
