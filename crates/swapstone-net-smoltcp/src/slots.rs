//! The table of sockets, and what is known of each.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::time::Duration;

use smoltcp::iface::{Interface, SocketHandle, SocketSet};
use smoltcp::socket::{tcp, udp};
use smoltcp::storage::PacketMetadata;
use swapstone_net::{Instant, Readiness, SocketId};

use crate::keys::Key;

/// Settings of a TCP socket, kept before there is a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options {
    pub(crate) nodelay: bool,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) linger: Option<Duration>,
}

/// A socket that listens.
#[derive(Debug)]
pub(crate) struct Listener {
    pub(crate) local: SocketAddr,
    pub(crate) backlog: usize,
    /// Connections that are being made.
    pub(crate) half_open: usize,
    /// Connections that wait to be accepted.
    pub(crate) ready: VecDeque<u32>,
}

/// How far a connection is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// We asked for it.
    Connecting,
    /// A peer asked for it, of the listener in this slot.
    Handshaking(u32),
    /// It is there; it waits to be accepted by the listener in this slot, or has an owner, or had one.
    Open(Option<u32>),
    /// It is over, and smoltcp does nothing for it any more; what has arrived can still be read.
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

/// A TCP socket of smoltcp's, alone in its set, so that smoltcp looks at no other when it looks for this one.
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

    /// Make it ready to listen or to connect, where it is: it is a thousand bytes long.
    fn renew(&mut self, options: Options) {
        let socket = self.tcp();
        socket.abort();
        socket.set_congestion_control(CONGESTION_CONTROL);
        socket.set_timeout(None);
        socket.set_nagle_enabled(!options.nodelay);
        socket.set_keep_alive(options.keep_alive.map(duration));
    }

    /// Forget the neighbour that the last connection waited for, once this one listens or connects.
    ///
    /// What smoltcp remembers of it lies beside the socket and goes only when that is taken out. So that this is rare, `clock`, which
    /// knows no neighbour, is asked: such a socket listens and connects later, any other one at once or never.
    pub(crate) fn await_nobody(&mut self, clock: &mut Interface, now: smoltcp::time::Instant) {
        if clock.poll_at(now, &self.set).is_none_or(|at| at <= now) {
            return;
        }
        if let smoltcp::socket::Socket::Tcp(socket) = self.set.remove(self.handle) {
            self.handle = self.set.add(socket);
        }
    }

    /// Put bytes into the send buffer; returns how many there was room for.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> usize {
        let (socket, mut written) = (self.tcp(), 0);
        while written < bytes.len() {
            // Room is in one piece or two. (smoltcp's `send_slice` copies twice each time, nothing if one was enough.)
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

    /// Show room in the send buffer, at most so much; returns how many bytes were written there, or None if it is full.
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

    pub(crate) fn look(&self) -> &tcp::Socket<'static> {
        self.set.get(self.handle)
    }
}

#[cfg(feature = "std")]
const CONGESTION_CONTROL: tcp::CongestionControl = tcp::CongestionControl::Cubic;
#[cfg(not(feature = "std"))]
const CONGESTION_CONTROL: tcp::CongestionControl = tcp::CongestionControl::Reno;

/// What a peer takes that doesn't say (RFC 9293, 3.7.1).
pub(crate) const DEFAULT_SEGMENT: u16 = 536;

/// As smoltcp counts time.
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
    /// Whether it was ever there.
    pub(crate) came_about: bool,
    /// Whether its owner knows that.
    pub(crate) told: bool,
    pub(crate) failure: Option<Failure>,
    pub(crate) shut_read: bool,
    pub(crate) shut_write: bool,
    /// A reset is on its way.
    pub(crate) aborting: bool,
    /// Its owner is gone.
    pub(crate) orphan: bool,
    /// The state that smoltcp had it in when that was last looked at.
    pub(crate) state: tcp::State,
    pub(crate) options: Options,
    /// The port that is bound for it.
    pub(crate) bound: Option<Key>,
    pub(crate) isn: u32,
    /// The largest payload of its segments, in bytes.
    pub(crate) segment: u16,
    /// One after the highest sequence number that was sent.
    pub(crate) highest: u32,
    /// What was acknowledged last, and the window that was told then, as in the header.
    pub(crate) acknowledged: (u32, u16),
    /// The next sequence number of the peer's that has not come.
    pub(crate) expected: u32,
    /// Whether smoltcp sends keep-alive probes. It would send the first one at once: it is told when that is due.
    pub(crate) probing: bool,
    /// When a wrong reset may be questioned again.
    pub(crate) question_at: Instant,
    /// When it is given up if nothing changes.
    pub(crate) give_up: Option<Instant>,
    /// When it is reset if not all is delivered.
    pub(crate) linger_until: Option<Instant>,
    /// When its peer was last heard.
    pub(crate) heard: Instant,
    /// What was still to be delivered when that was last looked at, in bytes.
    pub(crate) undelivered: usize,
}

impl Conn {
    /// A connection to nobody, with its buffers: [`Conn::renew`] makes it one to somebody.
    pub(crate) fn new(receive: usize, send: usize) -> Box<Self> {
        let nowhere = SocketAddr::from(([0; 4], 0));
        Box::new(Self {
            socket: TcpSet::new(receive, send),
            local: nowhere,
            remote: nowhere,
            key: Key::connection(nowhere, nowhere),
            phase: Phase::Over,
            came_about: false,
            told: false,
            failure: None,
            shut_read: false,
            shut_write: false,
            aborting: false,
            orphan: false,
            state: tcp::State::Closed,
            options: Options::default(),
            bound: None,
            isn: 0,
            segment: DEFAULT_SEGMENT,
            highest: 0,
            acknowledged: (0, 0),
            expected: 0,
            probing: false,
            question_at: Instant::ZERO,
            give_up: None,
            linger_until: None,
            heard: Instant::ZERO,
            undelivered: 0,
        })
    }

