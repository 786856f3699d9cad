// SPDX-License-Identifier: MIT OR Apache-2.0
//! A TCP connection of the hand-made peer: sequence numbers only; the tests send the segments.

use std::time::Duration;

use swapstone_net::error::{AcceptError, ConnectError, RecvError};
use swapstone_net::{SocketId, TcpSocket};

use crate::watched::Watched;
use crate::wire::{ACK, FIN, PSH, SYN, Tcp};
use crate::world::World;

/// A socket of the stack under test.
pub type Socket = TcpSocket<Watched>;

/// The peer's side of a connection.
#[derive(Clone, Debug)]
pub struct Conn {
    /// The peer's port.
    pub port: u16,
    /// The port of the stack under test.
    pub subject: u16,
    /// SND.NXT of the peer.
    pub seq: u32,
    /// RCV.NXT of the peer.
    pub ack: u32,
    /// The window of the peer.
    pub window: u16,
}

/// The MSS option: 1000 bytes.
pub const MSS_1000: [u8; 4] = [2, 4, 0x03, 0xe8];

impl Conn {
    /// Creates a connection that is not established yet.
    pub fn new(port: u16, subject: u16) -> Self {
        Self {
            port,
            subject,
            seq: 1_000_000 + u32::from(port) * 7919,
            ack: 0,
            window: 0xffff,
        }
    }

    /// Returns a segment of the connection.
    pub fn segment(&self, flags: u8, payload: &[u8]) -> Tcp {
        Tcp {
            source: self.port,
            destination: self.subject,
            seq: self.seq,
            ack: self.ack,
            flags,
            window: self.window,
            options: Vec::new(),
            payload: payload.into(),
        }
    }

    /// Returns whether a segment of the stack under test belongs to the connection.
    pub fn owns(&self, tcp: &Tcp) -> bool {
        tcp.source == self.subject && tcp.destination == self.port
    }
}

impl World {
    /// Sends a segment and advances SND.NXT.
    pub fn send(&mut self, conn: &mut Conn, flags: u8, payload: &[u8]) {
        let segment = conn.segment(flags, payload);
        conn.seq = conn.seq.wrapping_add(segment.span());
        self.send_tcp(segment);
    }

    /// Sends a SYN.
    pub fn send_syn(&mut self, conn: &mut Conn) {
        let mut syn = conn.segment(SYN, b"");
        syn.options = MSS_1000.into();
        conn.seq = conn.seq.wrapping_add(1);
        self.send_tcp(syn);
    }

    /// Returns the next segment of a connection for which `like` is `true`.
    #[track_caller]
    pub fn expect_of(
        &mut self,
        conn: &Conn,
        what: &str,
        mut like: impl FnMut(&Tcp) -> bool,
    ) -> Tcp {
        self.expect_tcp(what, |tcp| conn.owns(tcp) && like(tcp))
    }

    /// Opens a listening socket of the stack under test.
    pub fn listen(&self, port: u16, backlog: usize) -> Socket {
        let socket = self.net.tcp().expect("there is room");
        socket.bind(self.at_subject(port)).expect("it is free");
        socket.listen(backlog).expect("there is room");
        socket.set_nonblocking(true);
        socket
    }

    /// Connects the peer to the stack under test.
    #[track_caller]
    pub fn connect(&mut self, listener: &Socket, port: u16) -> (Conn, Socket) {
        let subject = listener.local_addr().expect("it listens").port();
        let mut conn = Conn::new(port, subject);
        self.send_syn(&mut conn);
        self.finish_handshake(&mut conn);
        let (socket, peer) = self.accept(listener);
        assert_eq!(peer, self.at_peer(port));
        (conn, socket)
    }

    /// Waits for a SYN with ACK and acknowledges it.
    #[track_caller]
    pub fn finish_handshake(&mut self, conn: &mut Conn) {
        let answer = self.expect_of(conn, "a SYN with ACK", |tcp| tcp.has(SYN | ACK));
        assert_eq!(answer.ack, conn.seq, "it acknowledges the SYN");
        conn.ack = answer.seq.wrapping_add(1);
        self.send(conn, ACK, b"");
    }

