// SPDX-License-Identifier: MIT OR Apache-2.0
//! lwIP's raw API as a [`swapstone_net::Stack`].
//!
//! [`Lwip`] is a [`Stack`] over a [`Device`]; [`swapstone_net::Net`] provides its sockets. A process
//! can have one instance. `README.md` lists what this crate adds to lwIP and what is missing.
//!
//! lwIP and smoltcp connected by an in-memory link with a virtual clock:
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
//! // Data is shown in the device's buffer, without a copy.
//! let seen = server.recv_with(|bytes| {
//!     assert_eq!(bytes, b"hello");
//!     bytes.len()
//! })?;
//! assert_eq!(seen, 5);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Statistics: `malformed` counts frames that lwIP or this crate dropped because of their format or
//! checksum, `retransmitted` all segments that were sent again. Connections in TIME-WAIT are not
//! counted as sockets; [`Lwip::counts`] has their number.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod fixes;
mod tcp;
mod tuning;
mod udp;

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use core::fmt;
use core::net::IpAddr;
use core::time::Duration;

use swapstone_net::backend::{SocketTable, ephemeral_ports};
use swapstone_net::fixes::Fixes;
use swapstone_net::reordering::{Reordering, ReorderingFixes};
use swapstone_net::{
    Capabilities, Cidr, Config, Device, Instant, Limits, Readiness, SocketId, Stack, Statistics,
};
use swapstone_net_lwip_sys::{Active, Change, Core, Settings, StartError};

pub use fixes::FIXES;
use tcp::Tcp;
pub use tuning::options;
use udp::Udp;

/// The maximum number of frames of one poll.
const BATCH: usize = 64;
/// How long a closed socket may deliver its data.
const ORPHAN: Duration = Duration::from_secs(120);

/// Why a stack can't be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewError {
    /// The process already has an instance: lwIP keeps its state in global variables.
    Exists,
    /// More than one IPv4 address is configured; an lwIP interface has one.
    ManyIpv4,
    /// An IPv6 prefix length is not 64, the only one that lwIP supports.
    Prefix,
    /// More than seven IPv6 addresses are configured besides the link-local one.
    ManyIpv6,
    /// The MTU of the device is below 576 (1280 with IPv6 addresses) or above 65535.
    Mtu,
    /// A limit is zero or exceeds lwIP's: windows of 1 GiB, 2^20 TCP sockets, 65535 datagrams.
    Limits,
}

impl fmt::Display for NewError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Exists => "the process already has an lwIP instance, whose state is in global variables; drop it first",
            Self::ManyIpv4 => "more than one IPv4 address is configured; an lwIP interface has one",
            Self::Prefix => "an IPv6 prefix length is not 64, the only one that lwIP supports",
            Self::ManyIpv6 => "more than seven IPv6 addresses are configured",
            Self::Mtu => "the device's MTU is below 576 (1280 with IPv6 addresses) or above 65535 bytes",
            Self::Limits => "a limit is zero or exceeds that of lwIP",
        })
    }
}

impl core::error::Error for NewError {}

/// lwIP as a [`Stack`] over a device.
pub struct Lwip<D> {
    core: Core,
    device: Reordering<D>,
    limits: Limits,
    /// The memory of one received frame in bytes.
    frame_cost: usize,
    now: Instant,
    tcp: Vec<Tcp>,
    udp: Vec<Udp>,
    /// The ids of all sockets, UDP after TCP. The value is whether the socket is in `starved`.
    handles: SocketTable<bool>,
    /// TCP sockets by the port that they are bound to.
    bound: BTreeMap<u16, Vec<u32>>,
    /// Added to the hash that selects an ephemeral port; incremented with each selection (RFC 6056).
    port_counter: u32,
    /// Sockets that wait for packet memory or for the device's transmit queue.
    starved: VecDeque<u32>,
    /// TCP sockets with data that was queued since the last poll, each once.
    unsent: VecDeque<u32>,
    scratch: Vec<u8>,
}

impl<D: Device> Lwip<D> {
    /// Starts lwIP over a device. A process can have one instance at a time.
    ///
    /// # Errors
    ///
    /// See [`NewError`].
    pub fn new(device: D, config: &Config) -> Result<Self, NewError> {
        Self::with_fixes(device, config, Fixes::all(FIXES))
    }

