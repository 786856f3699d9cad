//! An application: what an event loop calls, over any stack.

use std::error::Error;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use netstack::error::AcceptError;
use netstack::{Net, Readiness, SocketId, Stack, TcpSocket};

use crate::options::Options;
use crate::report::Outcome;

/// How long the loop sleeps at most, so that a signal or the end of the time is seen.
const TICK: Duration = Duration::from_millis(50);

/// One role, over one stack.
pub trait App {
    /// Something changed for a socket.
    fn event(&mut self, id: SocketId, ready: Readiness);

    /// Whether all is done.
    fn is_done(&self) -> bool {
        false
    }

    /// Whether there is work that waits for no event.
    fn work(&mut self) -> bool {
        false
    }

    /// Nothing happened for a while.
    fn tick(&mut self) {}

    /// The time that was asked for is over.
    fn time_is_up(&mut self) {}

    /// What came of it.
    fn outcome(&self) -> Outcome;
}

/// Run it until it is done, the time is over or a signal came.
pub fn run<S: Stack>(
    net: &Net<S>,
    app: &mut dyn App,
    time: Option<Duration>,
    stop: &AtomicBool,
) -> Outcome {
    let mut end = time.map(|time| Instant::now() + time);
    let mut until = net.now() + TICK;
    while !app.is_done() && !stop.load(Ordering::Relaxed) {
        if app.work() {
            net.poll();
            while let Some((id, ready)) = net.with(Stack::next_event) {
                app.event(id, ready);
            }
        } else if let Some((id, ready)) = net.next_event(Some(until)) {
            app.event(id, ready);
            if end.is_none() {
                continue;
            }
        } else {
            until = net.now() + TICK;
            app.tick();
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            end = None;
            app.time_is_up();
        }
    }
    app.outcome()
}

/// Values by socket: found in constant time, and gone with their socket.
#[derive(Debug)]
pub struct Sockets<T> {
    places: Vec<Option<(SocketId, T)>>,
    pub count: usize,
}

impl<T> Sockets<T> {
    pub fn new() -> Self {
        Self {
            places: Vec::new(),
            count: 0,
        }
    }

    pub fn put(&mut self, id: SocketId, value: T) {
        let index = id.index as usize;
        if self.places.len() <= index {
            self.places.resize_with(index + 1, || None);
        }
        if self.places[index].replace((id, value)).is_none() {
            self.count += 1;
        }
    }

    pub fn get(&mut self, id: SocketId) -> Option<&mut T> {
        match self.places.get_mut(id.index as usize)? {
            Some((owner, value)) if *owner == id => Some(value),
            _ => None,
        }
    }

    pub fn take(&mut self, id: SocketId) -> Option<T> {
        self.get(id)?;
        self.count -= 1;
        self.places[id.index as usize]
            .take()
            .map(|(_, value)| value)
    }

    pub fn ids(&self) -> Vec<SocketId> {
        self.places.iter().flatten().map(|(id, _)| *id).collect()
    }
}

/// A listening socket.
pub struct Listener<S: Stack> {
    socket: TcpSocket<S>,
    nodelay: bool,
    /// There was no room for a connection that waits: it is tried again when another has gone.
    pub starved: bool,
}

impl<S: Stack> Listener<S> {
    pub fn new(net: &Net<S>, options: &Options) -> Result<Self, Box<dyn Error>> {
        let socket = net.tcp()?;
        socket.set_nonblocking(true);
        socket.bind(options.listen)?;
        socket.listen(options.backlog)?;
        Ok(Self {
            socket,
            nodelay: options.nodelay,
            starved: false,
        })
    }

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

/// Open a socket that begins to connect.
pub fn connecting<S: Stack>(
    net: &Net<S>,
    peer: SocketAddr,
    nodelay: bool,
) -> Result<TcpSocket<S>, Box<dyn Error>> {
    use netstack::error::ConnectError;
    let socket = net.tcp()?;
    socket.set_nonblocking(true);
    if nodelay {
        let _ = socket.set_nodelay(true);
    }
    match socket.connect(peer) {
        Ok(()) | Err(ConnectError::WouldBlock) => Ok(socket),
        Err(error) => Err(error.into()),
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
