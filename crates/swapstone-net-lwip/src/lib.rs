//! The [`swapstone_net`] contract over lwIP's raw API.
//!
//! [`Lwip`] is a [`Stack`] over a [`Device`]; [`swapstone_net::Net`] makes sockets of it. There is at most one in a process. `README.md` says what
//! it adds to lwIP and what it lacks.
//!
//! Here a program on lwIP talks to one on another stack, over a link in memory with a virtual clock:
//!
//! ```
//! use swapstone_net::{Cidr, Config, Net};
//! use swapstone_net_link::{Link, Options};
//! use swapstone_net_lwip::Lwip;
//! use swapstone_net_smoltcp::Smoltcp;
//!
//! let link = Link::new(Options::default());
//! let config = |last| Config::new(&[Cidr::new([10, 0, 0, last].into(), 24)], [last; 32]);
//! let here = Lwip::new(link.port([2, 0, 0, 0, 0, 1]), &config(1))?;
//! let here = Net::new(here, link.time(0));
//! let there = Smoltcp::new(link.port([2, 0, 0, 0, 0, 2]), &config(2))?;
//! let there = Net::new(there, link.time(1));
//! link.attach(0, here.clone());
//! link.attach(1, there.clone());
//!
//! let listener = here.tcp()?;
//! listener.bind(([10, 0, 0, 1], 80).into())?;
//! listener.listen(16)?;
//! let client = there.tcp()?;
//! client.connect(([10, 0, 0, 1], 80).into())?;
//! client.send_all(b"hello")?;
//!
//! let (server, peer) = listener.accept()?;
//! assert_eq!(peer.ip().to_string(), "10.0.0.2");
//! // Shown where the device put it: no copy.
//! let seen = server.recv_with(|bytes| {
//!     assert_eq!(bytes, b"hello");
//!     bytes.len()
//! })?;
//! assert_eq!(seen, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Statistics: `malformed` counts frames that lwIP or the glue dropped for their form or sum, `retransmitted` all segments that left again.
//! A connection in `TIME_WAIT` is no socket any more and counts nowhere; [`Lwip::counts`] has their number.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod tcp;
mod udp;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;

use swapstone_net::error::{
    AcceptError, BindError, ConnectError, ListenError, OpenError, RecvError, SendError,
    SocketError, UdpRecvError, UdpSendError,
};
use swapstone_net::{
    Capabilities, Cidr, Config, Device, Instant, Limits, Readiness, Shared, Shutdown, SocketId,
    Stack, Statistics, TcpOption,
};
use swapstone_net_lwip_sys::{Active, Change, Core, Settings, StartError};

use tcp::Tcp;
use udp::Udp;

/// How many frames one poll takes.
const BATCH: usize = 64;
/// The ports that are chosen from (RFC 6335).
const FIRST_PORT: u16 = 49152;
const PORTS: u32 = 65536 - FIRST_PORT as u32;
/// How long a connection without an owner may take to deliver what it has.
const ORPHAN: Duration = Duration::from_secs(120);

/// Why there is no stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewError {
    /// There is one in this process already, and lwIP keeps its state in global variables.
    Exists,
    /// More than one IPv4 address was given; lwIP's devices have one.
    ManyIpv4,
    /// An IPv6 network is not of 64 bits, which is all that lwIP knows.
    Prefix,
    /// More IPv6 addresses than lwIP was compiled for: seven, besides the link-local one.
    ManyIpv6,
    /// The device can't carry what TCP needs: its MTU is below 576 (or 1280 with IPv6 addresses) or above 65535.
    Mtu,
    /// A limit is zero, or beyond what lwIP can have: windows up to 1 GiB, a million sockets, 65535 datagrams.
    Limits,
}

impl fmt::Display for NewError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Exists => "there is an lwIP in this process already, and it keeps its state in global variables; drop that one first",
            Self::ManyIpv4 => "lwIP has one IPv4 address, and more were given",
            Self::Prefix => "lwIP knows IPv6 networks of 64 bits only",
            Self::ManyIpv6 => "lwIP was compiled for seven IPv6 addresses, and more were given",
            Self::Mtu => "the device's MTU is below 576 (1280 with IPv6 addresses) or above 65535 bytes",
            Self::Limits => "a limit is zero or beyond what lwIP can have",
        })
    }
}

impl core::error::Error for NewError {}

/// lwIP as a [`Stack`] over a device.
pub struct Lwip<D> {
    core: Core,
    device: D,
    limits: Limits,
    /// What one held frame may cost, in bytes.
    frame_cost: usize,
    now: Instant,
    tcp: Vec<Tcp>,
    udp: Vec<Udp>,
    /// Who has bound a TCP port.
    bound: BTreeMap<u16, Vec<u32>>,
    /// Moves on with each port chosen.
    chosen: u32,
    events: VecDeque<u32>,
    /// Sockets that lacked memory or the device's room, not their own.
    starved: VecDeque<u32>,
    /// TCP sockets that have written since the last poll, each once.
    unsent: VecDeque<u32>,
    scratch: Vec<u8>,
}

