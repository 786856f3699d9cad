// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contract between the sockets of this crate and a network stack: what a backend implements.
//!
//! [`Stack`] is the whole contract. Its two halves, [`TcpStack`] and [`UdpStack`], are traits of
//! their own so that a backend can keep each in its own file.

use alloc::rc::Rc;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::ops::{BitOr, BitOrAssign, Range};
use core::time::Duration;

use crate::error::{
    AcceptError, BindError, ConnectError, ListenError, OpenError, RecvError, SendError,
    SocketError, UdpRecvError, UdpSendError,
};
use crate::time::Instant;

/// An IP address and the length of its network prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Prefix length in bits: up to 32 for IPv4, up to 128 for IPv6.
    pub prefix: u8,
}

impl Cidr {
    /// Combines an address and a prefix length.
    ///
    /// # Panics
    ///
    /// If the prefix is longer than the address.
    pub const fn new(address: IpAddr, prefix: u8) -> Self {
        assert!(prefix <= if address.is_ipv4() { 32 } else { 128 });
        Self { address, prefix }
    }
}

/// Upper limits on what a stack holds. A backend that can't provide them returns an error when it
/// is created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// TCP sockets, including connections in the accept queue and closing ones.
    pub tcp_sockets: usize,
    /// UDP sockets.
    pub udp_sockets: usize,
    /// Receive buffer of a TCP socket in bytes: the largest receive window.
    pub receive_buffer: usize,
    /// Send buffer of a TCP socket in bytes: data is kept until the peer acknowledges it.
    pub send_buffer: usize,
    /// Datagrams in the receive queue of a UDP socket.
    pub datagrams: usize,
    /// Bytes for packets of all sockets together, where a stack has one pool for them.
    pub packet_memory: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            tcp_sockets: 1024,
            udp_sockets: 64,
            receive_buffer: 64 << 10,
            send_buffer: 64 << 10,
            datagrams: 32,
            packet_memory: 16 << 20,
        }
    }
}

/// The configuration of a stack.
#[derive(Clone, Debug)]
pub struct Config {
    /// Static addresses. The stack adds the IPv6 link-local address by itself.
    pub addresses: Vec<Cidr>,
    /// The default gateway for IPv4.
    pub gateway_v4: Option<Ipv4Addr>,
    /// The default gateway for IPv6, used if no router advertisement arrives.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Enables IPv6 stateless address autoconfiguration (SLAAC, RFC 4862).
    pub slaac: bool,
    /// The seed of ephemeral ports and initial sequence numbers. Use unpredictable bytes, or the
    /// same bytes to reproduce a run.
    pub seed: [u8; 32],
    /// Upper limits.
    pub limits: Limits,
}

impl Config {
    /// A configuration with these addresses, the default limits, no gateway and no SLAAC.
    ///
    /// `seed` is described at [`Config::seed`].
    pub fn new(addresses: &[Cidr], seed: [u8; 32]) -> Self {
        Self {
            addresses: addresses.into(),
            gateway_v4: None,
            gateway_v6: None,
            slaac: false,
            seed,
            limits: Limits::default(),
        }
    }
}

/// The features of a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The name of the stack: `lwip`, `smoltcp` or `kernel`.
    pub name: &'static str,
    /// The version of the stack.
    pub version: &'static str,
    /// Received data is shown in the device's buffer, without a copy in the stack.
    pub zero_copy_receive: bool,
    /// [`TcpStack::tcp_send_shared`] sends from the caller's memory.
    pub zero_copy_send: bool,
    /// [`TcpStack::tcp_send_with`] shows the send buffer itself.
    pub send_in_place: bool,
    /// The congestion control algorithm by its usual name, or `none`.
    pub congestion_control: &'static str,
    /// Selective acknowledgements (RFC 2018).
    pub selective_acknowledgements: bool,
    /// Several instances can exist in one process.
    pub many_instances: bool,
    /// Keep-alive probes (RFC 9293, 3.8.4).
    pub keep_alive: bool,
    /// IPv6.
    pub ipv6: bool,
    /// The stack passes TCP segments larger than the MTU to a device that supports segmentation
    /// offload ([`crate::device::DeviceLimits::segments`]).
    pub segmentation_offload: bool,
}

