// SPDX-License-Identifier: MIT OR Apache-2.0
//! Bulk data in one direction.

use std::error::Error;
use std::net::SocketAddr;

use swapstone_net::error::{ConnectError, RecvError, SendError};
use swapstone_net::{Net, Readiness, Shared, Shutdown, SocketId, Stack, TcpSocket};

use swapstone_net_apps::{Listener, Receive, Send, Sockets};

use crate::app::{App, connecting};
use crate::options::Options;
use crate::report::{Outcome, Span};

/// The maximum number of bytes of one send.
const BLOCK: usize = 256 << 10;

/// The source of connections: a listening socket, or sockets that connect at the start.
enum Ways<S: Stack> {
    Listening(Listener<S>),
    Connecting(SocketAddr),
}

/// The sockets that are connecting.
type Begun<S> = (Ways<S>, Vec<TcpSocket<S>>);

impl<S: Stack> Ways<S> {
    fn new(net: &Net<S>, options: &Options) -> Result<Begun<S>, Box<dyn Error>> {
        match options.connect {
            None => Ok((
                Self::Listening(Listener::new(
                    net,
                    options.listen,
                    options.backlog,
                    options.nodelay,
                )?),
                Vec::new(),
            )),
            Some(peer) => {
                let sockets = (0..options.connections)
                    .map(|_| connecting(net, peer, options.nodelay))
                    .collect::<Result<_, _>>()?;
                Ok((Self::Connecting(peer), sockets))
            }
        }
    }

    /// Returns whether a socket is connected.
    fn is_connected(&self, socket: &TcpSocket<S>) -> Result<bool, ConnectError> {
        match self {
            Self::Listening(_) => Ok(true),
            Self::Connecting(peer) => match socket.connect(*peer) {
                Ok(()) | Err(ConnectError::AlreadyActive) => Ok(true),
                Err(ConnectError::WouldBlock) => Ok(false),
                Err(error) => Err(error),
            },
        }
    }
}

/// A connection, its progress, and whether it is established.
struct Connection<S: Stack> {
    socket: TcpSocket<S>,
    connected: bool,
    left: u64,
}

/// Sends on all connections.
pub struct Source<S: Stack> {
    ways: Ways<S>,
    connections: Sockets<Connection<S>>,
    block: Shared,
    each: u64,
    send: Send,
    abandon: bool,
    over: bool,
    outcome: Outcome,
    span: Span,
}

impl<S: Stack> Source<S> {
    pub fn new(net: &Net<S>, options: &Options) -> Result<Self, Box<dyn Error>> {
        let (ways, sockets) = Ways::new(net, options)?;
        let mut source = Self {
            ways,
            connections: Sockets::new(),
            block: vec![b'x'; BLOCK].into(),
            each: options.bytes.unwrap_or(u64::MAX),
            send: options.send,
            abandon: options.abandon,
            over: false,
            outcome: Outcome::default(),
            span: Span::default(),
        };
        for socket in sockets {
            source.add(socket, false);
        }
        Ok(source)
    }

    fn add(&mut self, socket: TcpSocket<S>, connected: bool) -> SocketId {
        let id = socket.id();
        self.outcome.connections += 1;
        let connection = Connection {
            socket,
            connected,
            left: self.each,
        };
        self.connections.put(id, connection);
        id
    }

    fn accept(&mut self) {
        while let Ways::Listening(listener) = &mut self.ways {
            let Some(socket) = listener.accept() else {
                return;
            };
            let id = self.add(socket, true);
            self.serve(id);
        }
    }

    fn serve(&mut self, id: SocketId) {
        match self.advance(id) {
            Ok(true) => return,
            Ok(false) => {}
            Err(why) => {
                self.outcome.failed += 1;
                self.outcome.first_failure.get_or_insert(why);
            }
        }
        self.connections.take(id);
    }

    /// Sends without blocking; `Ok(false)` if the peer has received all and has closed.
    fn advance(&mut self, id: SocketId) -> Result<bool, String> {
        let Some(connection) = self.connections.get(id) else {
            return Ok(true);
        };
        if !connection.connected {
            connection.connected = self
                .ways
                .is_connected(&connection.socket)
                .map_err(|error| format!("connect: {error}"))?;
            if !connection.connected {
                return Ok(true);
            }
            self.span.note();
        }
        while connection.left > 0 {
            let size = BLOCK.min(usize::try_from(connection.left).unwrap_or(BLOCK));
            let sent = match self.send {
                Send::Shared => connection.socket.send_shared(&self.block, 0..size),
                Send::Copy => connection.socket.send(&self.block[..size]),
            };
            match sent {
                Ok(size) => {
                    connection.left -= size as u64;
                    self.outcome.bytes_out += size as u64;
                    self.span.note();
                    if connection.left == 0 {
                        let _ = connection.socket.shutdown(Shutdown::Write);
                    }
                }
                Err(SendError::WouldBlock) => break,
                // The peer has ended an unlimited transfer.
                Err(_) if self.each == u64::MAX && connection.left < self.each => return Ok(false),
                Err(error) => return Err(format!("send: {error}")),
            }
        }
        // The peer closes when it has received all or needs no more data.
        match connection.socket.recv_with(|bytes| bytes.len()) {
            Ok(0) => {
                self.span.note();
                Ok(false)
            }
            Ok(_) | Err(RecvError::WouldBlock) => Ok(true),
            Err(_) if self.each == u64::MAX => Ok(false), // the peer has ended an unlimited transfer
            Err(error) => Err(format!("receive: {error}")),
        }
    }
}

