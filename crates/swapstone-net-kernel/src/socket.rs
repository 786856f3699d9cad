// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state of a socket, in addition to what the kernel keeps.

use std::net::SocketAddr;
use std::os::fd::OwnedFd;

use swapstone_net::backend::TcpOptions;
use swapstone_net::error::ConnectError;
use swapstone_net::{Readiness, SocketId};

/// The state of a TCP socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Phase {
    /// Neither listening nor connected; it may be bound.
    #[default]
    New,
    Listening,
    Connecting(SocketAddr),
    Connected,
    /// `connect` has failed; the socket can only be closed.
    Failed(ConnectError),
}

/// The error that ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionError {
    Reset,
    TimedOut,
}

/// A socket. Its descriptor is created once the address family is known.
#[derive(Debug, Default)]
pub struct Socket {
    pub udp: bool,
    pub descriptor: Option<OwnedFd>,
    /// The descriptor is an IPv6 socket.
    pub ipv6: bool,
    pub phase: Phase,
    /// Options, set before or after the descriptor was created.
    pub options: TcpOptions,
    /// The last read emptied the receive queue; `epoll` reports new data.
    pub drained: bool,
    /// A FIN or an error was reported, so a short read does not mean an empty receive queue.
    pub ending: bool,
    /// The error that ended the connection. The kernel reports it once; later calls return it again.
    pub error: Option<ConnectionError>,
    /// Bytes that were read from the kernel and not consumed, from `consumed` on.
    pub pending: Vec<u8>,
    pub consumed: usize,
    /// The directions that were shut down by the owner.
    pub read_closed: bool,
    pub write_closed: bool,
    /// The sender of the datagram in `pending`.
    pub pending_sender: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    /// Readiness that `next_event` has not returned yet.
    pub news: Readiness,
}

impl Socket {
    pub fn new(udp: bool) -> Self {
        Self {
            udp,
            ..Self::default()
        }
    }

    /// Bytes that were read from the kernel and not consumed.
    pub fn pending(&self) -> &[u8] {
        &self.pending[self.consumed..]
    }
}

/// The sockets of a stack.
#[derive(Debug, Default)]
pub struct Sockets {
    table: swapstone_net::backend::SocketTable<Socket>,
    pub tcp: usize,
    pub udp: usize,
}

impl Sockets {
    pub fn add(&mut self, socket: Socket) -> SocketId {
        *self.count(socket.udp) += 1;
        let index = self.table.allocate();
        self.table[index] = socket;
        self.table.open(index)
    }

    pub fn get(&self, id: SocketId) -> Option<&Socket> {
        self.table.get(id)
    }

    pub fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.table.get_mut(id)
    }

    pub fn tcp(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.table.get_mut(id).filter(|socket| !socket.udp)
    }

    pub fn udp(&mut self, id: SocketId) -> Option<&mut Socket> {
        self.table.get_mut(id).filter(|socket| socket.udp)
    }

    pub fn remove(&mut self, id: SocketId) -> Option<Socket> {
        let index = self.table.index_of(id)?;
        self.table.release(index);
        let socket = std::mem::take(&mut self.table[index]);
        *self.count(socket.udp) -= 1;
        Some(socket)
    }

    fn count(&mut self, udp: bool) -> &mut usize {
        if udp { &mut self.udp } else { &mut self.tcp }
    }

    /// Adds readiness for `next_event` to return.
    pub fn notify(&mut self, id: SocketId, news: Readiness) {
        if let Some(socket) = self.table.get_mut(id) {
            socket.news |= news;
            if !socket.news.is_empty() {
                self.table.queue_event(id.index);
            }
        }
    }

    pub fn next_event(&mut self) -> Option<(SocketId, Readiness)> {
        while let Some(id) = self.table.next_event() {
            let news = std::mem::take(&mut self.table[id.index].news);
            if !news.is_empty() {
                return Some((id, news));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sockets_of_each_kind_are_counted() {
        let mut sockets = Sockets::default();
        let first = sockets.add(Socket::new(false));
        assert!(sockets.remove(first).is_some());
        assert!(sockets.remove(first).is_none());
        let second = sockets.add(Socket::new(true));
        assert!(sockets.get(first).is_none());
        assert!(sockets.tcp(second).is_none());
        assert!(sockets.udp(second).is_some());
        assert_eq!((sockets.tcp, sockets.udp), (0, 1));
    }

    #[test]
    fn events_of_a_socket_are_merged() {
        let mut sockets = Sockets::default();
        let [first, second, third] = [0; 3].map(|_| sockets.add(Socket::new(false)));
        sockets.notify(second, Readiness::READABLE);
        sockets.notify(first, Readiness::WRITABLE);
        sockets.notify(third, Readiness::WRITABLE);
        sockets.notify(second, Readiness::WRITABLE);
        sockets.remove(third);
        let both = Readiness::READABLE | Readiness::WRITABLE;
        assert_eq!(sockets.next_event(), Some((second, both)));
        assert_eq!(sockets.next_event(), Some((first, Readiness::WRITABLE)));
        assert_eq!(sockets.next_event(), None);
    }

    #[test]
    fn a_new_socket_has_no_event_of_the_former_one() {
        let mut sockets = Sockets::default();
        let former = sockets.add(Socket::new(false));
        sockets.notify(former, Readiness::WRITABLE);
        sockets.remove(former);
        let new = sockets.add(Socket::new(false));
        assert_eq!(new.index, former.index);
        assert_eq!(sockets.next_event(), None);
    }
}