    /// As [`Lwip::new`], with these of [`FIXES`] only.
    ///
    /// # Errors
    ///
    /// See [`NewError`].
    pub fn with_fixes(device: D, config: &Config, fixes: Fixes) -> Result<Self, NewError> {
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
            fixes: fixes.bits(),
        };
        let mut core = Core::new(&settings).map_err(|error| match error {
            StartError::Exists => NewError::Exists,
            StartError::Refused => NewError::Mtu,
        })?;
        // Index 0 is the link-local address, which `begin` adds.
        if !v6.into_iter().all(|address| core.add_v6(address)) {
            return Err(NewError::ManyIpv6);
        }
        let mut tcp = Vec::new();
        tcp.resize_with(limits.tcp_sockets, Tcp::default);
        let mut udp = Vec::new();
        udp.resize_with(limits.udp_sockets, Udp::default);
        Ok(Self {
            core,
            device: Reordering::new(
                device,
                ReorderingFixes {
                    hold: fixes.on(fixes::REORDERING_WINDOW),
                    windows: fixes.on(fixes::DUPLICATE_ACK_WINDOW),
                },
            ),
            limits,
            frame_cost: about.largest_received.max(about.mtu) + 64,
            now: Instant::ZERO,
            handles: SocketTable::with_slots(tcp.len() + udp.len()),
            starved: VecDeque::new(),
            unsent: VecDeque::with_capacity(tcp.len()),
            tcp,
            udp,
            bound: BTreeMap::new(),
            port_counter: 0,
            scratch: Vec::new(),
        })
    }

    /// Returns the device.
    pub fn device(&mut self) -> &mut D {
        self.device.inner_mut()
    }

    /// Returns the counters of lwIP.
    pub fn counts(&self) -> swapstone_net_lwip_sys::Counts {
        self.core.counts()
    }

    fn active(&mut self) -> Active<'_> {
        let mut active = self.core.enter(&mut self.device);
        active.begin();
        active
    }

    /// Converts the changes that lwIP's callbacks have recorded to events.
    fn process_changes(&mut self) {
        while let Some(change) = self.core.next_change() {
            match change {
                Change::Tcp(index) => {
                    if self.handles.is_open(index) {
                        if self.tcp[index as usize].read_closed {
                            self.active().discard(index);
                        }
                        self.handles.queue_event(index);
                    }
                }
                Change::Udp(index) => self.handles.queue_event(self.udp_handle(index)),
            }
        }
    }

    /// The index of a UDP socket in `handles`.
    fn udp_handle(&self, index: u32) -> u32 {
        self.tcp.len() as u32 + index
    }

    /// The number of open UDP sockets.
    fn udp_count(&self) -> usize {
        (self.tcp.len() as u32..self.handles.len())
            .filter(|handle| self.handles.is_open(*handle))
            .count()
    }

    /// Queues an event for a socket once shared memory or the transmit queue has room again.
    fn wait_for_memory(&mut self, handle: u32) {
        if !core::mem::replace(&mut self.handles[handle], true) {
            self.starved.push_back(handle);
        }
    }

    /// Queues events for the sockets in `starved`. TCP waits for memory only: lwIP retransmits what
    /// the device did not take.
    fn wake_starved(&mut self) {
        if self.starved.is_empty() {
            return;
        }
        let memory = self.core.memory_recovered();
        let room = !self.core.device_full();
        for _ in 0..self.starved.len() {
            let Some(handle) = self.starved.pop_front() else {
                break;
            };
            let is_udp = handle as usize >= self.tcp.len();
            if memory || (room && is_udp) {
                self.handles[handle] = false;
                self.handles.queue_event(handle);
            } else {
                self.starved.push_back(handle);
            }
        }
    }

    fn is_local(&self, address: IpAddr) -> bool {
        address.is_unspecified() || self.core.addresses().any(|cidr| cidr.address == address)
    }

    /// Selects an ephemeral port for which `free` returns `true`, starting at the offset `hash`
    /// (RFC 6056, algorithm 3).
    fn choose_port(&mut self, hash: u32, free: impl Fn(&Self, u16) -> bool) -> Option<u16> {
        let start = hash.wrapping_add(self.port_counter);
        let (step, port) = (0..)
            .zip(ephemeral_ports(start))
            .find(|(_, port)| free(self, *port))?;
        self.port_counter = self.port_counter.wrapping_add(step + 1);
        Some(port)
    }
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
            selective_acknowledgements: Core::compiled().ooseq,
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
        let filter = self.device.counters();
        Statistics {
            frames_in: counts.frames_in + filter.kept,
            frames_out: counts.frames_out,
            bytes_in: counts.bytes_in + filter.kept_bytes,
            bytes_out: counts.bytes_out,
            malformed: counts.malformed,
            no_room: counts.no_room,
            retransmitted: counts.retransmitted,
            tcp_sockets: counts.tcp as u64,
            orphans: counts.orphans as u64,
            udp_sockets: self.udp_count() as u64,
        }
    }

    fn poll(&mut self, now: Instant) -> bool {
        self.now = now;
        self.device.set_now(now);
        let held_most = self.limits.packet_memory / 2 / self.frame_cost;
        self.core.enter(&mut self.device).set_now(now);
        self.send_queued();
        let mut active = self.core.enter(&mut self.device);
        active.acknowledge();
        let mut frames = 0;
        while frames < BATCH {
            let Some(frame) = active.receive() else { break };
            frames += 1;
            // Unread data keeps the device's buffers. Above half of the limit it is copied, so that
            // it needs less memory.
            let copy = active.held() >= held_most;
            active.input(frame, copy);
        }
        active.timers();
        active.flush();
        drop(active);
        self.wake_starved();
        self.process_changes();
        frames == BATCH
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        if !self.unsent.is_empty() || self.core.owes_acks() {
            return Some(now);
        }
        let due = self.core.deadline(now);
        Some(self.device.deadline().map_or(due, |held| due.min(held)))
    }

    fn next_event(&mut self) -> Option<(SocketId, Readiness)> {
        self.process_changes();
        let id = self.handles.next_event()?;
        Some((id, self.readiness(id)))
    }

    fn addresses(&self) -> Vec<Cidr> {
        self.core.addresses().collect()
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