    /// Accepts a connection.
    #[track_caller]
    pub fn accept(&mut self, listener: &Socket) -> (Socket, std::net::SocketAddr) {
        self.eventually("a connection to accept", || match listener.accept() {
            Ok((socket, peer)) => {
                socket.set_nonblocking(true);
                Some((socket, peer))
            }
            Err(AcceptError::WouldBlock) => None,
            Err(error) => panic!("accept: {error}"),
        })
    }

    /// Starts to connect the stack under test to the peer; returns the socket and the connection
    /// with its SYN.
    #[track_caller]
    pub fn begin_connect(&mut self, port: u16) -> (Socket, Tcp) {
        let socket = self.net.tcp().expect("there is room");
        socket.set_nonblocking(true);
        let begun = socket.connect(self.at_peer(port));
        assert_eq!(begun, Err(ConnectError::WouldBlock));
        let syn = self.expect_tcp("a SYN", |tcp| tcp.has(SYN) && tcp.destination == port);
        (socket, syn)
    }

    /// Connects the stack under test to the peer.
    #[track_caller]
    pub fn let_connect(&mut self, port: u16) -> (Conn, Socket) {
        let (socket, syn) = self.begin_connect(port);
        let mut conn = Conn::new(port, syn.source);
        conn.ack = syn.seq.wrapping_add(1);
        let mut answer = conn.segment(SYN | ACK, b"");
        answer.options = MSS_1000.into();
        conn.seq = conn.seq.wrapping_add(1);
        self.send_tcp(answer);
        self.expect_of(&conn, "an ACK", |tcp| tcp.has(ACK) && !tcp.has(SYN));
        assert_eq!(socket.connect(self.at_peer(port)), Ok(()));
        (conn, socket)
    }

    /// Receives this number of bytes from the stack under test and acknowledges each segment.
    #[track_caller]
    pub fn take(&mut self, conn: &mut Conn, count: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        while bytes.len() < count {
            let tcp = self.expect_of(conn, "data", |tcp| !tcp.payload.is_empty());
            if tcp.seq == conn.ack {
                bytes.extend(&tcp.payload);
                conn.ack = conn.ack.wrapping_add(tcp.span());
            }
            self.send(conn, ACK, b"");
        }
        bytes
    }

    /// Sends data to the stack under test and waits until it is acknowledged.
    #[track_caller]
    pub fn give(&mut self, conn: &mut Conn, bytes: &[u8]) {
        self.send(conn, ACK | PSH, bytes);
        let seq = conn.seq;
        self.expect_of(conn, "an acknowledgement", |tcp| {
            tcp.has(ACK) && tcp.ack == seq
        });
    }

    /// Closes both sides of a connection in order, the peer first. The socket is dropped.
    #[track_caller]
    pub fn close(&mut self, conn: &mut Conn, socket: Socket) {
        self.send(conn, ACK | FIN, b"");
        // The peer's FIN must arrive before the socket is dropped.
        let seq = conn.seq;
        self.expect_of(conn, "an ACK of the FIN", |tcp| tcp.ack == seq);
        drop(socket);
        let fin = self.expect_of(conn, "a FIN", |tcp| tcp.has(FIN));
        conn.ack = fin.seq.wrapping_add(fin.span());
        self.send(conn, ACK, b"");
        self.run(Duration::from_millis(10));
    }
}

/// Returns the result of a non-blocking call, `None` if it would block.
pub fn received(socket: &Socket) -> Option<Result<Vec<u8>, RecvError>> {
    let mut buffer = vec![0; 65536];
    match socket.recv(&mut buffer) {
        Ok(count) => Some(Ok(buffer[..count].into())),
        Err(RecvError::WouldBlock) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Reads a socket without blocking: the bytes, and the end or error after them.
pub fn drained(socket: &Socket) -> (Vec<u8>, Option<Result<(), RecvError>>) {
    let mut all = Vec::new();
    loop {
        match received(socket) {
            None => return (all, None),
            Some(Ok(bytes)) if bytes.is_empty() => return (all, Some(Ok(()))),
            Some(Ok(bytes)) => all.extend(bytes),
            Some(Err(error)) => return (all, Some(Err(error))),
        }
    }
}

/// Returns all pending events.
pub fn events(world: &World) -> Vec<(SocketId, swapstone_net::Readiness)> {
    let next = || world.net.with(swapstone_net::Stack::next_event);
    std::iter::from_fn(next).collect()
}