impl<D: Device> Lwip<D> {
    /// Start lwIP over this device. Only one can exist at a time in a process; when it is dropped another can be made.
    ///
    /// # Errors
    ///
    /// There is one, or it can't be as the configuration says.
    pub fn new(device: D, config: &Config) -> Result<Self, NewError> {
        let about = device.limits();
        let limits = config.limits;
        let mut v4 = None;
        let mut v6 = Vec::new();
        for cidr in &config.addresses {
            match cidr.address {
                IpAddr::V4(_) if v4.is_some() => return Err(NewError::ManyIpv4),
                IpAddr::V4(address) => v4 = Some((address, cidr.prefix)),
                IpAddr::V6(_) if cidr.prefix != 64 => return Err(NewError::Prefix),
                IpAddr::V6(address) => v6.push(address),
            }
        }
        let least = if v6.is_empty() && !config.slaac {
            576
        } else {
            1280
        };
        if about.mtu < least || about.mtu > 65535 {
            return Err(NewError::Mtu);
        }
        let windows = [limits.receive_buffer, limits.send_buffer];
        if windows.iter().any(|size| *size < 2048 || *size > 1 << 30)
            || !(1..=1 << 20).contains(&limits.tcp_sockets)
            || limits.udp_sockets > 65535
            || limits.datagrams > 65535
            || limits.packet_memory < 64 << 10
        {
            return Err(NewError::Limits);
        }
        if v6.len() > 7 {
            return Err(NewError::ManyIpv6);
        }
        let settings = Settings {
            device: about,
            v4,
            gateway_v4: config.gateway_v4,
            gateway_v6: config.gateway_v6,
            slaac: config.slaac,
            seed: config.seed,
            limits,
        };
        let mut core = Core::new(&settings).map_err(|error| match error {
            StartError::Exists => NewError::Exists,
            StartError::Refused => NewError::Mtu,
        })?;
        // The first place is for the link-local address, which `begin` makes.
        if !v6.into_iter().all(|address| core.add_v6(address)) {
            return Err(NewError::ManyIpv6);
        }
        let mut tcp = Vec::new();
        tcp.resize_with(limits.tcp_sockets, Tcp::default);
        let mut udp = Vec::new();
        udp.resize_with(limits.udp_sockets, Udp::default);
        Ok(Self {
            core,
            device,
            limits,
            frame_cost: about.largest_received.max(about.mtu) + 64,
            now: Instant::ZERO,
            events: VecDeque::with_capacity(tcp.len() + udp.len()),
            starved: VecDeque::new(),
            unsent: VecDeque::with_capacity(tcp.len()),
            tcp,
            udp,
            bound: BTreeMap::new(),
            chosen: 0,
            scratch: Vec::new(),
        })
    }

    /// The device.
    pub fn device(&mut self) -> &mut D {
        &mut self.device
    }

    /// What only lwIP counts.
    pub fn counts(&self) -> swapstone_net_lwip_sys::Counts {
        self.core.counts()
    }

    fn active(&mut self) -> Active<'_> {
        let mut active = self.core.enter(&mut self.device);
        active.begin();
        active
    }

    /// Turn what lwIP's callbacks have noted into events.
    fn settle(&mut self) {
        while let Some(change) = self.core.next_change() {
            match change {
                Change::Tcp(index) => {
                    if self.tcp[index as usize].open {
                        if self.tcp[index as usize].read_closed {
                            self.active().discard(index);
                        }
                        self.announce(index);
                    }
                }
                Change::Udp(index) => self.announce(self.tcp.len() as u32 + index),
            }
        }
    }

    /// Put a socket in the queue of events, once. UDP's are numbered after TCP's.
    fn announce(&mut self, number: u32) {
        let announced = match (number as usize).checked_sub(self.tcp.len()) {
            None => &mut self.tcp[number as usize].announced,
            Some(index) => &mut self.udp[index].announced,
        };
        if !core::mem::replace(announced, true) {
            self.events.push_back(number);
        }
    }

    /// It lacked something that is not its own: tell it when that may be there again.
    fn starve(&mut self, number: u32) {
        let starving = match (number as usize).checked_sub(self.tcp.len()) {
            None => &mut self.tcp[number as usize].starving,
            Some(index) => &mut self.udp[index].starving,
        };
        if !core::mem::replace(starving, true) {
            self.starved.push_back(number);
        }
    }

    /// Tell those that starved: of memory, or (UDP only, for TCP sends later by itself) of the device's room.
    fn feed(&mut self) {
        if self.starved.is_empty() {
            return;
        }
        let memory = self.core.memory_recovered();
        let room = !self.core.device_full();
        for _ in 0..self.starved.len() {
            let Some(number) = self.starved.pop_front() else {
                break;
            };
            let udp = (number as usize).checked_sub(self.tcp.len());
            let fed = memory || (room && udp.is_some());
            if !fed {
                self.starved.push_back(number);
                continue;
            }
            match udp {
                None => self.tcp[number as usize].starving = false,
                Some(index) => self.udp[index].starving = false,
            }
            self.announce(number);
        }
    }

    fn is_local(&self, address: IpAddr) -> bool {
        address.is_unspecified() || self.core.addresses().any(|cidr| cidr.address == address)
    }

    /// A local port for which `free` says yes, beginning at a hash of the names.
    fn choose_port(&mut self, begin: u32, mut free: impl FnMut(&Self, u16) -> bool) -> Option<u16> {
        for step in 0..PORTS {
            let port =
                FIRST_PORT + (begin.wrapping_add(self.chosen).wrapping_add(step) % PORTS) as u16;
            if free(self, port) {
                self.chosen = self.chosen.wrapping_add(step + 1);
                return Some(port);
            }
        }
        None
    }
}

