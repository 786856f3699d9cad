// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP server.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec;
use alloc::vec::Vec;
use core::error::Error;
use core::fmt;
use core::net::SocketAddr;

use swapstone_net::error::{RecvError, SendError};
use swapstone_net::{Net, Shared, SocketId, Stack, TcpSocket};

use crate::http::{self, Parsed, Request, Target};
use crate::sockets::{Listener, Sockets};

/// The maximum number of responses queued on a connection; further requests are not read.
const MOST_QUEUED: usize = 32;
/// The maximum number of parts of one send.
const PIECES: usize = 8;
/// The repeated content of `/bytes/N`.
const BLOCK: usize = 64 << 10;

/// How data is received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Receive {
    /// Copied to a buffer of the application.
    Copy,
    /// Processed in the stack's buffer.
    Borrow,
}

/// How data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Send {
    /// From any memory.
    Copy,
    /// From immutable memory, without a copy if the stack supports it.
    Shared,
}

/// The settings of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The length of the accept queue.
    pub backlog: usize,
    /// Disables Nagle's algorithm.
    pub nodelay: bool,
    /// The size of the page in bytes.
    pub page: usize,
    /// How requests are received.
    pub receive: Receive,
    /// How responses are sent.
    pub send: Send,
}

impl Default for Settings {
    /// Port 80 of all addresses, and a page of 340 bytes, without copies if the stack supports it.
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([0, 0, 0, 0], 80)),
            backlog: 511,
            nodelay: true,
            page: 340,
            receive: Receive::Borrow,
            send: Send::Shared,
        }
    }
}

/// The counters of a server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Requests with a response, sent or pending.
    pub requests: u64,
    /// Failed requests and connections.
    pub failed: u64,
    /// Accepted connections.
    pub connections: u64,
    /// Bytes of requests.
    pub bytes_in: u64,
    /// Bytes of responses including heads.
    pub bytes_out: u64,
    /// The first error.
    pub first_failure: Option<String>,
}

/// A part of a response.
enum Piece {
    /// The rest of a complete response.
    Page { bytes: Shared, at: usize },
    /// This number of bytes.
    Filling { left: u64 },
}

struct Connection<S: Stack> {
    socket: TcpSocket<S>,
    memory: Memory,
    /// The connection is closed after the last response.
    ending: bool,
    /// The peer has sent a FIN. Pending requests still get a response.
    ended: bool,
}

/// The buffers of a connection, which later connections reuse.
#[derive(Default)]
struct Memory {
    /// An incomplete request, or requests that wait for room in the queue.
    carry: Vec<u8>,
    out: VecDeque<Piece>,
}

/// What all connections share.
struct Common {
    keep: Shared,
    close: Shared,
    bad: Shared,
    block: Shared,
    last_head: Option<((u64, bool), Shared)>,
    buffer: Vec<u8>,
    receive: Receive,
    send: Send,
    counts: Counts,
}

/// A server with one page at every path, and N bytes at `/bytes/N`.
///
/// It never blocks: an event loop passes the events of its sockets.
pub struct HttpServer<S: Stack> {
    listener: Listener<S>,
    connections: Sockets<Connection<S>>,
    spare: Vec<Memory>,
    common: Common,
}

impl<S: Stack> HttpServer<S> {
    /// Starts to listen.
    ///
    /// # Errors
    ///
    /// See [`Listener::new`].
    pub fn new(net: &Net<S>, settings: &Settings) -> Result<Self, Box<dyn Error>> {
        let whole = |status: &str, body: usize, keep_alive: bool| -> Shared {
            let mut all = Vec::new();
            http::head(&mut all, status, body as u64, keep_alive);
            all.resize(all.len() + body, b'x');
            all.into()
        };
        Ok(Self {
            listener: Listener::new(net, settings.listen, settings.backlog, settings.nodelay)?,
            connections: Sockets::new(),
            spare: Vec::new(),
            common: Common {
                keep: whole("200 OK", settings.page, true),
                close: whole("200 OK", settings.page, false),
                bad: whole("400 Bad Request", 0, false),
                block: vec![b'x'; BLOCK].into(),
                last_head: None,
                buffer: vec![0; 16 << 10],
                receive: settings.receive,
                send: settings.send,
                counts: Counts::default(),
            },
        })
    }

