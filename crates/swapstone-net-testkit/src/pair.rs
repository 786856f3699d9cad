// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stack under test and a second stack, with programs on both.

use std::cell::{Cell, RefCell};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

use swapstone_net::error::{AcceptError, RecvError, SendError};
use swapstone_net::fixes::Fixes;
use swapstone_net::{Cidr, Config, Instant, Net, Readiness, SocketId, Stack, TcpSocket};
use swapstone_net_link::{Endpoint, Link, Options, Path};

use crate::backend::{self, PEER};
use crate::context::{Context, Family};
use crate::watched::{Seen, Watched, WatchedPort};
use crate::world::{PEER_MAC, PEER_V4, PEER_V6, SUBJECT_MAC, SUBJECT_V4, SUBJECT_V6};

/// Two stacks on a link. While a program blocks on one, the other runs as an [`Endpoint`].
#[derive(Debug)]
pub struct Pair {
    /// The link.
    pub link: Link,
    /// The stack under test, on port 0.
    pub subject: Net<Watched>,
    /// The other stack, on port 1.
    pub other: Net<Watched>,
    /// Observations of the device of the stack under test.
    pub seen: Rc<RefCell<Seen>>,
    family: Family,
}

impl Context {
    /// Creates two stacks with default configurations on a link with this path in both directions.
    pub fn pair(&self, path: Path) -> Pair {
        self.pair_with(&self.config(), path)
    }

    /// As [`Context::pair`], with a configuration for the stack under test. The other stack gets
    /// the same limits.
    pub fn pair_with(&self, config: &Config, path: Path) -> Pair {
        self.pair_on(config, path, Options::default())
    }

    /// As [`Context::pair_with`], with options of the link except its seed and number of frames.
    pub fn pair_on(&self, config: &Config, path: Path, options: Options) -> Pair {
        let Some(peer) = backend::named(PEER) else {
            self.unavailable("there is no stack to play the peer");
        };
        let link = Link::new(Options {
            seed: u64::from(self.seed),
            frames: if options.segments > 0 { 4096 } else { 65_536 },
            ..options
        });
        let here = WatchedPort::new(link.port(SUBJECT_MAC));
        let seen = here.seen();
        let there = WatchedPort::new(link.port(PEER_MAC));
        let addresses = [Cidr::new(PEER_V4.into(), 24), Cidr::new(PEER_V6.into(), 64)];
        let mut others = Config::new(&addresses, [self.seed.wrapping_add(100); 32]);
        others.limits = config.limits;
        let made = (self.backend.make)(here, config, self.fixes);
        let subject = made.unwrap_or_else(|reason| self.unavailable(&reason));
        let made = (peer.make)(there, &others, Fixes::all(peer.fixes));
        let other = made.unwrap_or_else(|reason| self.unavailable(&reason));
        let pair = Pair {
            subject: Net::new(Watched::new(subject, true), link.time(0)),
            other: Net::new(Watched::new(other, false), link.time(1)),
            link,
            seen,
            family: self.family,
        };
        pair.link.attach(0, pair.subject.clone());
        pair.link.attach(1, pair.other.clone());
        // Duplicate address detection runs first, on a link without loss.
        let settled = pair.link.now() + std::time::Duration::from_secs(5);
        pair.link.run_until(settled);
        pair.link.set_paths(path);
        pair
    }
}

impl Pair {
    /// Returns an address of the stack under test.
    pub fn at_subject(&self, port: u16) -> SocketAddr {
        let address: IpAddr = match self.family {
            Family::V4 => SUBJECT_V4.into(),
            Family::V6 => SUBJECT_V6.into(),
        };
        SocketAddr::new(address, port)
    }

    /// Returns an address of the other stack.
    pub fn at_other(&self, port: u16) -> SocketAddr {
        let address: IpAddr = match self.family {
            Family::V4 => PEER_V4.into(),
            Family::V6 => PEER_V6.into(),
        };
        SocketAddr::new(address, port)
    }
}

/// What a [`Server`] does with a connection. It returns `true` to close the connection.
pub trait Service {
    /// Handles an event. The socket does not block.
    fn serve(&mut self, socket: &TcpSocket<Watched>) -> bool;
}

/// An event-driven server: a listener, and a service for each connection. It does not scan
/// connections, and allocates only while it grows.
pub struct Server<V> {
    net: Net<Watched>,
    listener: TcpSocket<Watched>,
    make: fn() -> V,
    open: Vec<Option<(TcpSocket<Watched>, V)>>,
    shared: Rc<Served>,
}

