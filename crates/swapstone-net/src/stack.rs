//! The contract between the sockets of this crate and a stack: what a backend implements.

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

/// An address and how many of its first bits name its network.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    /// The address.
    pub address: IpAddr,
    /// Bits of the network's part: up to 32 or 128.
    pub prefix: u8,
}

impl Cidr {
    /// Join both.
    ///
    /// # Panics
    ///
    /// If the prefix is longer than the address.
    pub const fn new(address: IpAddr, prefix: u8) -> Self {
        assert!(prefix <= if address.is_ipv4() { 32 } else { 128 });
        Self { address, prefix }
    }
}

/// How much a stack may hold at once. A backend that can't hold so much says so when it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// TCP sockets, with those that wait to be accepted and those that still close.
    pub tcp_sockets: usize,
    /// UDP sockets.
    pub udp_sockets: usize,
    /// Bytes that a TCP socket receives before its owner reads them: the largest window.
    pub receive_buffer: usize,
    /// Bytes that a TCP socket holds until its peer has acknowledged them.
    pub send_buffer: usize,
    /// Datagrams that a UDP socket holds.
    pub datagrams: usize,
    /// Bytes for packets, all in all, where a stack has one store of them.
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

/// What a stack is told when it is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its own addresses, besides the link-local one of IPv6, which it makes itself.
    pub addresses: Vec<Cidr>,
    /// Where IPv4 packets to other networks go.
    pub gateway_v4: Option<Ipv4Addr>,
    /// Where IPv6 packets to other networks go, if no router advertises itself.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Whether it takes IPv6 addresses and routers from advertisements (SLAAC, RFC 4862).
    pub slaac: bool,
    /// What ports and initial sequence numbers are drawn from: unpredictable bytes, or the same ones for the same run again.
    pub seed: [u8; 32],
    /// How much it may hold.
    pub limits: Limits,
}

impl Config {
    /// A configuration with these addresses and nothing else; `seed` as in [`Config::seed`].
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

/// What a stack can do, and what it lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Its name: `lwip`, `smoltcp`, `kernel`.
    pub name: &'static str,
    /// Its own version.
    pub version: &'static str,
    /// Whether received data can be looked at where the device put it, without any copy inside the stack.
    pub zero_copy_receive: bool,
    /// Whether [`Stack::tcp_send_shared`] sends from the caller's memory.
    pub zero_copy_send: bool,
    /// Whether [`Stack::tcp_send_with`] shows the very memory from which it is sent, and sent again.
    pub send_in_place: bool,
    /// Congestion control, by its usual name; `none` if there is none.
    pub congestion_control: &'static str,
    /// Selective acknowledgements (RFC 2018).
    pub selective_acknowledgements: bool,
    /// Whether several stacks can exist in one process.
    pub many_instances: bool,
    /// Keep-alive probes.
    pub keep_alive: bool,
    /// IPv6.
    pub ipv6: bool,
    /// Whether it leaves TCP segments larger than the MTU to a device that cuts them up ([`crate::device::DeviceLimits::segments`]).
    pub segmentation_offload: bool,
}

/// One socket of a stack. It is never used again for another socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SocketId {
    /// The place in the stack's table.
    pub index: u32,
    /// Which user of that place.
    pub generation: u32,
}

/// What can be done with a socket without waiting: a set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Readiness(u8);

impl Readiness {
    /// Nothing.
    pub const NONE: Self = Self(0);
    /// There is data, an end of it, an error, or a connection to accept.
    pub const READABLE: Self = Self(1);
    /// There is room to send, or a connection has come about or failed.
    pub const WRITABLE: Self = Self(2);
    /// Both directions have ended, in order or by an error.
    pub const CLOSED: Self = Self(4);

    /// Whether all of `other` is in it.
    pub const fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether it is empty.
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

/// Which half of a connection ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Shutdown {
    /// What arrives from now on is thrown away.
    Read,
    /// All that was sent is delivered, then the peer reads an end.
    Write,
    /// Both.
    Both,
}