    /// Returns the listening socket.
    pub fn id(&self) -> SocketId {
        self.listener.id()
    }

    /// Handles an event of a socket.
    pub fn event(&mut self, id: SocketId) {
        if id == self.listener.id() {
            self.accept();
        } else {
            self.serve(id);
            self.tick();
        }
    }

    /// Retries to accept connections that failed for lack of memory. Call it when idle.
    pub fn tick(&mut self) {
        if self.listener.starved {
            self.accept();
        }
    }

    /// Returns the counters.
    pub fn counts(&self) -> &Counts {
        &self.common.counts
    }

    fn accept(&mut self) {
        while let Some(socket) = self.listener.accept() {
            self.common.counts.connections += 1;
            let connection = Connection {
                memory: self.spare.pop().unwrap_or_default(),
                ending: false,
                ended: false,
                socket,
            };
            let id = connection.socket.id();
            self.connections.put(id, connection);
            // A request may have arrived with the handshake.
            self.serve(id);
        }
    }

    fn serve(&mut self, id: SocketId) {
        let Some(connection) = self.connections.get(id) else {
            return;
        };
        if connection.advance(&mut self.common) {
            return;
        }
        if let Some(mut gone) = self.connections.take(id) {
            gone.memory.carry.clear();
            gone.memory.out.clear();
            self.spare.push(gone.memory);
        }
    }
}

impl<S: Stack> fmt::Debug for HttpServer<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "HttpServer({} connections)", self.connections.count)
    }
}

