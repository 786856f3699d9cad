// SPDX-License-Identifier: MIT OR Apache-2.0
//! The programs over the stacks: event-driven senders, receivers, servers and clients.

use std::cell::{Cell, RefCell};
use std::error::Error;
use std::net::SocketAddr;
use std::rc::Rc;

use swapstone_net::error::{AcceptError, ConnectError, RecvError, SendError};
use swapstone_net::{Instant, Net, Shared, Shutdown, SocketId, Stack, TcpSocket};
use swapstone_net_link::{Endpoint, Random};

use crate::options::Options;

/// The length of the block that bulk data repeats. It is odd, so that it is not aligned with
/// segments or buffers.
const BLOCK: usize = 65_521;

/// The progress of both programs.
#[derive(Debug, Default)]
pub struct Progress {
    /// Received bytes (bulk) or responses (requests).
    pub done: Cell<u64>,
    /// The time of the last one, if all have arrived.
    pub ended: Cell<Option<Instant>>,
    /// The first error.
    pub failed: RefCell<Option<String>>,
}

impl Progress {
    fn fail(&self, what: &str, why: &dyn Error) {
        self.wrong(format!("{what}: {why}"));
    }

    fn wrong(&self, what: String) {
        self.failed.borrow_mut().get_or_insert(what);
    }
}

/// A program over a stack.
pub trait Program {
    /// Starts the program.
    fn start(&mut self);
    /// Handles an event of a socket.
    fn event(&mut self, id: SocketId, now: Instant);
}

/// A stack and its program.
pub struct Side<S, P> {
    pub net: Net<S>,
    pub program: P,
}

impl<S: Stack, P: Program> Endpoint for Side<S, P> {
    fn advance(&mut self, now: Instant) -> bool {
        let more = self.net.with(|stack| stack.poll(now));
        let mut any = false;
        while let Some((id, _)) = self.net.with(Stack::next_event) {
            any = true;
            self.program.event(id, now);
        }
        more || any
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        self.net.with(|stack| stack.deadline(now))
    }
}

/// The block of bulk data.
fn block() -> Shared {
    let mut random = Random::new(0x6e65_7473);
    (0..BLOCK).map(|_| random.bits() as u8).collect()
}

fn send<S: Stack>(
    socket: &TcpSocket<S>,
    from: &Shared,
    range: std::ops::Range<usize>,
    shared: bool,
) -> Result<usize, SendError> {
    if shared {
        socket.send_shared(from, range)
    } else {
        socket.send(&from[range])
    }
}

/// Sends this number of bytes and closes.
pub struct Sender<S: Stack> {
    socket: TcpSocket<S>,
    peer: SocketAddr,
    block: Shared,
    size: u64,
    sent: u64,
    shared: bool,
    connected: bool,
    over: bool,
    progress: Rc<Progress>,
}

impl<S: Stack> Sender<S> {
    pub fn new(
        net: &Net<S>,
        peer: SocketAddr,
        options: &Options,
        progress: &Rc<Progress>,
    ) -> Result<Self, Box<dyn Error>> {
        let socket = net.tcp()?;
        socket.set_nonblocking(true);
        Ok(Self {
            socket,
            peer,
            block: block(),
            size: options.bytes,
            sent: 0,
            shared: options.shared,
            connected: false,
            over: false,
            progress: Rc::clone(progress),
        })
    }

    fn advance(&mut self) {
        if !self.connected {
            match self.socket.connect(self.peer) {
                Ok(()) => self.connected = true,
                Err(ConnectError::WouldBlock) => return,
                Err(error) => return self.progress.fail("connect", &error),
            }
        }
        while self.sent < self.size {
            let at = (self.sent % BLOCK as u64) as usize;
            let left = usize::try_from(self.size - self.sent).unwrap_or(usize::MAX);
            let end = at + left.min(BLOCK - at);
            match send(&self.socket, &self.block, at..end, self.shared) {
                Ok(count) => self.sent += count as u64,
                Err(SendError::WouldBlock) => return,
                Err(error) => return self.progress.fail("send", &error),
            }
        }
        if !self.over {
            self.over = true;
            if let Err(error) = self.socket.shutdown(Shutdown::Write) {
                self.progress.fail("shutdown", &error);
            }
        }
    }
}

impl<S: Stack> Program for Sender<S> {
    fn start(&mut self) {
        self.advance();
    }