/// Whether two local addresses can't have one port both.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let all = |address: IpAddr| address == IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED);
    one == other
        || all(one)
        || all(other)
        || (one.is_ipv4() == other.is_ipv4() && (one.is_unspecified() || other.is_unspecified()))
}

impl<D: Device> Stack for Lwip<D> {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "lwip",
            version: Core::version(),
            zero_copy_receive: true,
            zero_copy_send: true,
            send_in_place: false,
            congestion_control: "newreno",
            selective_acknowledgements: true,
            many_instances: false,
            keep_alive: true,
            ipv6: true,
            segmentation_offload: true,
        }
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn statistics(&self) -> Statistics {
        let counts = self.core.counts();
        Statistics {
            frames_in: counts.frames_in,
            frames_out: counts.frames_out,
            bytes_in: counts.bytes_in,
            bytes_out: counts.bytes_out,
            malformed: counts.malformed,
            no_room: counts.no_room,
            retransmitted: counts.retransmitted,
            tcp_sockets: counts.tcp as u64,
            orphans: counts.orphans as u64,
            udp_sockets: self.udp.iter().filter(|socket| socket.open).count() as u64,
        }
    }

    fn poll(&mut self, now: Instant) -> bool {
        self.now = now;
        let held_most = self.limits.packet_memory / 2 / self.frame_cost;
        self.core.enter(&mut self.device).set_now(now);
        self.send_queued();
        let mut active = self.core.enter(&mut self.device);
        let mut frames = 0;
        while frames < BATCH {
            let Some(frame) = active.receive() else { break };
            frames += 1;
            // Data that nobody reads holds the device's memory: beyond half of what there may be it is copied, which packs it.
            let copy = active.held() >= held_most;
            active.input(frame, copy);
        }
        active.timers();
        active.flush();
        drop(active);
        self.feed();
        self.settle();
        frames == BATCH
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        if !self.unsent.is_empty() {
            return Some(now);
        }
        Some(self.core.deadline(now))
    }

    fn next_event(&mut self) -> Option<(SocketId, Readiness)> {
        self.settle();
        while let Some(number) = self.events.pop_front() {
            let id = match (number as usize).checked_sub(self.tcp.len()) {
                None => self.tcp[number as usize].announcement(number),
                Some(index) => self.udp[index].announcement(number),
            };
            if let Some(id) = id {
                return Some((id, self.readiness(id)));
            }
        }
        None
    }

    fn addresses(&self) -> Vec<Cidr> {
        self.core.addresses().collect()
    }

    fn tcp_open(&mut self) -> Result<SocketId, OpenError> {
        self.open_tcp()
    }

    fn tcp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        self.bind_tcp(id, address)
    }

    fn tcp_listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError> {
        self.listen_tcp(id, backlog)
    }

    fn tcp_accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError> {
        self.accept_tcp(id)
    }

    fn tcp_connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError> {
        self.connect_tcp(id, peer)
    }

    fn tcp_send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError> {
        self.send_tcp(id, parts)
    }

    fn tcp_send_shared(
        &mut self,
        id: SocketId,
        bytes: &Shared,
        range: core::ops::Range<usize>,
    ) -> Result<usize, SendError> {
        self.send_shared_tcp(id, bytes, range)
    }

    fn tcp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError> {
        self.receive_tcp(id, look)
    }

    fn tcp_shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError> {
        self.shutdown_tcp(id, which)
    }

    fn tcp_set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError> {
        self.set_tcp(id, option)
    }

    fn tcp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.tcp(id)?.local
    }

    fn tcp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.tcp(id)?.peer
    }

    fn tcp_close(&mut self, id: SocketId) {
        self.close_tcp(id);
    }

    fn udp_open(&mut self) -> Result<SocketId, OpenError> {
        self.open_udp()
    }

    fn udp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        self.bind_udp(id, address)
    }

    fn udp_connect(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError> {
        self.connect_udp(id, peer)
    }

    fn udp_send(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        self.send_udp(id, parts, peer)
    }

    fn udp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError> {
        self.receive_udp(id, look)
    }

    fn udp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.udp(id)?.local
    }

    fn udp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.udp(id)?.peer
    }

    fn udp_close(&mut self, id: SocketId) {
        self.close_udp(id);
    }

    fn readiness(&self, id: SocketId) -> Readiness {
        if id.index as usize >= self.tcp.len() {
            self.readiness_udp(id)
        } else {
            self.readiness_tcp(id)
        }
    }
}

impl<D> fmt::Debug for Lwip<D> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Lwip({:?})", self.core.counts())
    }
}