impl<S: Stack> Connection<S> {
    /// Reads, responds and sends without blocking; `false` if the connection has ended.
    fn advance(&mut self, common: &mut Common) -> bool {
        loop {
            let Some(stopped) = self.read(common) else {
                return false;
            };
            match self.flush(common) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(error) => {
                    common.fail(&error);
                    return false;
                }
            }
            // The queue has room for further requests.
            self.memory.take_carried(common, &mut self.ending);
            if self.memory.out.is_empty() {
                if self.ending || self.ended {
                    return false;
                }
                if !stopped {
                    return true;
                }
            }
        }
    }

    /// Reads available data while the queue has room; `true` if the queue is full, `None` if the
    /// connection has ended.
    fn read(&mut self, common: &mut Common) -> Option<bool> {
        while !self.ending && !self.ended {
            if self.memory.out.len() >= MOST_QUEUED {
                return Some(true);
            }
            let result = match common.receive {
                Receive::Borrow => {
                    let (memory, ending) = (&mut self.memory, &mut self.ending);
                    self.socket
                        .recv_with(|bytes| memory.take_in(bytes, common, ending))
                }
                Receive::Copy => {
                    let mut buffer = core::mem::take(&mut common.buffer);
                    let result = self.socket.recv(&mut buffer);
                    if let Ok(size @ 1..) = result {
                        self.memory
                            .take_in(&buffer[..size], common, &mut self.ending);
                    }
                    common.buffer = buffer;
                    result
                }
            };
            match result {
                Ok(0) => self.ended = true,
                Ok(size) => common.counts.bytes_in += size as u64,
                Err(RecvError::WouldBlock) => break,
                Err(error) => {
                    if !self.memory.out.is_empty() || !self.memory.carry.is_empty() {
                        common.fail(&error);
                    }
                    return None;
                }
            }
        }
        Some(false)
    }

    /// Sends responses; `true` if all are sent.
    fn flush(&mut self, common: &mut Common) -> Result<bool, SendError> {
        while !self.memory.out.is_empty() {
            let sent = match common.send {
                Send::Shared => self.send_shared(&common.block),
                Send::Copy => self.send_copied(&common.block),
            };
            match sent {
                Ok(size) => {
                    common.counts.bytes_out += size as u64;
                    self.memory.drop_sent(size);
                }
                Err(SendError::WouldBlock) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn send_shared(&self, block: &Shared) -> Result<usize, SendError> {
        match self.memory.out.front() {
            Some(Piece::Page { bytes, at }) => self.socket.send_shared(bytes, *at..bytes.len()),
            Some(Piece::Filling { left }) => {
                let size = block.len().min(usize::try_from(*left).unwrap_or(BLOCK));
                self.socket.send_shared(block, 0..size)
            }
            None => Ok(0),
        }
    }

    fn send_copied(&self, block: &[u8]) -> Result<usize, SendError> {
        let mut parts: [&[u8]; PIECES] = [&[]; PIECES];
        let mut used = 0;
        for (part, piece) in parts.iter_mut().zip(&self.memory.out) {
            *part = match piece {
                Piece::Page { bytes, at } => &bytes[*at..],
                Piece::Filling { left } => {
                    &block[..block.len().min(usize::try_from(*left).unwrap_or(BLOCK))]
                }
            };
            used += 1;
            if matches!(piece, Piece::Filling { left } if *left > part.len() as u64) {
                break; // the next part must follow the rest of this one
            }
        }
        self.socket.send_vectored(&parts[..used])
    }
}

impl Memory {
    /// Processes received requests; returns how many bytes are consumed: all, unless the queue is
    /// full and no bytes are pending.
    fn take_in(&mut self, bytes: &[u8], common: &mut Common, ending: &mut bool) -> usize {
        if !self.carry.is_empty() {
            self.carry.extend_from_slice(bytes);
            self.take_carried(common, ending);
            return bytes.len();
        }
        let mut used = 0;
        while used < bytes.len() && !*ending {
            if self.out.len() >= MOST_QUEUED {
                if common.receive == Receive::Copy {
                    break;
                }
                return used;
            }
            match http::parse(&bytes[used..]) {
                Parsed::Request(request, length) => {
                    self.answer(request, common, ending);
                    used += length;
                }
                Parsed::Partial => break,
                Parsed::Bad => self.refuse(common, ending),
            }
        }
        if !*ending {
            self.carry.extend_from_slice(&bytes[used..]);
        }
        bytes.len()
    }

    fn take_carried(&mut self, common: &mut Common, ending: &mut bool) {
        let mut used = 0;
        while used < self.carry.len() && !*ending && self.out.len() < MOST_QUEUED {
            match http::parse(&self.carry[used..]) {
                Parsed::Request(request, length) => {
                    self.answer(request, common, ending);
                    used += length;
                }
                Parsed::Partial => break,
                Parsed::Bad => self.refuse(common, ending),
            }
        }
        self.carry.drain(..used);
        if *ending {
            self.carry.clear();
        }
    }

    fn answer(&mut self, request: Request, common: &mut Common, ending: &mut bool) {
        common.counts.requests += 1;
        *ending |= !request.keep_alive;
        match request.target {
            Target::Page => {
                let whole = if request.keep_alive {
                    &common.keep
                } else {
                    &common.close
                };
                self.page(whole);
            }
            Target::Bytes(left) => {
                let head = common.head_of(left, request.keep_alive);
                self.page(&head);
                if left > 0 {
                    self.out.push_back(Piece::Filling { left });
                }
            }
        }
    }

    fn refuse(&mut self, common: &mut Common, ending: &mut bool) {
        common.fail(&"a request that is none, or has a body");
        *ending = true;
        self.page(&common.bad);
    }

    fn page(&mut self, bytes: &Shared) {
        self.out.push_back(Piece::Page {
            bytes: Shared::clone(bytes),
            at: 0,
        });
    }

    fn drop_sent(&mut self, mut size: usize) {
        while size > 0 {
            let over = match self.out.front_mut() {
                Some(Piece::Page { bytes, at }) => {
                    let now = size.min(bytes.len() - *at);
                    *at += now;
                    size -= now;
                    *at == bytes.len()
                }
                Some(Piece::Filling { left }) => {
                    let now = (size as u64).min(*left);
                    *left -= now;
                    size -= now as usize;
                    *left == 0
                }
                None => return,
            };
            if over {
                self.out.pop_front();
            }
        }
    }
}

impl Common {
    /// The head of a response of this length, which is usually that of the last one.
    fn head_of(&mut self, size: u64, keep_alive: bool) -> Shared {
        if let Some((of, head)) = &self.last_head
            && *of == (size, keep_alive)
        {
            return Shared::clone(head);
        }
        let mut head = Vec::new();
        http::head(&mut head, "200 OK", size, keep_alive);
        let head: Shared = head.into();
        self.last_head = Some(((size, keep_alive), Shared::clone(&head)));
        head
    }

    fn fail(&mut self, why: &dyn fmt::Display) {
        self.counts.failed += 1;
        self.counts
            .first_failure
            .get_or_insert_with(|| why.to_string());
    }
}