impl<S: Stack> App for Source<S> {
    fn event(&mut self, id: SocketId, _: Readiness) {
        match &self.ways {
            Ways::Listening(listener) if listener.id() == id => self.accept(),
            _ => self.serve(id),
        }
    }

    fn is_done(&self) -> bool {
        match self.ways {
            Ways::Listening(_) => self.over,
            Ways::Connecting(_) => self.connections.count == 0 || (self.over && self.abandon),
        }
    }

    fn time_is_up(&mut self) {
        self.over = true;
        if self.abandon {
            return;
        }
        self.each = 0;
        for id in self.connections.ids() {
            if let Some(connection) = self.connections.get(id) {
                connection.left = 0;
                let _ = connection.socket.shutdown(Shutdown::Write);
            }
        }
    }

    fn outcome(&self) -> Outcome {
        outcome(&self.outcome, &self.span)
    }
}

/// Receives on all connections until their end.
pub struct Sink<S: Stack> {
    ways: Ways<S>,
    connections: Sockets<Connection<S>>,
    buffer: Vec<u8>,
    receive: Receive,
    over: bool,
    outcome: Outcome,
    span: Span,
}

impl<S: Stack> Sink<S> {
    pub fn new(net: &Net<S>, options: &Options) -> Result<Self, Box<dyn Error>> {
        let (ways, sockets) = Ways::new(net, options)?;
        let mut sink = Self {
            ways,
            connections: Sockets::new(),
            buffer: vec![0; 64 << 10],
            receive: options.receive,
            over: false,
            outcome: Outcome::default(),
            span: Span::default(),
        };
        for socket in sockets {
            sink.add(socket, false);
        }
        Ok(sink)
    }

    fn add(&mut self, socket: TcpSocket<S>, connected: bool) -> SocketId {
        let id = socket.id();
        self.outcome.connections += 1;
        let connection = Connection {
            socket,
            connected,
            left: 0,
        };
        self.connections.put(id, connection);
        id
    }

    fn accept(&mut self) {
        while let Ways::Listening(listener) = &mut self.ways {
            let Some(socket) = listener.accept() else {
                return;
            };
            let id = self.add(socket, true);
            self.serve(id);
        }
    }

    fn serve(&mut self, id: SocketId) {
        match self.advance(id) {
            Ok(true) => return,
            Ok(false) => {}
            Err(why) => {
                self.outcome.failed += 1;
                self.outcome.first_failure.get_or_insert(why);
            }
        }
        self.connections.take(id);
    }

    fn advance(&mut self, id: SocketId) -> Result<bool, String> {
        let Some(connection) = self.connections.get(id) else {
            return Ok(true);
        };
        if !connection.connected {
            connection.connected = self
                .ways
                .is_connected(&connection.socket)
                .map_err(|error| format!("connect: {error}"))?;
            if !connection.connected {
                return Ok(true);
            }
        }
        loop {
            let result = match self.receive {
                Receive::Borrow => connection.socket.recv_with(|bytes| bytes.len()),
                Receive::Copy => connection.socket.recv(&mut self.buffer),
            };
            match result {
                Ok(0) => return Ok(false),
                Ok(size) => {
                    self.outcome.bytes_in += size as u64;
                    self.span.note();
                }
                Err(RecvError::WouldBlock) => return Ok(true),
                Err(error) => return Err(format!("receive: {error}")),
            }
        }
    }
}

impl<S: Stack> App for Sink<S> {
    fn event(&mut self, id: SocketId, _: Readiness) {
        match &self.ways {
            Ways::Listening(listener) if listener.id() == id => self.accept(),
            _ => self.serve(id),
        }
    }

    fn is_done(&self) -> bool {
        match self.ways {
            Ways::Listening(_) => self.over,
            Ways::Connecting(_) => self.over || self.connections.count == 0,
        }
    }

    fn time_is_up(&mut self) {
        self.over = true;
    }

    fn outcome(&self) -> Outcome {
        outcome(&self.outcome, &self.span)
    }
}

fn outcome(so_far: &Outcome, span: &Span) -> Outcome {
    Outcome {
        failed: so_far.failed,
        connections: so_far.connections,
        bytes_in: so_far.bytes_in,
        bytes_out: so_far.bytes_out,
        active_s: span.seconds(),
        first_failure: so_far.first_failure.clone(),
        ..Outcome::default()
    }
}