    fn event(&mut self, _: SocketId, _: Instant) {
        self.advance();
    }
}

/// Accepts one connection and reads it to its end.
pub struct Receiver<S: Stack> {
    listener: TcpSocket<S>,
    socket: Option<TcpSocket<S>>,
    block: Option<Shared>,
    size: u64,
    progress: Rc<Progress>,
}

impl<S: Stack> Receiver<S> {
    pub fn new(
        net: &Net<S>,
        at: SocketAddr,
        options: &Options,
        progress: &Rc<Progress>,
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            listener: listening(net, at, 1)?,
            socket: None,
            block: options.check.then(block),
            size: options.bytes,
            progress: Rc::clone(progress),
        })
    }

    fn read(&mut self, now: Instant) {
        let Some(socket) = &self.socket else {
            return;
        };
        let progress = &self.progress;
        if progress.ended.get().is_some() {
            return;
        }
        loop {
            let so_far = progress.done.get();
            let result = socket.recv_with(|bytes| {
                if let Some(block) = &self.block
                    && !repeats(block, so_far, bytes)
                {
                    progress.wrong(format!("what arrived after byte {so_far} was not sent"));
                }
                bytes.len()
            });
            match result {
                Ok(0) if so_far == self.size => return progress.ended.set(Some(now)),
                Ok(0) => return progress.wrong(format!("the end came after {so_far} bytes")),
                Ok(count) => progress.done.set(so_far + count as u64),
                Err(RecvError::WouldBlock) => return,
                Err(error) => return progress.fail("receive", &error),
            }
        }
    }
}

/// Returns whether `bytes` are those of the repeated block at the offset `at`.
fn repeats(block: &[u8], at: u64, mut bytes: &[u8]) -> bool {
    let mut place = (at % block.len() as u64) as usize;
    while !bytes.is_empty() {
        let size = bytes.len().min(block.len() - place);
        if bytes[..size] != block[place..place + size] {
            return false;
        }
        bytes = &bytes[size..];
        place = 0;
    }
    true
}

impl<S: Stack> Program for Receiver<S> {
    fn start(&mut self) {}

    fn event(&mut self, id: SocketId, now: Instant) {
        if id == self.listener.id() && self.socket.is_none() {
            match self.listener.accept() {
                Ok((socket, _)) => {
                    socket.set_nonblocking(true);
                    self.socket = Some(socket);
                }
                Err(AcceptError::WouldBlock) => {}
                Err(error) => self.progress.fail("accept", &error),
            }
        }
        self.read(now);
    }
}

fn listening<S: Stack>(
    net: &Net<S>,
    at: SocketAddr,
    backlog: usize,
) -> Result<TcpSocket<S>, Box<dyn Error>> {
    let listener = net.tcp()?;
    listener.set_nonblocking(true);
    listener.bind(at)?;
    listener.listen(backlog)?;
    Ok(listener)
}

/// A connection that receives messages of one size and sends messages of another.
struct Exchange<S: Stack> {
    socket: TcpSocket<S>,
    connected: bool,
    /// Received bytes of the current message.
    received: usize,
    /// Bytes to send; each message ends at the end of the page.
    owed: usize,
}

impl<S: Stack> Exchange<S> {
    fn new(socket: TcpSocket<S>, connected: bool, owed: usize) -> Self {
        socket.set_nonblocking(true);
        // Small messages, each with a response.
        let _ = socket.set_nodelay(true);
        Self {
            socket,
            connected,
            received: 0,
            owed,
        }
    }

    /// Reads available data; returns the number of complete messages.
    fn take(&mut self, piece: usize) -> Result<usize, RecvError> {
        let mut whole = 0;
        loop {
            match self.socket.recv_with(|bytes| bytes.len()) {
                Ok(0) => return Err(RecvError::NotConnected),
                Ok(count) => {
                    self.received += count;
                    whole += self.received / piece;
                    self.received %= piece;
                }
                Err(RecvError::WouldBlock) => return Ok(whole),
                Err(error) => return Err(error),
            }
        }
    }

