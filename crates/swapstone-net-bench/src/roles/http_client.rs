// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP client: a closed loop; each connection sends the next request after a response.

use std::error::Error;
use std::net::SocketAddr;
use std::time::Instant;

use swapstone_net::error::{ConnectError, RecvError, SendError};
use swapstone_net::{Net, Readiness, Shared, SocketId, Stack, TcpSocket};

use swapstone_net_apps::http::Response;
use swapstone_net_apps::{Receive, Send, Sockets};

use crate::app::{App, connecting};
use crate::latency::Latency;
use crate::options::{Close, Options};
use crate::report::{Outcome, Span};

struct Connection<S: Stack> {
    socket: TcpSocket<S>,
    connected: bool,
    /// The start of the request, or of the connection if each request has its own.
    start: Instant,
    /// The number of bytes of the request that were sent.
    sent: usize,
    response: Response,
    /// The response is complete, and the server has not closed the connection yet.
    complete: bool,
}

/// The client. Latency is measured from the request (or its connection, if each has its own) to the
/// last byte of the response; with `--await-close`, to the server's FIN.
pub struct Client<'a, S: Stack> {
    net: &'a Net<S>,
    options: &'a Options,
    peer: SocketAddr,
    close: Close,
    request: Shared,
    connections: Sockets<Connection<S>>,
    begun: u64,
    most: u64,
    buffer: Vec<u8>,
    latency: Latency,
    outcome: Outcome,
    span: Span,
}

impl<'a, S: Stack> Client<'a, S> {
    pub fn new(
        net: &'a Net<S>,
        options: &'a Options,
        peer: SocketAddr,
        close: Close,
    ) -> Result<Self, Box<dyn Error>> {
        if options.await_close && close != Close::Server {
            return Err("--await-close needs --close server".into());
        }
        let connection = match close {
            Close::Server => "close",
            Close::None | Close::Client => "keep-alive",
        };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: {peer}\r\nConnection: {connection}\r\n\r\n",
            options.path
        );
        Ok(Self {
            net,
            options,
            peer,
            close,
            request: request.into_bytes().into(),
            connections: Sockets::new(),
            begun: 0,
            most: options.requests.unwrap_or(match options.time {
                Some(_) => u64::MAX,
                None => 1,
            }),
            buffer: vec![0; 64 << 10],
            latency: Latency::new(),
            outcome: Outcome::default(),
            span: Span::default(),
        })
    }

    /// Starts a connection for the next request, if there is one.
    fn open(&mut self) {
        while self.begun < self.most {
            self.begun += 1;
            let start = Instant::now();
            match connecting(self.net, self.peer, self.options.nodelay) {
                Ok(socket) => {
                    self.outcome.connections += 1;
                    let connection = Connection {
                        connected: false,
                        start,
                        sent: 0,
                        response: Response::default(),
                        complete: false,
                        socket,
                    };
                    self.connections.put(connection.socket.id(), connection);
                    self.outcome.most_open =
                        self.outcome.most_open.max(Some(self.connections.count));
                    return;
                }
                Err(error) => self.fail(&error.to_string()),
            }
        }
    }

    fn fail(&mut self, why: &str) {
        self.outcome.failed += 1;
        self.outcome
            .first_failure
            .get_or_insert_with(|| why.to_owned());
    }

    /// Continues with a connection; `Ok(true)` if its response is complete, an error if it failed.
    fn advance(&mut self, id: SocketId) -> Result<bool, String> {
        let Some(connection) = self.connections.get(id) else {
            return Ok(false);
        };
        if !connection.connected {
            match connection.socket.connect(self.peer) {
                Ok(()) => connection.connected = true,
                Err(ConnectError::WouldBlock) => return Ok(false),
                Err(error) => return Err(format!("connect: {error}")),
            }
        }
        while connection.sent < self.request.len() {
            let rest = connection.sent..self.request.len();
            let sent = match self.options.send {
                Send::Shared => connection.socket.send_shared(&self.request, rest),
                Send::Copy => connection.socket.send(&self.request[rest]),
            };
            match sent {
                Ok(size) => {
                    connection.sent += size;
                    self.outcome.bytes_out += size as u64;
                }
                Err(SendError::WouldBlock) => break,
                Err(error) => return Err(format!("send: {error}")),
            }
        }
        loop {
            let awaits_close = connection.complete;
            let mut taken = Ok((0, false));
            let response = &mut connection.response;
            let result = match self.options.receive {
                Receive::Borrow => connection.socket.recv_with(|bytes| {
                    if !bytes.is_empty() {
                        taken = response.take(bytes);
                    }
                    bytes.len()
                }),
                Receive::Copy => {
                    let result = connection.socket.recv(&mut self.buffer);
                    if let Ok(size @ 1..) = result {
                        taken = response.take(&self.buffer[..size]);
                    }
                    result
                }
            };
            match result {
                Ok(0) if awaits_close => return Ok(true),
                Ok(_) if awaits_close => return Err("more than was requested".into()),
                Ok(0) => return Err("the connection ended before its answer".into()),
                Ok(size) => {
                    self.outcome.bytes_in += size as u64;
                    let (used, complete) = taken?;
                    if used < size {
                        return Err("more than was requested".into());
                    }
                    if complete && !self.options.await_close {
                        return Ok(true);
                    }
                    connection.complete = complete;
                }
                Err(RecvError::WouldBlock) => return Ok(false),
                Err(error) => return Err(format!("receive: {error}")),
            }
        }
    }

    /// Starts the next request after a response; `true` if it uses the same connection.
    fn answered(&mut self, id: SocketId) -> bool {
        let Some(connection) = self.connections.get(id) else {
            return false;
        };
        self.latency.since(connection.start);
        self.span.note();
        self.outcome.requests += 1;
        if self.close == Close::None && self.begun < self.most {
            self.begun += 1;
            connection.start = Instant::now();
            connection.sent = 0;
            return true;
        }
        self.connections.take(id);
        self.open();
        false
    }
}

impl<S: Stack> App for Client<'_, S> {
    fn start(&mut self) {
        self.span.note();
        for _ in 0..self.options.connections {
            self.open();
        }
    }

    fn event(&mut self, id: SocketId, _: Readiness) {
        loop {
            match self.advance(id) {
                Ok(true) if self.answered(id) => {}
                Ok(_) => return,
                Err(why) => {
                    self.connections.take(id);
                    self.fail(&why);
                    self.open();
                    return;
                }
            }
        }
    }

    fn is_done(&self) -> bool {
        self.connections.count == 0
    }

    fn time_is_up(&mut self) {
        self.most = self.begun; // pending requests are completed
    }

    fn outcome(&self) -> Outcome {
        Outcome {
            requests: self.outcome.requests,
            failed: self.outcome.failed,
            connections: self.outcome.connections,
            most_open: self.outcome.most_open,
            bytes_in: self.outcome.bytes_in,
            bytes_out: self.outcome.bytes_out,
            active_s: self.span.seconds(),
            latency_us: self.latency.percentiles(),
            first_failure: self.outcome.first_failure.clone(),
            lost: None,
        }
    }
}

#[cfg(test)]
#[path = "http_client_tests.rs"]
mod tests;
