// SPDX-License-Identifier: MIT OR Apache-2.0
//! Values by socket, and a listening socket.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::error::Error;
use core::net::SocketAddr;

use swapstone_net::error::{AcceptError, Limit, ListenError, Resource};
use swapstone_net::{Net, SocketId, Stack, TcpSocket};

/// A map from sockets to values with constant-time access.
#[derive(Debug)]
pub struct Sockets<T> {
    places: Vec<Option<(SocketId, T)>>,
    /// The number of values.
    pub count: usize,
}

impl<T> Default for Sockets<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Sockets<T> {
    /// Creates an empty map.
    pub const fn new() -> Self {
        Self {
            places: Vec::new(),
            count: 0,
        }
    }

    /// Inserts the value of a socket and replaces that of a former socket with the same index.
    pub fn put(&mut self, id: SocketId, value: T) {
        let index = id.index as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || None);
        }
        if self.places[index].replace((id, value)).is_none() {
            self.count += 1;
        }
    }

    /// Returns the value of a socket.
    pub fn get(&mut self, id: SocketId) -> Option<&mut T> {
        match self.places.get_mut(id.index as usize)? {
            Some((owner, value)) if *owner == id => Some(value),
            _ => None,
        }
    }

    /// Removes and returns the value of a socket.
    pub fn take(&mut self, id: SocketId) -> Option<T> {
        self.get(id)?;
        self.count -= 1;
        self.places[id.index as usize]
            .take()
            .map(|(_, value)| value)
    }

    /// Returns all sockets with a value.
    pub fn ids(&self) -> Vec<SocketId> {
        self.places.iter().flatten().map(|(id, _)| *id).collect()
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener<S: Stack> {
    socket: TcpSocket<S>,
    nodelay: bool,
    /// `accept` failed for lack of memory; it is retried when a connection has ended.
    pub starved: bool,
}

impl<S: Stack> Listener<S> {
    /// Listens with an accept queue of `backlog` connections, or the maximum. Accepted sockets get
    /// `nodelay`.
    ///
    /// # Errors
    ///
    /// The stack can't listen on this address, or a limit is reached.
    pub fn new(
        net: &Net<S>,
        listen: SocketAddr,
        backlog: usize,
        nodelay: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let socket = net.tcp()?;
        socket.set_nonblocking(true);
        socket.bind(listen)?;
        match socket.listen(backlog) {
            Err(ListenError::Limit(Limit {
                of: Resource::Backlog,
                most,
            })) => socket.listen(most)?,
            outcome => outcome?,
        }
        Ok(Self {
            socket,
            nodelay,
            starved: false,
        })
    }

    /// Returns the id that its events carry.
    pub fn id(&self) -> SocketId {
        self.socket.id()
    }

    /// Accepts the next connection, if there is one.
    pub fn accept(&mut self) -> Option<TcpSocket<S>> {
        match self.socket.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true);
                if self.nodelay {
                    // Not every stack supports it; the connection is usable.
                    let _ = socket.set_nodelay(true);
                }
                Some(socket)
            }
            Err(error) => {
                self.starved = matches!(error, AcceptError::Limit(_));
                None
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_belongs_to_one_socket_and_not_to_the_next_in_its_place() {
        let id = |index, generation| SocketId { index, generation };
        let mut sockets = Sockets::new();
        sockets.put(id(3, 0), 'a');
        assert_eq!(sockets.get(id(3, 0)), Some(&mut 'a'));
        assert_eq!(sockets.get(id(3, 1)), None);
        assert_eq!(sockets.get(id(9, 0)), None);
        assert_eq!(sockets.take(id(3, 1)), None);
        sockets.put(id(0, 5), 'b');
        assert_eq!(sockets.ids(), [id(0, 5), id(3, 0)]);
        assert_eq!(sockets.take(id(3, 0)), Some('a'));
        assert_eq!(sockets.count, 1);
    }
}
