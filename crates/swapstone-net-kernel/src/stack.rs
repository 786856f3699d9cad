//! The stack: what TCP and UDP have in common.

use std::fs;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};
use swapstone_net::error::{
    AcceptError, BindError, ConnectError, Limit, ListenError, OpenError, RecvError, Resource,
    SendError, SocketError, UdpRecvError, UdpSendError,
};
use swapstone_net::{
    Capabilities, Cidr, Instant, Limits, Readiness, Shared, Shutdown, SocketId, Stack, Statistics,
    TcpOption,
};

use crate::address;
use crate::platform::{KernelPlatform, Watch};
use crate::table::{Phase, Socket, Table};

/// Bytes that one receiving call takes from the kernel at most; no datagram is larger.
const SCRATCH: usize = 64 << 10;
/// Parts that one sending call gives to the kernel at most.
pub(crate) const PARTS: usize = 16;

/// Who chooses the size of the sockets' buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// The kernel, by its own measurement of each connection.
    Kernels,
    /// The limits that the stack was given, fixed.
    Limits,
}

/// Linux's sockets. See the crate's description.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) table: Table,
    pub(crate) scratch: Vec<u8>,
    limits: Limits,
    buffers: Buffers,
    watch: Rc<Watch>,
}

impl Kernel {
    /// Make the stack and its clock.
    ///
    /// # Errors
    ///
    /// The process has as many files open as it may.
    pub fn new(limits: Limits, buffers: Buffers) -> io::Result<(Self, KernelPlatform)> {
        let watch = Rc::new(Watch::new()?);
        let kernel = Self {
            table: Table::default(),
            scratch: vec![0; SCRATCH],
            limits,
            buffers,
            watch: Rc::clone(&watch),
        };
        Ok((kernel, KernelPlatform::new(watch)))
    }

    /// Make the kernel's socket, now that its family is known.
    pub(crate) fn create(&self, udp: bool, ipv6: bool) -> Result<OwnedFd, Errno> {
        let (family, kind) = (
            if ipv6 {
                AddressFamily::INET6
            } else {
                AddressFamily::INET
            },
            if udp {
                SocketType::DGRAM
            } else {
                SocketType::STREAM
            },
        );
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, kind, flags, None)?;
        if self.buffers == Buffers::Limits {
            let receive = if udp {
                self.limits.datagrams * 2304 // a full frame with the kernel's own account of it
            } else {
                self.limits.receive_buffer
            };
            sockopt::set_socket_recv_buffer_size(&socket, receive)?;
            sockopt::set_socket_send_buffer_size(&socket, self.limits.send_buffer)?;
        }
        Ok(socket)
    }

    /// Have the kernel tell what changes for a socket.
    pub(crate) fn watch(&self, id: SocketId, socket: &OwnedFd) -> Result<(), Errno> {
        let flags = epoll::EventFlags::IN
            | epoll::EventFlags::OUT
            | epoll::EventFlags::RDHUP
            | epoll::EventFlags::ET;
        let name = u64::from(id.index) << 32 | u64::from(id.generation);
        epoll::add(
            &self.watch.epoll,
            socket,
            epoll::EventData::new_u64(name),
            flags,
        )
    }

    /// Whether there may be another socket.
    pub(crate) fn room(&self, udp: bool) -> Result<(), Limit> {
        let (of, used, most) = if udp {
            (
                Resource::UdpSockets,
                self.table.udp,
                self.limits.udp_sockets,
            )
        } else {
            (
                Resource::TcpSockets,
                self.table.tcp,
                self.limits.tcp_sockets,
            )
        };
        if used < most {
            Ok(())
        } else {
            Err(Limit { of, most })
        }
    }

    fn peer_of(&self, id: SocketId, udp: bool) -> Option<SocketAddr> {
        self.table.get(id).filter(|socket| socket.udp == udp)?.peer
    }

    fn name_of(&self, id: SocketId, udp: bool) -> Option<SocketAddr> {
        let socket = self.table.get(id).filter(|socket| socket.udp == udp)?;
        let name = rustix::net::getsockname(socket.descriptor.as_ref()?).ok()?;
        address::plain(name).filter(|name| name.port() != 0)
    }
}

/// The socket if it is one of TCP, or of UDP.
pub(crate) fn of(table: &mut Table, id: SocketId, udp: bool) -> Option<&mut Socket> {
    table.get_mut(id).filter(|socket| socket.udp == udp)
}