/// The identifier of a socket. A stack never reuses it for another socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    /// The index in the stack's socket table.
    pub index: u32,
    /// The generation: how often that index was used before.
    pub generation: u32,
}

/// The operations that a socket can do without blocking: a set of flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Readiness(u8);

impl Readiness {
    /// The empty set.
    pub const NONE: Self = Self(0);
    /// Data, end of data, an error or a connection to accept is pending.
    pub const READABLE: Self = Self(1);
    /// The send buffer has room, or a connection attempt has succeeded or failed.
    pub const WRITABLE: Self = Self(2);
    /// Both directions are closed, in order or by an error.
    pub const CLOSED: Self = Self(4);

    /// Returns whether all flags of `other` are set.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether no flag is set.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitOr for Readiness {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl BitOrAssign for Readiness {
    fn bitor_assign(&mut self, other: Self) {
        self.0 |= other.0;
    }
}

/// The direction of a connection to shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// Receiving: data that arrives later is discarded.
    Read,
    /// Sending: queued data is delivered, followed by a FIN.
    Write,
    /// Both directions.
    Both,
}

/// An option of a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// Disables Nagle's algorithm (RFC 896), so that small segments are sent at once. Initially
    /// off.
    NoDelay(bool),
    /// The idle time after which keep-alive probes are sent; `None` disables them. Initially
    /// `None`.
    KeepAlive(Option<Duration>),
    /// What closing does with unacknowledged data. `None` delivers it in the background (the
    /// initial value). Zero resets the connection. Any other time resets it if the data is not
    /// delivered within that time.
    Linger(Option<Duration>),
}

/// Immutable bytes of the caller that a stack may send without a copy.
pub type Shared = Rc<[u8]>;

/// Counters of a stack. A value that a stack can't count is 0; its documentation names these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames received from the device.
    pub frames_in: u64,
    /// Frames passed to the device.
    pub frames_out: u64,
    /// Bytes of the received frames.
    pub bytes_in: u64,
    /// Bytes of the sent frames.
    pub bytes_out: u64,
    /// Frames dropped because of a malformed header or a wrong checksum.
    pub malformed: u64,
    /// Frames dropped in either direction for lack of memory.
    pub no_room: u64,
    /// Retransmitted TCP segments.
    pub retransmitted: u64,
    /// TCP sockets, including closing ones.
    pub tcp_sockets: u64,
    /// TCP sockets that were closed by their owner and still deliver data.
    pub orphans: u64,
    /// UDP sockets.
    pub udp_sockets: u64,
}

/// The size of the temporary buffer of the default [`TcpStack::tcp_send_with`]: one full Ethernet
/// segment.
const PIECE: usize = 1460;

/// A network stack: TCP and UDP sockets over one device.
///
/// No method blocks or reads a clock. All work is done in [`Stack::poll`] or in the called method,
/// on the caller's thread. Operations on the id of a closed socket return `NotConnected`,
/// `NotListening` or `NotBound`.
///
/// An event-driven program calls [`Stack::next_event`] after each poll. [`crate::Net`] adds
/// blocking sockets.
pub trait Stack: TcpStack + UdpStack {
    /// Returns the features of this stack.
    fn capabilities(&self) -> Capabilities;

    /// Returns the configured limits.
    fn limits(&self) -> Limits;

    /// Returns the counters.
    fn statistics(&self) -> Statistics;

    /// Receives frames from the device, processes expired timers and sends what is due.
    ///
    /// One call receives at most one batch of frames. It returns `true` if more work may be
    /// pending. `now` never decreases from call to call.
    fn poll(&mut self, now: Instant) -> bool;

