// SPDX-License-Identifier: MIT OR Apache-2.0
//! The table of sockets and the state of each kind of socket.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::ops::{Deref, DerefMut};
use core::time::Duration;

use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::storage::PacketMetadata;
use swapstone_net::backend::{SocketTable, TcpOptions};
use swapstone_net::device::HardwareAddress;
use swapstone_net::{Instant, Readiness};

use crate::keys::Key;

/// A listening socket.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) local: SocketAddr,
    pub(crate) backlog: usize,
    /// Connections in SYN-RECEIVED.
    pub(crate) half_open: usize,
    /// The accept queue.
    pub(crate) ready: VecDeque<u32>,
}

/// The phase of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Active open: SYN-SENT.
    Connecting,
    /// Passive open by the listener in this slot: SYN-RECEIVED.
    Handshaking(u32),
    /// Established or closing. `Some` is the slot of the listener whose accept queue it is in.
    Open(Option<u32>),
    /// Closed. Received data can still be read.
    Over,
}

/// Why a connection failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    Refused,
    Reset,
    TimedOut,
    Unreachable,
}

/// A smoltcp TCP socket in a set of its own, so that smoltcp examines no other socket.
#[derive(Debug)]
pub(crate) struct TcpSet {
    pub(crate) set: SocketSet<'static>,
    handle: SocketHandle,
}

impl TcpSet {
    pub(crate) fn new(receive: usize, send: usize) -> Self {
        let buffer = |size| tcp::SocketBuffer::new(vec![0; size]);
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(tcp::Socket::new(buffer(receive), buffer(send)));
        Self { set, handle }
    }

    /// Resets the socket in place: it is about 1000 bytes long.
    fn renew(&mut self, options: TcpOptions) {
        let socket = self.tcp();
        socket.abort();
        socket.set_congestion_control(CONGESTION_CONTROL);
        socket.set_timeout(None);
        socket.set_nagle_enabled(!options.nodelay);
        socket.set_keep_alive(options.keep_alive.map(duration));
    }

    /// Clears the neighbor that the former connection waited for. Call it after `listen` or `connect`.
    ///
    /// smoltcp keeps that state beside the socket and clears it only if the socket is removed from
    /// its set. That is needed only if `poll_at` of `clock`, an interface without neighbors, is
    /// later than now.
    pub(crate) fn clear_neighbor(&mut self, clock: &mut Interface, now: smoltcp::time::Instant) {
        if clock.poll_at(now, &self.set).is_none_or(|at| at <= now) {
            return;
        }
        if let smoltcp::socket::Socket::Tcp(socket) = self.set.remove(self.handle) {
            self.handle = self.set.add(socket);
        }
    }

    /// Copies bytes to the send buffer; returns how many did fit.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        let (socket, mut written) = (self.tcp(), 0);
        while written < bytes.len() {
            // The free space of the ring buffer is one piece or two. (smoltcp's `send_slice` always
            // makes two copies, the second one often of 0 bytes.)
            let left = &bytes[written..];
            let taken = socket.send(|room| {
                let size = room.len().min(left.len());
                if size > 0 {
                    room[..size].copy_from_slice(&left[..size]);
                }
                (size, size)
            });
            match taken {
                Ok(size @ 1..) => written += size,
                _ => break,
            }
        }
        written
    }

    /// Calls `fill` with free space of the send buffer, at most `most` bytes. Returns how many bytes it
    /// wrote, or `None` if the buffer is full.
    pub(crate) fn fill(
        &mut self,
        most: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Option<usize> {
        let filled = self.tcp().send(|room| {
            let size = room.len().min(most);
            if size == 0 {
                return (0, None);
            }
            let filled = fill(&mut room[..size]);
            assert!(filled <= size, "more was written than there was room for");
            (filled, Some(filled))
        });
        filled.unwrap_or(None)
    }

    pub(crate) fn tcp(&mut self) -> &mut tcp::Socket<'static> {
        self.set.get_mut(self.handle)
    }

    pub(crate) fn get(&self) -> &tcp::Socket<'static> {
        self.set.get(self.handle)
    }
}

#[cfg(feature = "std")]
const CONGESTION_CONTROL: tcp::CongestionControl = tcp::CongestionControl::Cubic;
#[cfg(not(feature = "std"))]
const CONGESTION_CONTROL: tcp::CongestionControl = tcp::CongestionControl::Reno;

/// The maximum segment size of a peer that sends no MSS option (RFC 9293, 3.7.1).
pub(crate) const DEFAULT_SEGMENT: u16 = 536;

/// Converts a duration to smoltcp's type.
pub(crate) fn duration(duration: Duration) -> smoltcp::time::Duration {
    smoltcp::time::Duration::from_micros(u64::try_from(duration.as_micros()).unwrap_or(u64::MAX))
}

