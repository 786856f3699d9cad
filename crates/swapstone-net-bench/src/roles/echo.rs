// SPDX-License-Identifier: MIT OR Apache-2.0
//! Echoed messages.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

use swapstone_net::error::{ConnectError, RecvError, SendError};
use swapstone_net::{Net, Readiness, SocketId, Stack, TcpSocket};

use swapstone_net_apps::{Listener, Sockets};

use crate::app::{App, connecting};
use crate::latency::Latency;
use crate::options::Options;
use crate::report::{Outcome, Span};

struct Connection<S: Stack> {
    socket: TcpSocket<S>,
    /// Bytes that could not be sent yet.
    left: Vec<u8>,
}

/// Echoes received data.
pub struct Server<S: Stack> {
    listener: Listener<S>,
    connections: Sockets<Connection<S>>,
    buffer: Vec<u8>,
    outcome: Outcome,
    span: Span,
}

impl<S: Stack> Server<S> {
    pub fn new(net: &Net<S>, options: &Options) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            listener: Listener::new(net, options.listen, options.backlog, options.nodelay)?,
            connections: Sockets::new(),
            buffer: vec![0; 64 << 10],
            outcome: Outcome::default(),
            span: Span::default(),
        })
    }

    fn accept(&mut self) {
        while let Some(socket) = self.listener.accept() {
            self.outcome.connections += 1;
            let id = socket.id();
            let left = Vec::new();
            self.connections.put(id, Connection { socket, left });
            self.serve(id);
        }
    }

    fn serve(&mut self, id: SocketId) {
        if let Some(connection) = self.connections.get(id)
            && !connection.advance(&mut self.buffer, &mut self.outcome)
        {
            self.connections.take(id);
        }
    }
}

impl<S: Stack> Connection<S> {
    /// Receives and sends without blocking; `false` if the connection has ended.
    fn advance(&mut self, buffer: &mut [u8], outcome: &mut Outcome) -> bool {
        loop {
            while !self.left.is_empty() {
                match self.socket.send(&self.left) {
                    Ok(size) => {
                        outcome.bytes_out += size as u64;
                        self.left.drain(..size);
                    }
                    Err(error) => return error == SendError::WouldBlock,
                }
            }
            match self.socket.recv(buffer) {
                Ok(0) => return false,
                Ok(size) => {
                    outcome.requests += 1;
                    outcome.bytes_in += size as u64;
                    let sent = match self.socket.send(&buffer[..size]) {
                        Ok(sent) => sent,
                        Err(SendError::WouldBlock) => 0,
                        Err(_) => return false,
                    };
                    outcome.bytes_out += sent as u64;
                    self.left.extend_from_slice(&buffer[sent..size]);
                }
                Err(error) => return error == RecvError::WouldBlock,
            }
        }
    }
}

impl<S: Stack> App for Server<S> {
    fn event(&mut self, id: SocketId, _: Readiness) {
        self.span.note();
        if id == self.listener.id() {
            self.accept();
        } else {
            self.serve(id);
            self.tick();
        }
    }

    fn tick(&mut self) {
        if self.listener.starved {
            self.accept();
        }
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            requests: self.outcome.requests,
            connections: self.outcome.connections,
            bytes_in: self.outcome.bytes_in,
            bytes_out: self.outcome.bytes_out,
            active_s: self.span.seconds(),
            ..Outcome::default()
        }
    }
}

struct Player<S: Stack> {
    socket: TcpSocket<S>,
    connected: bool,
    start: Instant,
    sent: usize,
    back: usize,
}

/// Sends a message on each connection, and the next one when it is echoed.
pub struct Pinger<S: Stack> {
    peer: SocketAddr,
    players: Sockets<Player<S>>,
    message: Vec<u8>,
    begun: u64,
    most: u64,
    latency: Latency,
    outcome: Outcome,
    span: Span,
}

impl<S: Stack> Pinger<S> {
    pub fn new(net: &Net<S>, options: &Options, peer: SocketAddr) -> Result<Self, Box<dyn Error>> {
        let mut pinger = Self {
            peer,
            players: Sockets::new(),
            message: vec![b'm'; options.size],
            begun: 0,
            most: options.requests.unwrap_or(match options.time {
                Some(_) => u64::MAX,
                None => 1,
            }),
            latency: Latency::new(),
            outcome: Outcome::default(),
            span: Span::default(),
        };
        for _ in 0..options.connections {
            let socket = connecting(net, peer, options.nodelay)?;
            let player = Player {
                connected: false,
                start: Instant::now(),
                sent: 0,
                back: 0,
                socket,
            };
            pinger.players.put(player.socket.id(), player);
        }
        pinger.outcome.connections = options.connections as u64;
        Ok(pinger)
    }

    /// Continues with a connection; `Ok(false)` if it has finished.
    fn advance(&mut self, id: SocketId) -> Result<bool, String> {
        let Some(player) = self.players.get(id) else {
            return Ok(true);
        };
        if !player.connected {
            match player.socket.connect(self.peer) {
                Ok(()) => player.connected = true,
                Err(ConnectError::WouldBlock) => return Ok(true),
                Err(error) => return Err(format!("connect: {error}")),
            }
            self.span.note();
        }
        loop {
            if player.sent == 0 {
                if self.begun >= self.most {
                    return Ok(false);
                }
                self.begun += 1;
                player.start = Instant::now();
            }
            while player.sent < self.message.len() {
                match player.socket.send(&self.message[player.sent..]) {
                    Ok(size) => {
                        player.sent += size;
                        self.outcome.bytes_out += size as u64;
                    }
                    Err(SendError::WouldBlock) => break,
                    Err(error) => return Err(format!("send: {error}")),
                }
            }
            while player.back < self.message.len() {
                match player.socket.recv_with(|bytes| bytes.len()) {
                    Ok(0) => return Err("the connection ended".into()),
                    Ok(size) => {
                        player.back += size;
                        self.outcome.bytes_in += size as u64;
                    }
                    Err(RecvError::WouldBlock) => return Ok(true),
                    Err(error) => return Err(format!("receive: {error}")),
                }
            }
            self.latency.since(player.start);
            self.span.note();
            self.outcome.requests += 1;
            (player.sent, player.back) = (0, 0);
        }
    }
}

impl<S: Stack> App for Pinger<S> {
    fn event(&mut self, id: SocketId, _: Readiness) {
        match self.advance(id) {
            Ok(true) => return,
            Ok(false) => {}
            Err(why) => {
                self.outcome.failed += 1;
                self.outcome.first_failure.get_or_insert(why);
            }
        }
        self.players.take(id);
    }

    fn is_done(&self) -> bool {
        self.players.count == 0
    }

    fn time_is_up(&mut self) {
        self.most = self.begun;
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            requests: self.outcome.requests,
            failed: self.outcome.failed,
            connections: self.outcome.connections,
            bytes_in: self.outcome.bytes_in,
            bytes_out: self.outcome.bytes_out,
            active_s: self.span.seconds(),
            latency_us: self.latency.percentiles(),
            first_failure: self.outcome.first_failure.clone(),
            ..Outcome::default()
        }
    }
}