/// The parts as a call takes them; what is beyond their number waits for the next call.
pub(crate) fn slices<'a>(parts: &[&'a [u8]]) -> ([IoSlice<'a>; PARTS], usize) {
    let mut slices = [IoSlice::new(&[]); PARTS];
    let count = parts.len().min(PARTS);
    for (slice, part) in slices.iter_mut().zip(parts) {
        *slice = IoSlice::new(part);
    }
    (slices, count)
}

/// A line of the kernel's own files, read once.
fn fact(cell: &'static OnceLock<String>, path: &str) -> &'static str {
    cell.get_or_init(|| {
        fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().into())
    })
}

impl Stack for Kernel {
    fn capabilities(&self) -> Capabilities {
        static RELEASE: OnceLock<String> = OnceLock::new();
        static CONTROL: OnceLock<String> = OnceLock::new();
        static SACK: OnceLock<String> = OnceLock::new();
        Capabilities {
            name: "kernel",
            version: fact(&RELEASE, "/proc/sys/kernel/osrelease"),
            zero_copy_receive: false,
            zero_copy_send: false,
            send_in_place: false,
            congestion_control: fact(&CONTROL, "/proc/sys/net/ipv4/tcp_congestion_control"),
            selective_acknowledgements: fact(&SACK, "/proc/sys/net/ipv4/tcp_sack") == "1",
            many_instances: true,
            keep_alive: true,
            ipv6: fs::exists("/proc/net/if_inet6").unwrap_or(false),
            segmentation_offload: false, // it has no `Device`; what the kernel's own can do is the kernel's business
        }
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            tcp_sockets: self.table.tcp as u64,
            udp_sockets: self.table.udp as u64,
            ..Statistics::default()
        }
    }

    fn poll(&mut self, _: Instant) -> bool {
        let Self {
            table,
            scratch,
            watch,
            ..
        } = self;
        watch.take(|event| {
            let name = event.data.u64();
            let id = SocketId {
                index: (name >> 32) as u32,
                generation: name as u32,
            };
            note(table, scratch, id, event.flags);
        })
    }

    fn deadline(&mut self, _: Instant) -> Option<Instant> {
        None
    }

    fn next_event(&mut self) -> Option<(SocketId, Readiness)> {
        self.table.next()
    }

    fn addresses(&self) -> Vec<Cidr> {
        address::all()
    }

    fn tcp_open(&mut self) -> Result<SocketId, OpenError> {
        self.room(false).map_err(OpenError::Limit)?;
        Ok(self.table.add(Socket::new(false)))
    }

    fn tcp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        self.bind_tcp(id, address)
    }

    fn tcp_listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError> {
        self.listen(id, backlog)
    }

    fn tcp_accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError> {
        self.accept(id)
    }

    fn tcp_connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError> {
        self.connect(id, peer)
    }

    fn tcp_send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError> {
        self.send(id, parts)
    }

    fn tcp_send_shared(
        &mut self,
        id: SocketId,
        bytes: &Shared,
        range: Range<usize>,
    ) -> Result<usize, SendError> {
        self.send(id, &[&bytes[range]])
    }

    fn tcp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError> {
        self.receive(id, look)
    }

    fn tcp_shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError> {
        self.shutdown(id, which)
    }

    fn tcp_set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError> {
        self.set(id, option)
    }

    fn tcp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.name_of(id, false)
    }

    fn tcp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.peer_of(id, false)
    }

    fn tcp_close(&mut self, id: SocketId) {
        self.close(id);
    }

    fn udp_open(&mut self) -> Result<SocketId, OpenError> {
        self.room(true).map_err(OpenError::Limit)?;
        Ok(self.table.add(Socket::new(true)))
    }

    fn udp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        self.bind_udp(id, address)
    }

    fn udp_connect(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError> {
        self.aim(id, peer)
    }

    fn udp_send(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        self.send_datagram(id, parts, peer)
    }

    fn udp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError> {
        self.receive_datagram(id, look)
    }

    fn udp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.name_of(id, true)
    }

    fn udp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.peer_of(id, true)
    }

    fn udp_close(&mut self, id: SocketId) {
        if of(&mut self.table, id, true).is_some() {
            self.table.remove(id);
        }
    }

    fn readiness(&self, id: SocketId) -> Readiness {
        let Some(socket) = self.table.get(id) else {
            return Readiness::NONE;
        };
        let mut now = Readiness::NONE;
        if !socket.leftover().is_empty() || socket.fault.is_some() {
            now |= Readiness::READABLE;
        }
        if matches!(socket.phase, Phase::New) && !socket.udp {
            return now; // the kernel calls a socket without a connection hung up
        }
        if let Some(descriptor) = &socket.descriptor {
            let asked = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
            let mut watched = [PollFd::new(descriptor, asked)];
            if rustix::event::poll(&mut watched, Some(&Timespec::default())).is_ok() {
                now |= meaning(epoll::EventFlags::from_bits_retain(u32::from(
                    watched[0].revents().bits(),
                )));
            }
        }
        now
    }
}

/// What the kernel's flags say; those of `poll` and `epoll` are the same.
fn meaning(flags: epoll::EventFlags) -> Readiness {
    use epoll::EventFlags as Flags;
    let mut news = Readiness::NONE;
    if flags.intersects(Flags::IN | Flags::RDHUP | Flags::HUP | Flags::ERR) {
        news |= Readiness::READABLE;
    }
    if flags.intersects(Flags::OUT | Flags::HUP | Flags::ERR) {
        news |= Readiness::WRITABLE;
    }
    if flags.contains(Flags::HUP) {
        news |= Readiness::CLOSED;
    }
    news
}

/// Take in that something changed for a socket.
fn note(table: &mut Table, scratch: &mut [u8], id: SocketId, flags: epoll::EventFlags) {
    use epoll::EventFlags as Flags;
    let Some(socket) = table.get_mut(id) else {
        return;
    };
    if flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR) {
        socket.ending = true;
    }
    if flags.intersects(Flags::IN | Flags::RDHUP | Flags::HUP | Flags::ERR) {
        socket.drained = false;
    }
    if let (false, Some(descriptor)) = (socket.reads, &socket.descriptor) {
        // Shut down for reading: what arrives is thrown away.
        while let Ok((1.., _)) = rustix::net::recv(descriptor, &mut *scratch, RecvFlags::TRUNC) {}
    }
    table.tell(id, meaning(flags));
}