/// A connection.
#[derive(Debug)]
pub(crate) struct Conn {
    pub(crate) socket: TcpSet,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) key: Key,
    pub(crate) phase: Phase,
    /// The connection was established at some time.
    pub(crate) established: bool,
    /// `connect` has returned the result to the owner.
    pub(crate) reported: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    /// A RST is to be sent.
    pub(crate) aborting: bool,
    /// The owner has closed the socket.
    pub(crate) orphan: bool,
    /// The state of the smoltcp socket when it was last examined.
    pub(crate) state: tcp::State,
    pub(crate) options: TcpOptions,
    /// The key of the port that the socket is bound to.
    pub(crate) bound: Option<Key>,
    pub(crate) isn: u32,
    /// The maximum payload of a segment in bytes.
    pub(crate) segment: u16,
    /// SND.MAX: the sequence number after the last one sent.
    pub(crate) highest: u32,
    /// The last acknowledgement number and window field that were sent.
    pub(crate) acknowledged: (u32, u16),
    /// The last acknowledgement number and window field of the peer that smoltcp got.
    pub(crate) peer_ack: (u32, u16),
    /// The largest acknowledgement number of the peer (SND.UNA), and the window field with it.
    pub(crate) una: (u32, u16),
    /// RCV.NXT: the next sequence number expected from the peer.
    pub(crate) expected: u32,
    /// Segments have timestamps (RFC 7323).
    pub(crate) timestamps: bool,
    /// The time of the peer that is echoed (RFC 7323, section 4.3: TS.Recent).
    pub(crate) recent: u32,
    /// The sequence number of a FIN that arrived behind a hole.
    pub(crate) early_fin: Option<u32>,
    /// The link-layer address that the peer's segments come from, if it is on the link.
    pub(crate) link: Option<HardwareAddress>,
    /// When that address was entered in smoltcp's cache, and when the neighbor was solicited.
    pub(crate) learned_at: Option<Instant>,
    pub(crate) solicited_at: Option<Instant>,
    /// Keep-alive is enabled in smoltcp. As smoltcp sends the first probe at once, it is enabled when
    /// that probe is due.
    pub(crate) probing: bool,
    /// The earliest time of the next challenge ACK (RFC 5961, section 7).
    pub(crate) challenge_ack_at: Instant,
    /// The time when the connection fails unless the peer makes progress.
    pub(crate) fails_at: Option<Instant>,
    /// The time of the linger option when undelivered data causes a RST.
    pub(crate) linger_until: Option<Instant>,
    /// The time of the last segment of the peer.
    pub(crate) last_segment_at: Instant,
    /// The length of the send buffer when it was last examined, in bytes.
    pub(crate) undelivered: usize,
}

impl Conn {
    /// Allocates a connection and its buffers. [`Conn::renew`] sets its addresses.
    pub(crate) fn new(receive: usize, send: usize) -> Box<Self> {
        let nowhere = SocketAddr::from(([0; 4], 0));
        Box::new(Self {
            socket: TcpSet::new(receive, send),
            local: nowhere,
            remote: nowhere,
            key: Key::connection(nowhere, nowhere),
            phase: Phase::Over,
            established: false,
            reported: false,
            failure: None,
            shut_read: false,
            shut_write: false,
            aborting: false,
            orphan: false,
            state: tcp::State::Closed,
            options: TcpOptions::default(),
            bound: None,
            isn: 0,
            segment: DEFAULT_SEGMENT,
            highest: 0,
            acknowledged: (0, 0),
            peer_ack: (0, 0),
            una: (0, 0),
            expected: 0,
            timestamps: false,
            recent: 0,
            early_fin: None,
            link: None,
            learned_at: None,
            solicited_at: None,
            probing: false,
            challenge_ack_at: Instant::ZERO,
            fails_at: None,
            linger_until: None,
            last_segment_at: Instant::ZERO,
            undelivered: 0,
        })
    }

    /// Initializes a new connection in place, with the existing buffers.
    pub(crate) fn renew(
        &mut self,
        path: (SocketAddr, SocketAddr),
        phase: Phase,
        options: TcpOptions,
        now: Instant,
    ) {
        // Each field is assigned, because a struct literal would be built elsewhere and copied.
        let Self {
            socket,
            local,
            remote,
            key,
            phase: its_phase,
            established,
            reported,
            failure,
            shut_read,
            shut_write,
            aborting,
            orphan,
            state,
            options: its_options,
            bound,
            isn,
            segment,
            highest,
            acknowledged,
            peer_ack,
            una,
            expected,
            timestamps,
            recent,
            early_fin,
            link,
            learned_at,
            solicited_at,
            probing,
            challenge_ack_at,
            fails_at,
            linger_until,
            last_segment_at,
            undelivered,
        } = self;
        socket.renew(options);
        (*local, *remote) = path;
        *key = Key::connection(path.0, path.1);
        (*its_phase, *its_options) = (phase, options);
        (*established, *reported, *aborting, *orphan) = (false, false, false, false);
        (*shut_read, *shut_write) = (false, false);
        *failure = None;
        *state = tcp::State::Closed;
        *bound = None;
        (*isn, *highest, *expected) = (0, 0, 0);
        (*timestamps, *recent) = (false, 0);
        *segment = DEFAULT_SEGMENT;
        (*acknowledged, *peer_ack, *una) = ((0, 0), (0, 0), (0, 0));
        (*early_fin, *link) = (None, None);
        (*learned_at, *solicited_at) = (None, None);
        *probing = options.keep_alive.is_some();
        *challenge_ack_at = Instant::ZERO;
        (*fails_at, *linger_until) = (None, None);
        *last_segment_at = now;
        *undelivered = 0;
    }
}