    /// Returns the latest time for the next poll if no frame arrives; `None` without a timer.
    fn deadline(&mut self, now: Instant) -> Option<Instant>;

    /// Returns the next socket whose state changed since it was last returned, with its readiness.
    ///
    /// A socket is at most once in the queue. The cost does not depend on the number of sockets.
    fn next_event(&mut self) -> Option<(SocketId, Readiness)>;

    /// Returns the current addresses, including link-local and SLAAC ones. Tentative addresses are
    /// left out.
    fn addresses(&self) -> Vec<Cidr>;

    /// Returns the readiness of a TCP or UDP socket.
    fn readiness(&self, id: SocketId) -> Readiness;
}

/// What the queues of a TCP socket hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpQueues {
    /// Received bytes that were not read.
    pub unread: usize,
    /// Bytes in the send buffer: those that the peer has not acknowledged, sent or not.
    pub unacknowledged: usize,
    /// No more data will arrive: the peer has sent a FIN, or the direction was shut down.
    pub ended: bool,
    /// Connections that wait to be accepted.
    pub waiting: usize,
}

/// The TCP sockets of a [`Stack`].
pub trait TcpStack {
    /// Opens a TCP socket.
    ///
    /// # Errors
    ///
    /// The limit of sockets is reached.
    fn tcp_open(&mut self) -> Result<SocketId, OpenError>;

    /// Binds a socket to a local address. Port 0 selects a free port. The unspecified address
    /// matches every local address.
    ///
    /// A port whose former connections are in TIME-WAIT is free.
    ///
    /// # Errors
    ///
    /// The port is in use, the address is not local, or the socket is already bound.
    fn tcp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError>;

    /// Starts to listen, with an accept queue of `backlog` connections (at least one).
    ///
    /// If the queue is full, a SYN is dropped without a RST, so that the peer retransmits it.
    /// [`Statistics::no_room`] counts these.
    ///
    /// # Errors
    ///
    /// The socket is not bound, it already listens or is connected, the port is in use, or the
    /// backlog is larger than the stack's limit.
    fn tcp_listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError>;

    /// Takes the first connection from the accept queue and returns it with the peer's address.
    ///
    /// # Errors
    ///
    /// The queue is empty, or the socket does not listen.
    fn tcp_accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError>;

    /// Connects, or returns the result of a pending connect.
    ///
    /// The first call sends a SYN and returns `WouldBlock`. Further calls return `WouldBlock` until
    /// the connection is established or has failed.
    ///
    /// # Errors
    ///
    /// The connect is pending or has failed. The documentation of a stack states its connect
    /// timeout.
    fn tcp_connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError>;

    /// Copies as many bytes of the consecutive `parts` as fit into the send buffer, and returns
    /// their number.
    ///
    /// # Errors
    ///
    /// The send buffer is full (and `parts` is not empty), or the connection can't send.
    fn tcp_send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError>;

    /// As [`TcpStack::tcp_send`], from immutable memory. A stack with
    /// [`Capabilities::zero_copy_send`] sends it without a copy.
    ///
    /// # Errors
    ///
    /// See [`TcpStack::tcp_send`].
    ///
    /// # Panics
    ///
    /// If the range is out of bounds.
    fn tcp_send_shared(
        &mut self,
        id: SocketId,
        bytes: &Shared,
        range: Range<usize>,
    ) -> Result<usize, SendError> {
        self.tcp_send(id, &[&bytes[range]])
    }

