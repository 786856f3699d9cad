// SPDX-License-Identifier: MIT OR Apache-2.0
//! The parts of the stack that TCP and UDP share.

use std::fs;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::sync::OnceLock;

use rustix::event::{PollFd, PollFlags, Timespec, epoll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, sockopt};
use swapstone_net::error::{Limit, Resource};
use swapstone_net::{Capabilities, Cidr, Instant, Limits, Readiness, SocketId, Stack, Statistics};

use crate::address;
use crate::platform::{KernelPlatform, Watch};
use crate::socket::{Phase, Sockets};

/// The size of the receive buffer in bytes; no datagram is larger.
const SCRATCH: usize = 64 << 10;
/// The maximum number of parts in one `sendmsg`.
pub(crate) const PARTS: usize = 16;

/// How socket buffers are sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// By the kernel's autotuning (`net.ipv4.tcp_rmem`, `net.ipv4.tcp_wmem`).
    Automatic,
    /// Fixed, by [`Limits::receive_buffer`] and [`Limits::send_buffer`].
    Limits,
}

/// The kernel's sockets as a [`Stack`].
#[derive(Debug)]
pub struct Kernel {
    pub(crate) sockets: Sockets,
    pub(crate) scratch: Vec<u8>,
    limits: Limits,
    buffers: Buffers,
    watch: Rc<Watch>,
}

impl Kernel {
    /// Creates the stack and its clock.
    ///
    /// # Errors
    ///
    /// `epoll_create1` fails: the limit of open files is reached.
    pub fn new(limits: Limits, buffers: Buffers) -> io::Result<(Self, KernelPlatform)> {
        let watch = Rc::new(Watch::new()?);
        let kernel = Self {
            sockets: Sockets::default(),
            scratch: vec![0; SCRATCH],
            limits,
            buffers,
            watch: Rc::clone(&watch),
        };
        Ok((kernel, KernelPlatform::new(watch)))
    }

    /// Creates a socket descriptor.
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
                self.limits.datagrams * 2304 // a full frame, with the kernel's overhead
            } else {
                self.limits.receive_buffer
            };
            sockopt::set_socket_recv_buffer_size(&socket, receive)?;
            sockopt::set_socket_send_buffer_size(&socket, self.limits.send_buffer)?;
        }
        Ok(socket)
    }

    /// Registers a socket with `epoll`.
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

    /// Returns an error if the limit of sockets is reached.
    pub(crate) fn room(&self, udp: bool) -> Result<(), Limit> {
        let (of, used, most) = if udp {
            (
                Resource::UdpSockets,
                self.sockets.udp,
                self.limits.udp_sockets,
            )
        } else {
            (
                Resource::TcpSockets,
                self.sockets.tcp,
                self.limits.tcp_sockets,
            )
        };
        if used < most {
            Ok(())
        } else {
            Err(Limit { of, most })
        }
    }

    pub(crate) fn peer(&self, id: SocketId, udp: bool) -> Option<SocketAddr> {
        self.sockets
            .get(id)
            .filter(|socket| socket.udp == udp)?
            .peer
    }

    pub(crate) fn local(&self, id: SocketId, udp: bool) -> Option<SocketAddr> {
        let socket = self.sockets.get(id).filter(|socket| socket.udp == udp)?;
        let name = rustix::net::getsockname(socket.descriptor.as_ref()?).ok()?;
        address::plain(name).filter(|name| name.port() != 0)
    }
}

/// Returns the first parts as an array for `sendmsg`, and their number.
pub(crate) fn slices<'a>(parts: &[&'a [u8]]) -> ([IoSlice<'a>; PARTS], usize) {
    let mut slices = [IoSlice::new(&[]); PARTS];
    let count = parts.len().min(PARTS);
    for (slice, part) in slices.iter_mut().zip(parts) {
        *slice = IoSlice::new(part);
    }
    (slices, count)
}

/// Reads a line of a file in `/proc` once.
fn fact(cell: &'static OnceLock<String>, path: &str) -> &'static str {
    cell.get_or_init(|| {
        fs::read_to_string(path).map_or_else(|_| "unknown".into(), |text| text.trim().into())
    })
}

/// The congestion control of the first connection. A route can name another than the sysctl.
static IN_FORCE: OnceLock<String> = OnceLock::new();

/// Reads the congestion control of a connection, if none was read before.
pub(crate) fn record_control(connection: &OwnedFd) {
    if IN_FORCE.get().is_none()
        && let Ok(name) = sockopt::tcp_congestion(connection)
    {
        let _ = IN_FORCE.set(name);
    }
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
            congestion_control: match IN_FORCE.get() {
                Some(name) => name,
                None => fact(&CONTROL, "/proc/sys/net/ipv4/tcp_congestion_control"),
            },
            selective_acknowledgements: fact(&SACK, "/proc/sys/net/ipv4/tcp_sack") == "1",
            many_instances: true,
            keep_alive: true,
            ipv6: fs::exists("/proc/net/if_inet6").unwrap_or(false),
            segmentation_offload: false, // it has no `Device`
        }
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            tcp_sockets: self.sockets.tcp as u64,
            udp_sockets: self.sockets.udp as u64,
            ..Statistics::default()
        }
    }

    fn poll(&mut self, _: Instant) -> bool {
        let Self {
            sockets,
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
            process(sockets, scratch, id, event.flags);
        })
    }

    fn deadline(&mut self, _: Instant) -> Option<Instant> {
        None
    }

    fn next_event(&mut self) -> Option<(SocketId, Readiness)> {
        self.sockets.next_event()
    }

    fn addresses(&self) -> Vec<Cidr> {
        address::all()
    }

    fn readiness(&self, id: SocketId) -> Readiness {
        let Some(socket) = self.sockets.get(id) else {
            return Readiness::NONE;
        };
        let mut now = Readiness::NONE;
        if !socket.pending().is_empty() || socket.error.is_some() {
            now |= Readiness::READABLE;
        }
        if matches!(socket.phase, Phase::New) && !socket.udp {
            return now; // the kernel reports POLLHUP for an unconnected socket
        }
        if let Some(descriptor) = &socket.descriptor {
            let flags = PollFlags::IN | PollFlags::OUT | PollFlags::RDHUP;
            let mut watched = [PollFd::new(descriptor, flags)];
            if rustix::event::poll(&mut watched, Some(&Timespec::default())).is_ok() {
                now |= readiness(epoll::EventFlags::from_bits_retain(u32::from(
                    watched[0].revents().bits(),
                )));
            }
        }
        now
    }
}

/// Converts event flags; those of `poll` and `epoll` have the same values.
fn readiness(flags: epoll::EventFlags) -> Readiness {
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

/// Processes an event of a socket.
fn process(sockets: &mut Sockets, scratch: &mut [u8], id: SocketId, flags: epoll::EventFlags) {
    use epoll::EventFlags as Flags;
    let Some(socket) = sockets.get_mut(id) else {
        return;
    };
    if flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR) {
        socket.ending = true;
    }
    if flags.intersects(Flags::IN | Flags::RDHUP | Flags::HUP | Flags::ERR) {
        socket.drained = false;
    }
    if let (true, Some(descriptor)) = (socket.read_closed, &socket.descriptor) {
        // Shut down for reading: discard the data.
        while let Ok((1.., _)) = rustix::net::recv(descriptor, &mut *scratch, RecvFlags::TRUNC) {}
    }
    sockets.notify(id, readiness(flags));
}
