// SPDX-License-Identifier: MIT OR Apache-2.0
//! Building blocks for implementations of [`Stack`](crate::Stack): the parts that every backend
//! needs and that don't depend on its protocol code.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::{Index, IndexMut};
use core::time::Duration;

use crate::error::{Limit, Resource};
use crate::stack::{SocketId, TcpOption};

/// The first ephemeral port (RFC 6335, section 6).
pub const FIRST_EPHEMERAL_PORT: u16 = 49152;
/// The number of ephemeral ports.
pub const EPHEMERAL_PORTS: u32 = 65536 - FIRST_EPHEMERAL_PORT as u32;
/// The limit to report when all ephemeral ports are in use.
pub const NO_EPHEMERAL_PORT: Limit = Limit {
    of: Resource::Ports,
    most: EPHEMERAL_PORTS as usize,
};

/// Returns every ephemeral port once, in order, starting at the offset `start` modulo their number.
pub fn ephemeral_ports(start: u32) -> impl Iterator<Item = u16> {
    (0..EPHEMERAL_PORTS)
        .map(move |step| FIRST_EPHEMERAL_PORT + (start.wrapping_add(step) % EPHEMERAL_PORTS) as u16)
}

/// Returns the unspecified address of the family of `peer`, with port 0: where to bind a socket
/// that has no local address yet.
pub fn wildcard_for(peer: IpAddr) -> SocketAddr {
    let any = match peer {
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
    };
    SocketAddr::new(any, 0)
}

/// Returns whether TCP can connect to an address: it is unicast, and the port is not 0.
pub fn is_connectable(peer: SocketAddr) -> bool {
    let broadcast = peer.ip() == IpAddr::V4(Ipv4Addr::BROADCAST);
    !broadcast && !peer.ip().is_multicast() && !peer.ip().is_unspecified() && peer.port() != 0
}

/// The values of all [`TcpOption`]s of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpOptions {
    /// The value of [`TcpOption::NoDelay`].
    pub nodelay: bool,
    /// The value of [`TcpOption::KeepAlive`].
    pub keep_alive: Option<Duration>,
    /// The value of [`TcpOption::Linger`].
    pub linger: Option<Duration>,
}

impl TcpOptions {
    /// Stores an option.
    pub fn set(&mut self, option: TcpOption) {
        match option {
            TcpOption::NoDelay(nodelay) => self.nodelay = nodelay,
            TcpOption::KeepAlive(idle) => self.keep_alive = idle,
            TcpOption::Linger(linger) => self.linger = linger,
        }
    }

    /// Returns all options.
    pub fn all(&self) -> [TcpOption; 3] {
        [
            TcpOption::NoDelay(self.nodelay),
            TcpOption::KeepAlive(self.keep_alive),
            TcpOption::Linger(self.linger),
        ]
    }
}

#[derive(Debug, Default)]
struct Slot<T> {
    value: T,
    generation: u32,
    /// The current id is valid.
    open: bool,
    /// The slot is in the queue of events.
    queued: bool,
}

/// A table of sockets with their ids and their queue of events.
///
/// A slot is allocated and released by its index. Independently of that, its id can be valid
/// (*open*) or not: a connection in an accept queue and a closing one have a slot but no owner.
/// No operation but [`SocketTable::allocate`] and [`SocketTable::queue_event`] allocates memory, and
/// these only if the table or the queue grows.
#[derive(Debug, Default)]
pub struct SocketTable<T> {
    slots: Vec<Slot<T>>,
    free: Vec<u32>,
    events: VecDeque<u32>,
}

impl<T: Default> SocketTable<T> {
    /// Creates a table with `count` slots that the backend allocates by itself: none is free for
    /// [`SocketTable::allocate`], and the event queue never grows.
    pub fn with_slots(count: usize) -> Self {
        let mut slots = Vec::new();
        slots.resize_with(count, Slot::default);
        Self {
            slots,
            free: Vec::new(),
            events: VecDeque::with_capacity(count),
        }
    }

    /// Returns the index of a released or new slot, which is not open. A released slot keeps its
    /// value; a new one has the default value.
    pub fn allocate(&mut self) -> u32 {
        if let Some(index) = self.free.pop() {
            return index;
        }
        self.slots.push(Slot::default());
        // Reserved here so that `release` does not allocate.
        self.free.reserve(self.slots.len());
        self.slots.len() as u32 - 1
    }

    /// Closes a slot and makes it available to [`SocketTable::allocate`].
    pub fn release(&mut self, index: u32) {
        self.close(index);
        self.free.push(index);
    }

    /// Makes the id of a slot valid and returns it.
    pub fn open(&mut self, index: u32) -> SocketId {
        self.slots[index as usize].open = true;
        self.id(index)
    }

    /// Makes the id of a slot invalid for ever. The slot stays allocated.
    pub fn close(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.open = false;
    }

    /// Returns whether the id of a slot is valid.
    pub fn is_open(&self, index: u32) -> bool {
        self.slots[index as usize].open
    }