    /// Calls `fill` with a buffer of at most `most` bytes and sends the bytes that it wrote.
    ///
    /// `fill` returns how many bytes it wrote at the start of the buffer. The result is how many of
    /// them were queued; the caller has to write the rest again.
    ///
    /// A stack with [`Capabilities::send_in_place`] passes a contiguous part of its send buffer.
    /// Others pass a temporary buffer, and may return an error after `fill` was called. `fill` is
    /// not called if `most` is 0 or if the connection is known to be unable to send.
    ///
    /// # Errors
    ///
    /// See [`TcpStack::tcp_send`].
    ///
    /// # Panics
    ///
    /// If `fill` returns more than the length of the buffer.
    fn tcp_send_with(
        &mut self,
        id: SocketId,
        most: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<usize, SendError> {
        let mut piece = [0; PIECE];
        self.tcp_send(id, &[])?;
        if most == 0 {
            return Ok(0);
        }
        let room = &mut piece[..most.min(PIECE)];
        let filled = fill(room);
        self.tcp_send(id, &[&room[..filled]])
    }

    /// Calls `look` with a contiguous piece of the received data, and removes as many bytes from
    /// the receive buffer as `look` returns. Returns that number.
    ///
    /// At the end of data `look` is called with an empty slice, and 0 is returned. After an error
    /// it is not called. Data that arrived before a FIN or RST is delivered first.
    ///
    /// # Errors
    ///
    /// No data has arrived, or the connection has failed.
    ///
    /// # Panics
    ///
    /// If `look` returns more than the length of the slice.
    fn tcp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError>;

    /// Shuts down one or both directions.
    ///
    /// # Errors
    ///
    /// The socket is not connected.
    fn tcp_shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError>;

    /// Sets an option.
    ///
    /// # Errors
    ///
    /// The stack does not support it.
    fn tcp_set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError>;

    /// Returns the local address; `None` before the socket is bound.
    fn tcp_local(&self, id: SocketId) -> Option<SocketAddr>;

    /// Returns the peer's address; `None` if the socket was never connected.
    fn tcp_peer(&self, id: SocketId) -> Option<SocketAddr>;

    /// Returns what the queues of a socket hold; `None` if there is no such socket, or if the stack
    /// does not report it.
    fn tcp_queues(&self, id: SocketId) -> Option<TcpQueues> {
        let _ = id;
        None
    }

    /// Closes a socket.
    ///
    /// Queued data is still delivered, unless [`TcpOption::Linger`] is set. A listening socket
    /// resets the connections in its accept queue. If received bytes were not read, the connection
    /// is reset (RFC 1122, 4.2.2.13).
    fn tcp_close(&mut self, id: SocketId);
}

/// The UDP sockets of a [`Stack`].
pub trait UdpStack {
    /// Opens a UDP socket.
    ///
    /// # Errors
    ///
    /// The limit of sockets is reached.
    fn udp_open(&mut self) -> Result<SocketId, OpenError>;

    /// Binds a socket to a local address, as [`TcpStack::tcp_bind`] does.
    ///
    /// # Errors
    ///
    /// See [`TcpStack::tcp_bind`].
    fn udp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError>;

    /// Sets the only peer to send to and receive from; `None` removes it. An unbound socket is
    /// bound to a free port.
    ///
    /// # Errors
    ///
    /// No port is free.
    fn udp_connect(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError>;

    /// Sends one datagram made of `parts` to `peer`, or to the connected peer. An unbound socket is
    /// bound to a free port.
    ///
    /// # Errors
    ///
    /// The datagram is too large, there is no peer, the send queue is full, or the host is
    /// unreachable.
    fn udp_send(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError>;

    /// Calls `look` with the first datagram of the receive queue and its sender. The datagram is
    /// removed if `look` returns `true`.
    ///
    /// # Errors
    ///
    /// The queue is empty, or the socket is not bound.
    fn udp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError>;

    /// Returns the local address; `None` before the socket is bound.
    fn udp_local(&self, id: SocketId) -> Option<SocketAddr>;

    /// Returns the connected peer.
    fn udp_peer(&self, id: SocketId) -> Option<SocketAddr>;

    /// Closes a socket and discards its receive queue.
    fn udp_close(&mut self, id: SocketId);
}