    /// Make it a new connection, where it is and with the buffers that it has.
    pub(crate) fn renew(
        &mut self,
        path: (SocketAddr, SocketAddr),
        phase: Phase,
        options: Options,
        now: Instant,
    ) {
        // Field by field, and each is named: written as one value it would be made elsewhere and copied.
        let Self {
            socket,
            local,
            remote,
            key,
            phase: its_phase,
            came_about,
            told,
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
            expected,
            probing,
            question_at,
            give_up,
            linger_until,
            heard,
            undelivered,
        } = self;
        socket.renew(options);
        (*local, *remote) = path;
        *key = Key::connection(path.0, path.1);
        (*its_phase, *its_options) = (phase, options);
        (*came_about, *told, *aborting, *orphan) = (false, false, false, false);
        (*shut_read, *shut_write) = (false, false);
        *failure = None;
        *state = tcp::State::Closed;
        *bound = None;
        (*isn, *highest, *expected) = (0, 0, 0);
        *segment = DEFAULT_SEGMENT;
        *acknowledged = (0, 0);
        *probing = options.keep_alive.is_some();
        *question_at = Instant::ZERO;
        (*give_up, *linger_until) = (None, None);
        *heard = now;
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
    /// Datagrams that wait to be read.
    pub(crate) received: usize,
    /// Datagrams that wait to be sent.
    pub(crate) unsent: usize,
    /// When the one that waits to be sent is given up.
    pub(crate) give_up: Option<Instant>,
}

/// A UDP socket of smoltcp's, alone in its set.
#[derive(Debug)]
pub(crate) struct UdpSet {
    pub(crate) set: SocketSet<'static>,
    handle: SocketHandle,
}

impl UdpSet {
    /// Hold so many datagrams each way, of at most `size` bytes.
    pub(crate) fn new(datagrams: usize, size: usize) -> Self {
        // One more of each, because a datagram lies in one piece: the end of the ring may be too small for it.
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

    /// Make it as good as new.
    pub(crate) fn renew(&mut self) {
        if let smoltcp::socket::Socket::Udp(mut socket) = self.set.remove(self.handle) {
            socket.close();
            self.handle = self.set.add(socket);
        }
    }
}

/// What is in a place of the table. It is moved for each connection, so what is large lies elsewhere.
#[derive(Debug)]
pub(crate) enum Kind {
    Free,
    /// A TCP socket that does nothing yet.
    New {
        local: Option<SocketAddr>,
        bound: Option<Key>,
        options: Options,
    },
    Listener(Listener, Key),
    Conn(Box<Conn>),
    Udp(Box<Udp>),
}

// What is larger is no longer moved by plain instructions, but by a call.
const _: () = assert!(size_of::<Kind>() <= 128);

/// A place in the table.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) kind: Kind,
    pub(crate) generation: u32,
    /// Whether somebody knows its id.
    pub(crate) owned: bool,
    /// Whether it is in the queue of events.
    pub(crate) queued: bool,
    /// Whether it is in the queue of sockets that may have something to send.
    pub(crate) dirty: bool,
    /// Whether it waits for a neighbour to be found.
    pub(crate) awaiting: bool,
    /// What it was ready for when that was last looked at.
    pub(crate) seen: Readiness,
}

/// The table of sockets.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Slots {
    /// Put something in; returns its place.
    pub(crate) fn add(&mut self, kind: Kind, owned: bool) -> u32 {
        if let Some(index) = self.free.pop() {
            let slot = &mut self.slots[index as usize];
            slot.kind = kind;
            slot.owned = owned;
            slot.seen = Readiness::NONE;
            return index;
        }
        self.slots.push(Slot {
            kind,
            generation: 0,
            owned,
            queued: false,
            dirty: false,
            awaiting: false,
            seen: Readiness::NONE,
        });
        // So that removing allocates nothing.
        self.free.reserve(self.slots.len());
        self.slots.len() as u32 - 1
    }

    /// Take out what is in a place; nobody's id leads there any more.
    pub(crate) fn remove(&mut self, index: u32) -> Kind {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.owned = false;
        self.free.push(index);
        core::mem::replace(&mut slot.kind, Kind::Free)
    }

    /// Nobody's id leads to it any more, but it goes on.
    pub(crate) fn disown(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        slot.generation = slot.generation.wrapping_add(1);
        slot.owned = false;
    }

    pub(crate) fn at(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    pub(crate) fn look(&self, index: u32) -> &Slot {
        &self.slots[index as usize]
    }

    pub(crate) fn len(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Where an id leads.
    pub(crate) fn find(&self, id: SocketId) -> Option<&Slot> {
        let slot = self.slots.get(id.index as usize)?;
        (slot.generation == id.generation && slot.owned).then_some(slot)
    }

    /// Where an id leads.
    pub(crate) fn find_mut(&mut self, id: SocketId) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(id.index as usize)?;
        (slot.generation == id.generation && slot.owned).then_some(slot)
    }

    pub(crate) fn id(&self, index: u32) -> SocketId {
        SocketId {
            index,
            generation: self.slots[index as usize].generation,
        }
    }

    pub(crate) fn conn(&mut self, index: u32) -> Option<&mut Conn> {
        match &mut self.slots.get_mut(index as usize)?.kind {
            Kind::Conn(conn) => Some(conn),
            _ => None,
        }
    }

    pub(crate) fn listener(&mut self, index: u32) -> Option<&mut Listener> {
        match &mut self.slots.get_mut(index as usize)?.kind {
            Kind::Listener(listener, _) => Some(listener),
            _ => None,
        }
    }
}