/// Settings of a TCP socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// Send small pieces at once (Nagle's algorithm off). Off at first.
    NoDelay(bool),
    /// Ask a silent peer after so long whether it is still there. Never at first.
    KeepAlive(Option<Duration>),
    /// What closing does with bytes that the peer has not yet: `None`, they are delivered by and by (at first); zero, the connection is
    /// reset; otherwise it is reset when they are not delivered in this time.
    Linger(Option<Duration>),
}

/// Bytes of the caller that a stack may send from where they are: they don't change any more.
pub type Shared = Rc<[u8]>;

/// What a stack has done so far. What it can't count is 0, and its documentation says so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Frames taken from the device.
    pub frames_in: u64,
    /// Frames given to the device.
    pub frames_out: u64,
    /// Bytes in those frames.
    pub bytes_in: u64,
    /// Bytes in those frames.
    pub bytes_out: u64,
    /// Frames that were dropped because they are malformed or their checksum is wrong.
    pub malformed: u64,
    /// Frames that were dropped, in or out, for lack of room.
    pub no_room: u64,
    /// TCP segments that were sent again.
    pub retransmitted: u64,
    /// TCP sockets that exist, closing ones among them.
    pub tcp_sockets: u64,
    /// Of those, the ones whose owner is gone.
    pub orphans: u64,
    /// UDP sockets that exist.
    pub udp_sockets: u64,
}

/// Room on our own stack for what a caller writes, where the network stack shows none of its memory: a full segment of Ethernet.
const PIECE: usize = 1460;

/// A network stack: sockets of TCP and UDP over one device.
///
/// Nothing blocks and nothing asks a clock. All work is done inside [`Stack::poll`] or the call that asks for it, on the caller's thread.
/// An id of a socket that was closed is an error of the caller: operations on it answer `NotConnected`, `NotListening` or `NotBound`.
///
/// An event style takes [`Stack::next_event`]s after each poll; a polling style just tries; [`crate::Net`] adds blocking.
pub trait Stack {
    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// How much it holds at most.
    fn limits(&self) -> Limits;

    /// What it has done so far.
    fn statistics(&self) -> Statistics;

    /// Take frames from the device, let timers expire, and send what there is to send.
    ///
    /// At most a batch of frames is taken, so that one poll ends under any load: `true` says that there may be more at once.
    /// `now` never goes back.
    fn poll(&mut self, now: Instant) -> bool;

    /// When to poll at the latest, even if no frame arrives; `None` if nothing is due.
    fn deadline(&mut self, now: Instant) -> Option<Instant>;

    /// A socket that something has changed for since it was last named here, and what it is ready for now.
    ///
    /// Each socket is in the queue at most once; the cost does not grow with the number of sockets.
    fn next_event(&mut self) -> Option<(SocketId, Readiness)>;

    /// The addresses that it has now, SLAAC's and link-local ones among them (tentative ones are not).
    fn addresses(&self) -> Vec<Cidr>;

    /// Open a TCP socket.
    ///
    /// # Errors
    ///
    /// There are as many as there can be.
    fn tcp_open(&mut self) -> Result<SocketId, OpenError>;

    /// Give it a local address; port 0 chooses a free one. The unspecified address stands for all.
    ///
    /// # Errors
    ///
    /// The port is taken, the address not ours, or the socket is not new. A port whose former connections are in TIME_WAIT is free.
    fn tcp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError>;

    /// Wait for connections: up to `backlog` of them are completed before they are accepted (at least one).
    ///
    /// A connection that there is no room for is not refused: its SYN is dropped, which [`Statistics::no_room`] counts, and the peer
    /// tries again.
    ///
    /// # Errors
    ///
    /// The socket has no port, is not new, the port is taken, or more are to wait than there can be.
    fn tcp_listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError>;

    /// Take the connection that has waited longest, and its peer's address.
    ///
    /// # Errors
    ///
    /// None waits, or the socket does not listen.
    fn tcp_accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError>;

    /// Connect, or ask what came of it: the first call begins and says `WouldBlock`; later ones do too until there is an outcome.
    ///
    /// # Errors
    ///
    /// It is under way or has failed, and why. An unanswered attempt ends after the stack's own limit, which its documentation gives.
    fn tcp_connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError>;