/// The counters of a server.
#[derive(Debug, Default)]
pub struct Served {
    /// Connections accepted.
    pub accepted: Cell<usize>,
    /// Open connections.
    pub open: Cell<usize>,
    /// Errors of `accept` other than `WouldBlock`.
    pub errors: RefCell<Vec<AcceptError>>,
}

impl<V: Service> Server<V> {
    /// Creates a server.
    pub fn new(net: &Net<Watched>, at: SocketAddr, backlog: usize, make: fn() -> V) -> Self {
        let listener = net.tcp().expect("there is room");
        listener.bind(at).expect("it is free");
        listener.listen(backlog).expect("there is room");
        listener.set_nonblocking(true);
        Self {
            net: net.clone(),
            listener,
            make,
            open: Vec::new(),
            shared: Rc::default(),
        }
    }

    /// Returns the counters, which are updated.
    pub fn served(&self) -> Rc<Served> {
        Rc::clone(&self.shared)
    }

    fn accept(&mut self) {
        loop {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(true);
                    let id = socket.id();
                    let place = id.index as usize;
                    if self.open.len() <= place {
                        self.open.resize_with(place + 1, || None);
                    }
                    self.shared.accepted.set(self.shared.accepted.get() + 1);
                    self.shared.open.set(self.shared.open.get() + 1);
                    self.open[place] = Some((socket, (self.make)()));
                    // Not every stack repeats events from before the connection was accepted.
                    self.serve(id);
                }
                Err(AcceptError::WouldBlock) => return,
                Err(error) => {
                    self.shared.errors.borrow_mut().push(error);
                    return;
                }
            }
        }
    }

    fn serve(&mut self, id: SocketId) {
        let Some(place) = self.open.get_mut(id.index as usize) else {
            return;
        };
        let Some((socket, service)) = place else {
            return;
        };
        if socket.id() == id && service.serve(socket) {
            *place = None;
            self.shared.open.set(self.shared.open.get() - 1);
        }
    }

    fn event(&mut self, id: SocketId, _ready: Readiness) {
        if id == self.listener.id() {
            self.accept();
        } else {
            self.serve(id);
        }
    }
}

impl<V: Service> Endpoint for Server<V> {
    fn advance(&mut self, now: Instant) -> bool {
        let more = self.net.with(|stack| stack.poll(now));
        let mut any = false;
        while let Some((id, ready)) = self.net.with(Stack::next_event) {
            any = true;
            self.event(id, ready);
        }
        more || any
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        self.net.with(|stack| stack.deadline(now))
    }
}

/// Echoes data, and closes when the peer has closed.
#[derive(Debug, Default)]
pub struct Echo {
    held: Vec<u8>,
    ended: bool,
}

impl Service for Echo {
    fn serve(&mut self, socket: &TcpSocket<Watched>) -> bool {
        loop {
            let before = self.held.len();
            if before < 4096 && !self.ended {
                let held = &mut self.held;
                let got = socket.recv_with(|bytes| {
                    let count = bytes.len().min(4096 - before);
                    held.extend_from_slice(&bytes[..count]);
                    count
                });
                match got {
                    Ok(0) => self.ended = true,
                    Ok(_) | Err(RecvError::WouldBlock) => {}
                    Err(_) => return true,
                }
            }
            if self.held.is_empty() {
                return self.ended;
            }
            match socket.send(&self.held) {
                Ok(count) => drop(self.held.drain(..count)),
                Err(SendError::WouldBlock) => return false,
                Err(_) => return true,
            }
            if self.held.is_empty() && self.ended {
                return true;
            }
        }
    }
}

/// Responds to the first request with the number of bytes that it states in four bytes, and closes.
#[derive(Debug, Default)]
pub struct Blob {
    asked: Vec<u8>,
    sent: usize,
}

impl Service for Blob {
    fn serve(&mut self, socket: &TcpSocket<Watched>) -> bool {
        while self.asked.len() < 4 {
            let asked = &mut self.asked;
            match socket.recv_with(|bytes| {
                let count = bytes.len().min(4 - asked.len());
                asked.extend_from_slice(&bytes[..count]);
                count
            }) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(RecvError::WouldBlock) => return false,
                Err(_) => return true,
            }
        }
        let size = u32::from_be_bytes([self.asked[0], self.asked[1], self.asked[2], self.asked[3]]);
        while self.sent < size as usize {
            let chunk = [0x5a; 1000];
            let rest = (size as usize - self.sent).min(chunk.len());
            match socket.send(&chunk[..rest]) {
                Ok(count) => self.sent += count,
                Err(SendError::WouldBlock) => return false,
                Err(_) => return true,
            }
        }
        true
    }
}
