//! What servers keep: values by socket, and the socket that listens.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::error::Error;
use core::net::SocketAddr;

use swapstone_net::error::{AcceptError, Limit, ListenError, Resource};
use swapstone_net::{Net, SocketId, Stack, TcpSocket};

/// Values by socket: found in constant time, and gone with their socket.
#[derive(Debug)]
pub struct Sockets<T> {
    places: Vec<Option<(SocketId, T)>>,
    /// How many there are.
    pub count: usize,
}

impl<T> Default for Sockets<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Sockets<T> {
    /// None.
    pub const fn new() -> Self {
        Self {
            places: Vec::new(),
            count: 0,
        }
    }

    /// Keep a value for a socket, instead of what its place held.
    pub fn put(&mut self, id: SocketId, value: T) {
        let index = id.index as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || None);
        }
        if self.places[index].replace((id, value)).is_none() {
            self.count += 1;
        }
    }

    /// The value of a socket.
    pub fn get(&mut self, id: SocketId) -> Option<&mut T> {
        match self.places.get_mut(id.index as usize)? {
            Some((owner, value)) if *owner == id => Some(value),
            _ => None,
        }
    }

    /// The value of a socket, which has none afterwards.
    pub fn take(&mut self, id: SocketId) -> Option<T> {
        self.get(id)?;
        self.count -= 1;
        self.places[id.index as usize]
            .take()
            .map(|(_, value)| value)
    }

    /// All sockets that have a value.
    pub fn ids(&self) -> Vec<SocketId> {
        self.places.iter().flatten().map(|(id, _)| *id).collect()
    }
}

/// A listening socket.
#[derive(Debug)]
pub struct Listener<S: Stack> {
    socket: TcpSocket<S>,
    nodelay: bool,
    /// There was no room for a connection that waits: it is tried again when another has gone.
    pub starved: bool,
}

impl<S: Stack> Listener<S> {
    /// Listen, with room for `backlog` connections that wait, or as many as there can be; those that are accepted get `nodelay`.
    ///
    /// # Errors
    ///
    /// The stack can't listen there, or has no room.
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

    /// Its name in events.
    pub fn id(&self) -> SocketId {
        self.socket.id()
    }

    /// Take the next connection, if one waits and there is room.
    pub fn accept(&mut self) -> Option<TcpSocket<S>> {
        match self.socket.accept() {
            Ok((socket, _)) => {
                socket.set_nonblocking(true);
                if self.nodelay {
                    // A stack that can't says so in its capabilities; the connection is good all the same.
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