    /// Take as many bytes of `parts`, one after another, as there is room for; return how many.
    ///
    /// # Errors
    ///
    /// There is room for none (and there was something to send), or it can't be sent any more.
    fn tcp_send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError>;

    /// As [`Stack::tcp_send`], from memory that stays as it is: a stack that can sends it without a copy.
    ///
    /// # Errors
    ///
    /// As of `tcp_send`.
    ///
    /// # Panics
    ///
    /// If the range is not inside the bytes.
    fn tcp_send_shared(
        &mut self,
        id: SocketId,
        bytes: &Shared,
        range: Range<usize>,
    ) -> Result<usize, SendError> {
        self.tcp_send(id, &[&bytes[range]])
    }

    /// Have `fill` write what is sent: it gets room for at most `most` bytes, as much as lies in one piece, and returns to how many of its
    /// first bytes it wrote. Return how many of those were taken; what was not has to be written again.
    ///
    /// A stack whose [`Capabilities::send_in_place`] is set shows its send buffer, so that a caller that makes its data needs no memory of
    /// its own for them, and no copy. Others show memory of their own, and may find only then that nothing can be sent. `fill` is not
    /// called for 0 bytes, nor where it is known before that nothing can be sent.
    ///
    /// # Errors
    ///
    /// As of `tcp_send`.
    ///
    /// # Panics
    ///
    /// If `fill` returns more than it had room for.
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

    /// Show what has arrived, as much as lies in one piece, and take as many bytes of it as `look` returns; return that number.
    ///
    /// `look` gets an empty slice at the end of data (and what it returns is then taken for 0); it is not called if there is an error.
    /// All data that came before an end or a reset is shown before those.
    ///
    /// # Errors
    ///
    /// Nothing is there, or the connection has failed.
    ///
    /// # Panics
    ///
    /// If `look` returns more than it was shown.
    fn tcp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError>;

    /// End one half, or both.
    ///
    /// # Errors
    ///
    /// The socket is not connected.
    fn tcp_shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError>;

    /// Change a setting.
    ///
    /// # Errors
    ///
    /// The stack can't do that.
    fn tcp_set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError>;

    /// Its own address; `None` before it has one.
    fn tcp_local(&self, id: SocketId) -> Option<SocketAddr>;

    /// Its peer's address; `None` if it was never connected.
    fn tcp_peer(&self, id: SocketId) -> Option<SocketAddr>;

    /// Give a TCP socket up. What it has sent is still delivered, unless it lingers otherwise; a listening one refuses what waits.
    ///
    /// If bytes that arrived were never read the connection is reset, as RFC 1122, 4.2.2.13, has it.
    fn tcp_close(&mut self, id: SocketId);

    /// Open a UDP socket.
    ///
    /// # Errors
    ///
    /// There are as many as there can be.
    fn udp_open(&mut self) -> Result<SocketId, OpenError>;

    /// Give it a local address, as [`Stack::tcp_bind`] does.
    ///
    /// # Errors
    ///
    /// As of `tcp_bind`.
    fn udp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError>;

    /// Choose the only peer that it hears from and sends to; `None` undoes that. A socket without a port gets one.
    ///
    /// # Errors
    ///
    /// There is no port for it.
    fn udp_connect(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError>;

    /// Send a datagram made of `parts`, to `peer` or to the one it is connected to. A socket without a port gets one.
    ///
    /// # Errors
    ///
    /// It is too large, has no peer, or there is no room or no way now.
    fn udp_send(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError>;

    /// Show the datagram that has waited longest, and its sender; it is gone afterwards if `look` returns `true`.
    ///
    /// # Errors
    ///
    /// None waits, or the socket has no port.
    fn udp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError>;

    /// Its own address; `None` before it has one.
    fn udp_local(&self, id: SocketId) -> Option<SocketAddr>;

    /// The peer that it is connected to.
    fn udp_peer(&self, id: SocketId) -> Option<SocketAddr>;

    /// Give a UDP socket up, with what it has not read.
    fn udp_close(&mut self, id: SocketId);

    /// What can be done with a TCP or UDP socket now.
    fn readiness(&self, id: SocketId) -> Readiness;
}
