//! A TCP connection of the hand-made peer: only numbers, every segment is the test's own.

use std::time::Duration;

use swapstone_net::error::{AcceptError, ConnectError, RecvError};
use swapstone_net::{SocketId, TcpSocket};

use crate::watched::Watched;
use crate::wire::{ACK, FIN, PSH, SYN, Tcp};
use crate::world::World;

/// Sockets of the stack under test.
pub type Socket = TcpSocket<Watched>;

/// The peer's side.
#[derive(Clone, Debug)]
pub struct Conn {
    /// The peer's port.
    pub port: u16,
    /// The subject's port.
    pub subject: u16,
    /// The next byte that the peer sends.
    pub seq: u32,
    /// The next byte that the peer wants.
    pub ack: u32,
    /// The window that the peer offers.
    pub window: u16,
}

/// An option: the largest segment is 1000 bytes.
pub const MSS_1000: [u8; 4] = [2, 4, 0x03, 0xe8];

impl Conn {
    /// A connection that is to be, from one port to another.
    pub fn new(port: u16, subject: u16) -> Self {
        Self {
            port,
            subject,
            seq: 1_000_000 + u32::from(port) * 7919,
            ack: 0,
            window: 0xffff,
        }
    }

    /// A segment of it.
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

    /// Whether a segment is one of the subject's for it.
    pub fn owns(&self, tcp: &Tcp) -> bool {
        tcp.source == self.subject && tcp.destination == self.port
    }
}

impl World {
    /// Send a segment of a connection; its next one follows on.
    pub fn send(&mut self, conn: &mut Conn, flags: u8, payload: &[u8]) {
        let segment = conn.segment(flags, payload);
        conn.seq = conn.seq.wrapping_add(segment.span());
        self.send_tcp(segment);
    }

    /// Send a SYN.
    pub fn send_syn(&mut self, conn: &mut Conn) {
        let mut syn = conn.segment(SYN, b"");
        syn.options = MSS_1000.into();
        conn.seq = conn.seq.wrapping_add(1);
        self.send_tcp(syn);
    }

    /// The next segment of a connection that is like this.
    #[track_caller]
    pub fn expect_of(
        &mut self,
        conn: &Conn,
        what: &str,
        mut like: impl FnMut(&Tcp) -> bool,
    ) -> Tcp {
        self.expect_tcp(what, |tcp| conn.owns(tcp) && like(tcp))
    }

    /// A listening socket of the subject.
    pub fn listen(&self, port: u16, backlog: usize) -> Socket {
        let socket = self.net.tcp().expect("there is room");
        socket.bind(self.at_subject(port)).expect("it is free");
        socket.listen(backlog).expect("there is room");
        socket.set_nonblocking(true);
        socket
    }

    /// Connect to the subject from a port of the peer's.
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

    /// Wait for the subject's SYN with ACK, and acknowledge it.
    #[track_caller]
    pub fn finish_handshake(&mut self, conn: &mut Conn) {
        let answer = self.expect_of(conn, "a SYN with ACK", |tcp| tcp.has(SYN | ACK));
        assert_eq!(answer.ack, conn.seq, "it acknowledges the SYN");
        conn.ack = answer.seq.wrapping_add(1);
        self.send(conn, ACK, b"");
    }

    /// Accept a connection, which comes soon.
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

    /// A socket of the subject that begins to connect to a port of the peer's, and its SYN.
    #[track_caller]
    pub fn begin_connect(&mut self, port: u16) -> (Socket, Tcp) {
        let socket = self.net.tcp().expect("there is room");
        socket.set_nonblocking(true);
        let begun = socket.connect(self.at_peer(port));
        assert_eq!(begun, Err(ConnectError::WouldBlock));
        let syn = self.expect_tcp("a SYN", |tcp| tcp.has(SYN) && tcp.destination == port);
        (socket, syn)
    }

    /// Let the subject connect to a port of the peer's.
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

    /// Receive exactly so many bytes from the subject, acknowledging each segment.
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

    /// Send data to the subject and wait until it is acknowledged.
    #[track_caller]
    pub fn give(&mut self, conn: &mut Conn, bytes: &[u8]) {
        self.send(conn, ACK | PSH, bytes);
        let seq = conn.seq;
        self.expect_of(conn, "an acknowledgement", |tcp| {
            tcp.has(ACK) && tcp.ack == seq
        });
    }

    /// Close both sides of a connection in order, the peer first; the socket is dropped.
    #[track_caller]
    pub fn close(&mut self, conn: &mut Conn, socket: Socket) {
        self.send(conn, ACK | FIN, b"");
        // Only when it has arrived is the peer the first.
        let seq = conn.seq;
        self.expect_of(conn, "an ACK of the FIN", |tcp| tcp.ack == seq);
        drop(socket);
        let fin = self.expect_of(conn, "a FIN", |tcp| tcp.has(FIN));
        conn.ack = fin.seq.wrapping_add(fin.span());
        self.send(conn, ACK, b"");
        self.run(Duration::from_millis(10));
    }
}

/// What a non-blocking socket gives now: `None` if it would block.
pub fn received(socket: &Socket) -> Option<Result<Vec<u8>, RecvError>> {
    let mut buffer = vec![0; 65536];
    match socket.recv(&mut buffer) {
        Ok(count) => Some(Ok(buffer[..count].into())),
        Err(RecvError::WouldBlock) => None,
        Err(error) => Some(Err(error)),
    }
}

/// Everything that a socket gives without waiting: the bytes, and the end or error after them.
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

/// All events that wait.
pub fn events(world: &World) -> Vec<(SocketId, swapstone_net::Readiness)> {
    let next = || world.net.with(swapstone_net::Stack::next_event);
    std::iter::from_fn(next).collect()
}