    /// Sends pending bytes without blocking.
    fn give(&mut self, page: &Shared, shared: bool) -> Result<(), SendError> {
        while self.owed > 0 {
            let piece = match self.owed % page.len() {
                0 => page.len(),
                rest => rest,
            };
            match send(&self.socket, page, page.len() - piece..page.len(), shared) {
                Ok(count) => self.owed -= count,
                Err(SendError::WouldBlock) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// Responds to requests of a fixed size.
pub struct Server<S: Stack> {
    listener: TcpSocket<S>,
    open: Vec<Option<Exchange<S>>>,
    page: Shared,
    request: usize,
    shared: bool,
    progress: Rc<Progress>,
}

impl<S: Stack> Server<S> {
    pub fn new(
        net: &Net<S>,
        at: SocketAddr,
        options: &Options,
        progress: &Rc<Progress>,
    ) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            listener: listening(net, at, options.connections)?,
            open: Vec::new(),
            page: vec![b'x'; options.response].into(),
            request: options.request,
            shared: options.shared,
            progress: Rc::clone(progress),
        })
    }

    fn accept(&mut self) {
        while let Ok((socket, _)) = self.listener.accept() {
            let id = socket.id();
            let place = id.index as usize;
            if self.open.len() <= place {
                self.open.resize_with(place + 1, || None);
            }
            self.open[place] = Some(Exchange::new(socket, true, 0));
            self.serve(id);
        }
    }

    fn serve(&mut self, id: SocketId) {
        let Some(Some(exchange)) = self.open.get_mut(id.index as usize) else {
            return;
        };
        match exchange.take(self.request) {
            Ok(whole) => exchange.owed += whole * self.page.len(),
            Err(error) => return self.progress.fail("the server's receive", &error),
        }
        if let Err(error) = exchange.give(&self.page, self.shared) {
            self.progress.fail("the server's send", &error);
        }
    }
}

impl<S: Stack> Program for Server<S> {
    fn start(&mut self) {}

    fn event(&mut self, id: SocketId, _: Instant) {
        if id == self.listener.id() {
            self.accept();
        } else {
            self.serve(id);
        }
    }
}

/// Sends a request after each response.
pub struct Client<S: Stack> {
    open: Vec<Exchange<S>>,
    peer: SocketAddr,
    question: Shared,
    response: usize,
    /// Requests sent.
    asked: u64,
    requests: u64,
    progress: Rc<Progress>,
}

impl<S: Stack> Client<S> {
    pub fn new(
        net: &Net<S>,
        peer: SocketAddr,
        options: &Options,
        progress: &Rc<Progress>,
    ) -> Result<Self, Box<dyn Error>> {
        let mut open = Vec::new();
        for _ in 0..options.connections {
            open.push(Exchange::new(net.tcp()?, false, options.request));
        }
        Ok(Self {
            open,
            peer,
            question: vec![b'?'; options.request].into(),
            response: options.response,
            asked: options.connections as u64,
            requests: options.requests,
            progress: Rc::clone(progress),
        })
    }

    fn advance(&mut self, which: usize, now: Instant) {
        let exchange = &mut self.open[which];
        if !exchange.connected {
            match exchange.socket.connect(self.peer) {
                Ok(()) => exchange.connected = true,
                Err(ConnectError::WouldBlock) => return,
                Err(error) => return self.progress.fail("connect", &error),
            }
        }
        match exchange.take(self.response) {
            Ok(0) => {}
            Ok(whole) => {
                let done = self.progress.done.get() + whole as u64;
                self.progress.done.set(done);
                if done == self.requests {
                    self.progress.ended.set(Some(now));
                }
                if self.asked < self.requests {
                    self.asked += 1;
                    exchange.owed = self.question.len();
                }
            }
            Err(error) => return self.progress.fail("the client's receive", &error),
        }
        if let Err(error) = exchange.give(&self.question, false) {
            self.progress.fail("the client's send", &error);
        }
    }
}

impl<S: Stack> Program for Client<S> {
    fn start(&mut self) {
        for which in 0..self.open.len() {
            self.advance(which, Instant::ZERO);
        }
    }

    fn event(&mut self, id: SocketId, now: Instant) {
        let which = self.open.iter().position(|one| one.socket.id() == id);
        if let Some(which) = which {
            self.advance(which, now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_is_seen_wherever_it_is() {
        let block = [1, 2, 3];
        assert!(repeats(&block, 4, &[2, 3, 1, 2, 3, 1]));
        assert!(!repeats(&block, 4, &[2, 3, 1, 2, 4, 1]));
        assert!(!repeats(&block, 3, &[2, 3]));
        assert!(repeats(&block, 0, &[]));
    }
}
