//! The HTTP server.

use std::collections::VecDeque;
use std::error::Error;

use netstack::error::{RecvError, SendError};
use netstack::{Net, Readiness, Shared, SocketId, Stack, TcpSocket};

use crate::app::{App, Listener, Sockets};
use crate::http::{self, Parsed, Request, Target};
use crate::options::{Options, Receive, Send};
use crate::report::{Outcome, Span};

/// Answers that wait on one connection before no more requests are read from it.
const MOST_QUEUED: usize = 32;
/// Pieces that one sending call takes.
const PIECES: usize = 8;
/// Bytes that `/bytes/N` is made of, again and again.
const BLOCK: usize = 64 << 10;

/// A piece of an answer.
enum Piece {
    /// The rest of a whole answer.
    Page { bytes: Shared, at: usize },
    /// So many bytes.
    Filling { left: u64 },
}

struct Connection<S: Stack> {
    socket: TcpSocket<S>,
    memory: Memory,
    /// It is closed when the last answer is sent: somebody asked for that.
    ending: bool,
    /// The peer sends no more. What it asked for is still answered.
    ended: bool,
}

/// What a connection needs, used again by the next one.
#[derive(Default)]
struct Memory {
    /// The beginning of a request whose rest has not arrived, or requests that wait for room in the queue.
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
    outcome: Outcome,
    span: Span,
}

/// The server.
pub struct Server<S: Stack> {
    listener: Listener<S>,
    connections: Sockets<Connection<S>>,
    spare: Vec<Memory>,
    common: Common,
}

impl<S: Stack> Server<S> {
    pub fn new(net: &Net<S>, options: &Options) -> Result<Self, Box<dyn Error>> {
        let whole = |status: &str, body: usize, keep_alive: bool| -> Shared {
            let mut all = Vec::new();
            http::head(&mut all, status, body as u64, keep_alive);
            all.resize(all.len() + body, b'x');
            all.into()
        };
        Ok(Self {
            listener: Listener::new(net, options)?,
            connections: Sockets::new(),
            spare: Vec::new(),
            common: Common {
                keep: whole("200 OK", options.page, true),
                close: whole("200 OK", options.page, false),
                bad: whole("400 Bad Request", 0, false),
                block: vec![b'x'; BLOCK].into(),
                last_head: None,
                buffer: vec![0; 16 << 10],
                receive: options.receive,
                send: options.send,
                outcome: Outcome::default(),
                span: Span::default(),
            },
        })
    }