/// A UDP socket.
#[derive(Debug)]
pub(crate) struct Udp {
    pub(crate) socket: UdpSet,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) bound: Option<Key>,
    pub(crate) peer: Option<SocketAddr>,
    /// Datagrams in the receive queue.
    pub(crate) received: usize,
    /// Datagrams in the send queue.
    pub(crate) unsent: usize,
    /// The time when the first datagram of the send queue is dropped.
    pub(crate) fails_at: Option<Instant>,
}

/// A smoltcp UDP socket in a set of its own.
#[derive(Debug)]
pub(crate) struct UdpSet {
    pub(crate) set: SocketSet<'static>,
    handle: SocketHandle,
}

impl UdpSet {
    /// Creates a socket with queues of `datagrams` datagrams of at most `size` bytes.
    pub(crate) fn new(datagrams: usize, size: usize) -> Self {
        // A datagram is contiguous, so the end of the ring may be too small for it: add one.
        let buffer = || {
            udp::PacketBuffer::new(
                vec![PacketMetadata::EMPTY; datagrams + 2],
                vec![0; (datagrams + 1) * size],
            )
        };
        let mut set = SocketSet::new(Vec::with_capacity(1));
        let handle = set.add(udp::Socket::new(buffer(), buffer()));
        Self { set, handle }
    }

    pub(crate) fn udp(&mut self) -> &mut udp::Socket<'static> {
        self.set.get_mut(self.handle)
    }

    /// Resets the socket.
    pub(crate) fn renew(&mut self) {
        if let smoltcp::socket::Socket::Udp(mut socket) = self.set.remove(self.handle) {
            socket.close();
            self.handle = self.set.add(socket);
        }
    }
}

/// The kind of a socket and its state. It is moved for each connection, so large state is boxed.
#[derive(Debug, Default)]
pub(crate) enum Kind {
    #[default]
    Free,
    /// A TCP socket that is neither listening nor connected.
    New {
        local: Option<SocketAddr>,
        bound: Option<Key>,
        options: TcpOptions,
    },
    Listener(Listener, Key),
    Conn(Box<Conn>),
    Udp(Box<Udp>),
}

// Larger values are moved by a call of memcpy.
const _: () = assert!(size_of::<Kind>() <= 128);

/// The value of a slot.
#[derive(Debug, Default)]
pub(crate) struct Slot {
    pub(crate) kind: Kind,
    /// The slot is in the queue of sockets that may have something to send.
    pub(crate) dirty: bool,
    /// The slot is in the list of sockets that wait for neighbor discovery.
    pub(crate) awaiting: bool,
    /// The readiness when the owner last called a method or received an event.
    pub(crate) seen: Readiness,
}

/// The table of sockets. It adds access by kind to [`SocketTable`].
#[derive(Debug, Default)]
pub(crate) struct Slots(SocketTable<Slot>);

impl Deref for Slots {
    type Target = SocketTable<Slot>;

    fn deref(&self) -> &SocketTable<Slot> {
        &self.0
    }
}

impl DerefMut for Slots {
    fn deref_mut(&mut self) -> &mut SocketTable<Slot> {
        &mut self.0
    }
}

impl Slots {
    /// Adds a socket without an owner and returns its index.
    pub(crate) fn add(&mut self, kind: Kind) -> u32 {
        let index = self.allocate();
        let slot = &mut self[index];
        slot.kind = kind;
        slot.seen = Readiness::NONE;
        index
    }

    /// Removes a socket. Its slot stays in the queues that it is in.
    pub(crate) fn remove(&mut self, index: u32) -> Kind {
        self.release(index);
        core::mem::take(&mut self[index].kind)
    }

    pub(crate) fn conn(&mut self, index: u32) -> Option<&mut Conn> {
        match &mut self[index].kind {
            Kind::Conn(conn) => Some(conn),
            _ => None,
        }
    }

    pub(crate) fn listener(&mut self, index: u32) -> Option<&mut Listener> {
        match &mut self[index].kind {
            Kind::Listener(listener, _) => Some(listener),
            _ => None,
        }
    }
}