    /// Returns the id of a slot.
    pub fn id(&self, index: u32) -> SocketId {
        SocketId {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    /// Returns the index that an id refers to, or `None` if the id is not valid.
    pub fn index_of(&self, id: SocketId) -> Option<u32> {
        self.slot(id).map(|_| id.index)
    }

    fn slot(&self, id: SocketId) -> Option<&Slot<T>> {
        let slot = self.slots.get(id.index as usize)?;
        (slot.open && slot.generation == id.generation).then_some(slot)
    }

    /// Returns the value that an id refers to, or `None` if the id is not valid.
    pub fn get(&self, id: SocketId) -> Option<&T> {
        self.slot(id).map(|slot| &slot.value)
    }

    /// Returns the value that an id refers to, or `None` if the id is not valid.
    pub fn get_mut(&mut self, id: SocketId) -> Option<&mut T> {
        let slot = self.slots.get_mut(id.index as usize)?;
        (slot.open && slot.generation == id.generation).then_some(&mut slot.value)
    }

    /// Returns the number of slots, released ones included.
    pub fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns whether there are no slots.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Puts a slot into the queue of events unless it is already there.
    pub fn queue_event(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if !core::mem::replace(&mut slot.queued, true) {
            self.events.push_back(index);
        }
    }

    /// Removes the first open slot from the queue of events and returns its id. Slots that were
    /// closed since are skipped.
    pub fn next_event(&mut self) -> Option<SocketId> {
        while let Some(index) = self.events.pop_front() {
            let slot = &mut self.slots[index as usize];
            slot.queued = false;
            if slot.open {
                return Some(self.id(index));
            }
        }
        None
    }
}

impl<T> Index<u32> for SocketTable<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.slots[index as usize].value
    }
}

impl<T> IndexMut<u32> for SocketTable<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.slots[index as usize].value
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_reused_slot_has_a_new_id() {
        let mut table = SocketTable::<u8>::default();
        let index = table.allocate();
        let first = table.open(index);
        table[index] = 7;
        assert_eq!(table.get(first), Some(&7));
        table.release(index);
        assert_eq!(table.get(first), None);
        assert_eq!(table.allocate(), index);
        let second = table.open(index);
        assert_ne!(second, first);
        assert_eq!(table.get_mut(first), None);
        assert_eq!(table.get_mut(second), Some(&mut 7));
        assert_eq!(table.len(), 1);
    }

    #[test]
    fn a_slot_without_an_owner_has_no_valid_id() {
        let mut table = SocketTable::<u8>::default();
        let index = table.allocate();
        assert_eq!(table.index_of(table.id(index)), None);
        let id = table.open(index);
        assert_eq!(table.index_of(id), Some(index));
        table.close(index);
        assert_eq!(table.index_of(id), None);
        assert_eq!(table.index_of(table.id(index)), None);
        let outside = SocketId {
            index: 1,
            generation: 0,
        };
        assert_eq!(table.index_of(outside), None);
    }

    #[test]
    fn a_socket_is_queued_once_and_closed_sockets_are_skipped() {
        let mut table = SocketTable::<u8>::with_slots(3);
        let ids = [0, 1, 2].map(|index| table.open(index));
        for index in [1, 0, 2, 1] {
            table.queue_event(index);
        }
        table.close(2);
        assert_eq!(table.next_event(), Some(ids[1]));
        assert_eq!(table.next_event(), Some(ids[0]));
        assert_eq!(table.next_event(), None);
        table.queue_event(1);
        assert_eq!(table.next_event(), Some(ids[1]));
    }

    #[test]
    fn the_event_queue_is_bounded_by_the_number_of_slots() {
        let mut table = SocketTable::<u8>::default();
        for _ in 0..10_000 {
            let index = table.allocate();
            table.open(index);
            table.queue_event(index);
            table.release(index);
        }
        assert_eq!(table.events.len(), 1);
    }

    #[test]
    fn every_ephemeral_port_is_returned_once() {
        for start in [0, 5, u32::MAX] {
            let ports: BTreeSet<u16> = ephemeral_ports(start).collect();
            assert_eq!(ports.len(), EPHEMERAL_PORTS as usize);
            assert_eq!(ports.first(), Some(&FIRST_EPHEMERAL_PORT));
        }
        assert_eq!(ephemeral_ports(5).next(), Some(FIRST_EPHEMERAL_PORT + 5));
    }

    #[test]
    fn options_are_stored() {
        let mut options = TcpOptions::default();
        let set = [
            TcpOption::NoDelay(true),
            TcpOption::KeepAlive(Some(Duration::from_secs(1))),
            TcpOption::Linger(Some(Duration::ZERO)),
        ];
        for option in set {
            options.set(option);
        }
        assert_eq!(options.all(), set);
    }

    #[test]
    fn tcp_connects_to_unicast_addresses_only() {
        for good in ["10.0.0.1:1", "[2001:db8::1]:65535"] {
            assert!(is_connectable(good.parse().unwrap()), "{good}");
        }
        for bad in [
            "10.0.0.1:0",
            "0.0.0.0:1",
            "255.255.255.255:1",
            "224.0.0.1:1",
            "[::]:1",
            "[ff02::1]:1",
        ] {
            assert!(!is_connectable(bad.parse().unwrap()), "{bad}");
        }
    }
}