    fn accept(&mut self) {
        while let Some(socket) = self.listener.accept() {
            self.common.outcome.connections += 1;
            let connection = Connection {
                memory: self.spare.pop().unwrap_or_default(),
                ending: false,
                ended: false,
                socket,
            };
            let id = connection.socket.id();
            self.connections.put(id, connection);
            // A request may have come with it.
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

impl<S: Stack> App for Server<S> {
    fn event(&mut self, id: SocketId, _: Readiness) {
        self.common.span.note();
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
        let Outcome {
            requests,
            failed,
            connections,
            bytes_in,
            bytes_out,
            ..
        } = self.common.outcome;
        Outcome {
            requests,
            failed,
            connections,
            bytes_in,
            bytes_out,
            active_s: self.common.span.seconds(),
            first_failure: self.common.outcome.first_failure.clone(),
            ..Outcome::default()
        }
    }
}

impl<S: Stack> Connection<S> {
    /// Read, answer and send as far as it goes; `false` if the connection is over.
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
            // There is room again for what the queue was too full for.
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

    /// Read what there is, as long as there is room for answers; `true` if it stopped for lack of room, `None` if it is over.
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
                    let mut buffer = std::mem::take(&mut common.buffer);
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
                Ok(size) => common.outcome.bytes_in += size as u64,
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

    /// Send answers; `true` if all are sent.
    fn flush(&mut self, common: &mut Common) -> Result<bool, SendError> {
        while !self.memory.out.is_empty() {
            let sent = match common.send {
                Send::Shared => self.send_shared(&common.block),
                Send::Copy => self.send_copied(&common.block),
            };
            match sent {
                Ok(size) => {
                    common.outcome.bytes_out += size as u64;
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
                break; // the next piece must not come before the rest of this one
            }
        }
        self.socket.send_vectored(&parts[..used])
    }
}

impl Memory {
    /// Take requests in; returns how many bytes are used up: all, except those behind a full queue while nothing is carried.
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
        common.outcome.requests += 1;
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
    /// The head of an answer of so many bytes, which is usually the same as last time.
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

    fn fail(&mut self, why: &dyn std::fmt::Display) {
        self.outcome.failed += 1;
        self.outcome
            .first_failure
            .get_or_insert_with(|| why.to_string());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use netstack::error::ConnectError;
    use netstack_kernel::{Buffers, Kernel};
    use std::time::Duration;

    /// Ask a server over the kernel's sockets; return all that it answers until it closes.
    fn answers(options: Options, request: &[u8]) -> (String, Outcome) {
        let (kernel, platform) = Kernel::new(options.limits, Buffers::Kernels).unwrap();
        let net = Net::new(kernel, platform);
        let options = Options {
            listen: "127.0.0.1:0".parse().unwrap(),
            ..options
        };
        let mut server = Server::new(&net, &options).unwrap();
        let id = server.listener.id();
        let to = net.with(|kernel| kernel.tcp_local(id)).unwrap();
        let client = net.tcp().unwrap();
        client.set_nonblocking(true);
        assert_eq!(client.connect(to), Err(ConnectError::WouldBlock));
        let (mut sent, mut all) = (0, Vec::new());
        let end = net.now() + Duration::from_secs(10);
        loop {
            let (id, _) = net.next_event(Some(end)).expect("an answer in time");
            if id != client.id() {
                server.event(id, Readiness::NONE);
                continue;
            }
            let _ = client.connect(to);
            while sent < request.len() {
                let Ok(size) = client.send(&request[sent..]) else {
                    break;
                };
                sent += size;
                if sent == request.len() {
                    client.shutdown(netstack::Shutdown::Write).unwrap();
                }
            }
            let mut buffer = [0; 5000];
            loop {
                match client.recv(&mut buffer) {
                    Ok(0) => return (String::from_utf8(all).unwrap(), server.outcome()),
                    Ok(size) => all.extend_from_slice(&buffer[..size]),
                    Err(_) => break,
                }
            }
        }
    }

    fn every_way() -> impl Iterator<Item = Options> {
        [Receive::Copy, Receive::Borrow]
            .into_iter()
            .flat_map(|receive| {
                [Send::Copy, Send::Shared].map(|send| Options {
                    receive,
                    send,
                    ..Options::default()
                })
            })
    }

    #[test]
    fn a_page_of_340_bytes_and_a_close_if_that_is_asked_for() {
        for options in every_way() {
            let request = b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n"; // the second comes too late
            let (text, outcome) = answers(options, request);
            let (head, body) = text.split_once("\r\n\r\n").unwrap();
            assert_eq!(
                head,
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 340\r\nConnection: close"
            );
            assert_eq!(body, "x".repeat(340));
            assert_eq!((outcome.requests, outcome.failed), (1, 0));
        }
    }

    #[test]
    fn a_long_pipeline_is_answered_whole_and_in_order() {
        for options in every_way() {
            let mut request = Vec::new();
            for size in 0..5000 {
                request.extend_from_slice(format!("GET /bytes/{size} HTTP/1.1\r\n\r\n").as_bytes());
            }
            let (text, outcome) = answers(options, &request);
            let mut rest = text.as_str();
            for size in 0..5000 {
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {size}\r\nConnection: keep-alive\r\n\r\n"
                );
                assert!(rest.starts_with(&head), "{size}");
                rest = &rest[head.len() + size..];
            }
            assert_eq!(rest, "");
            assert_eq!((outcome.requests, outcome.failed), (5000, 0));
        }
    }

    #[test]
    fn an_answer_larger_than_any_buffer() {
        for options in every_way() {
            let (text, outcome) = answers(options, b"GET /bytes/3000000 HTTP/1.0\r\n\r\n");
            assert_eq!(text.split_once("\r\n\r\n").unwrap().1.len(), 3_000_000);
            assert_eq!(outcome.bytes_out, text.len() as u64);
        }
    }

    #[test]
    fn an_answer_behind_a_large_one_waits_for_its_end() {
        for options in every_way() {
            let request = b"GET /bytes/200000 HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n";
            let (text, _) = answers(options, request);
            let (_, rest) = text.split_once("\r\n\r\n").unwrap();
            let (large, rest) = rest.split_at(200_000);
            assert!(large.bytes().all(|byte| byte == b'x'));
            assert!(rest.starts_with("HTTP/1.1 200 OK\r\n"));
            assert!(rest.ends_with(&"x".repeat(340)));
        }
    }

    #[test]
    fn nonsense_is_refused_and_counted() {
        let (text, outcome) = answers(Options::default(), b"HELO\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"));
        assert_eq!((outcome.requests, outcome.failed), (0, 1));
    }
}
