//! The sockets, by their ids.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::Duration;

use swapstone_net::error::ConnectError;
use swapstone_net::{Readiness, SocketId};

/// What came of a socket's calls so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It may be bound, and is nothing else.
    New,
    Listening,
    Connecting(SocketAddr),
    Connected,
    /// It did not come about; the socket can only be closed.
    Failed(ConnectError),
}

/// Options that were set before there was a socket of the kernel.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wishes {
    pub nodelay: bool,
    pub keep_alive: Option<Duration>,
    pub linger: Option<Duration>,
}

/// How a connection ended out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    Reset,
    TimedOut,
}

/// A socket. The kernel's is made once its family is known.
#[derive(Debug)]
pub struct Socket {
    pub udp: bool,
    pub descriptor: Option<OwnedFd>,
    /// Whether the kernel's socket is of IPv6.
    pub ipv6: bool,
    pub phase: Phase,
    pub wishes: Wishes,
    /// Nothing is there to read since the last short read: the kernel tells when there is.
    pub drained: bool,
    /// The peer has ended its half, or there was an error: a short read proves nothing any more.
    pub ending: bool,
    /// The peer has reset the connection, or it was given up: what a call has told once the next ones tell too.
    pub fault: Option<Fault>,
    /// Read from the kernel and not taken yet, from `taken` on.
    pub left: Vec<u8>,
    pub taken: usize,
    /// Our halves that were shut down.
    pub reads: bool,
    pub writes: bool,
    /// Who sent the datagram that was looked at and not taken, and lies in `left`.
    pub peeked: Option<SocketAddr>,
    pub peer: Option<SocketAddr>,
    /// What is to be told by `next_event`; it is in the queue if that is not empty.
    pub news: Readiness,
}

impl Socket {
    pub fn new(udp: bool) -> Self {
        Self {
            udp,
            descriptor: None,
            ipv6: false,
            phase: Phase::New,
            wishes: Wishes::default(),
            drained: false,
            ending: false,
            fault: None,
            left: Vec::new(),
            taken: 0,
            reads: true,
            writes: true,
            peeked: None,
            peer: None,
            news: Readiness::NONE,
        }
    }

    /// Bytes read and not taken.
    pub fn leftover(&self) -> &[u8] {
        &self.left[self.taken..]
    }
}

#[derive(Debug)]
struct Place {
    generation: u32,
    socket: Option<Socket>,
}

/// A table of sockets with the queue of events.
#[derive(Debug, Default)]
pub struct Table {
    places: Vec<Place>,
    free: Vec<u32>,
    queue: VecDeque<SocketId>,
    pub tcp: usize,
    pub udp: usize,
}

impl Table {
    pub fn add(&mut self, socket: Socket) -> SocketId {
        let count = if socket.udp {
            &mut self.udp
        } else {
            &mut self.tcp
        };
        *count += 1;
        let index = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place {
                generation: 0,
                socket: None,
            });
            u32::try_from(self.places.len() - 1).expect("fewer sockets than file descriptors")
        });
        let place = &mut self.places[index as usize];
        place.socket = Some(socket);
        SocketId {
            index,
            generation: place.generation,
        }
    }

    pub fn get(&self, id: SocketId) -> Option<&Socket> {
        let place = self.places.get(id.index as usize)?;
        place
            .socket
            .as_ref()
            .filter(|_| place.generation == id.generation)
    }

    pub fn get_mut(&mut self, id: SocketId) -> Option<&mut Socket> {
        let place = self.places.get_mut(id.index as usize)?;
        place
            .socket
            .as_mut()
            .filter(|_| place.generation == id.generation)
    }

    pub fn remove(&mut self, id: SocketId) -> Option<Socket> {
        self.get(id)?;
        let place = &mut self.places[id.index as usize];
        let socket = place.socket.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(id.index);
        let count = if socket.udp {
            &mut self.udp
        } else {
            &mut self.tcp
        };
        *count -= 1;
        Some(socket)
    }

    /// Note that something changed for a socket.
    pub fn tell(&mut self, id: SocketId, news: Readiness) {
        if let Some(socket) = self.get_mut(id) {
            let queued = !socket.news.is_empty();
            socket.news |= news;
            if !queued && !socket.news.is_empty() {
                self.queue.push_back(id);
            }
        }
        // Who never asks for events leaves the names of closed sockets behind. Now and then, so that it costs nothing on average:
        if self.queue.len() > 2 * self.places.len() + 16 {
            let mut queue = std::mem::take(&mut self.queue);
            queue.retain(|id| self.get(*id).is_some());
            self.queue = queue;
        }
    }

    /// The next socket that something changed for; those closed meanwhile are passed over.
    pub fn next(&mut self) -> Option<(SocketId, Readiness)> {
        while let Some(id) = self.queue.pop_front() {
            if let Some(socket) = self.get_mut(id) {
                return Some((id, std::mem::take(&mut socket.news)));
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_and_its_old_name_is_not() {
        let mut table = Table::default();
        let first = table.add(Socket::new(false));
        assert!(table.remove(first).is_some());
        assert!(table.remove(first).is_none());
        let second = table.add(Socket::new(true));
        assert_eq!(second.index, first.index);
        assert!(table.get(first).is_none());
        assert!(table.get(second).unwrap().udp);
        assert_eq!((table.tcp, table.udp), (0, 1));
    }

    #[test]
    fn news_are_told_once_and_joined() {
        let mut table = Table::default();
        let [first, second, third] = [0; 3].map(|_| table.add(Socket::new(false)));
        table.tell(second, Readiness::READABLE);
        table.tell(first, Readiness::WRITABLE);
        table.tell(third, Readiness::WRITABLE);
        table.tell(second, Readiness::WRITABLE);
        table.remove(third);
        let both = Readiness::READABLE | Readiness::WRITABLE;
        assert_eq!(table.next(), Some((second, both)));
        assert_eq!(table.next(), Some((first, Readiness::WRITABLE)));
        assert_eq!(table.next(), None);
    }

    #[test]
    fn events_that_nobody_asks_for_do_not_pile_up() {
        let mut table = Table::default();
        let living = table.add(Socket::new(false));
        table.tell(living, Readiness::READABLE);
        for _ in 0..10_000 {
            let id = table.add(Socket::new(false));
            table.tell(id, Readiness::WRITABLE);
            table.remove(id);
        }
        assert!(table.queue.len() < 32, "{}", table.queue.len());
        assert_eq!(table.next(), Some((living, Readiness::READABLE)));
    }
}
