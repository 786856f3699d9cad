// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stack: received frames are passed to their sockets, and sockets are polled when they have
//! work.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::net::{IpAddr, SocketAddr};

use smoltcp::iface::{self, Interface, Route, SocketSet};
use smoltcp::time::Instant as Micros;
use smoltcp::wire::{EthernetAddress, HardwareAddress as SmoltcpAddress, IpCidr, Ipv6Cidr};
use swapstone_net::backend::wildcard_for;
use swapstone_net::device::{Device, Frame, HardwareAddress};
use swapstone_net::fixes::Fixes;
use swapstone_net::reordering::{Reordering, ReorderingFixes};
use swapstone_net::{
    Capabilities, Cidr, Config, Instant, Limits, Readiness, SocketId, Stack, Statistics,
};

use crate::discovery;
use crate::fixes::{
    DUPLICATE_ACK_WINDOW, FIXES, ICMP_ERROR_RATE, IPV6_EXTENSION_HEADERS, REORDERING_WINDOW,
};
use crate::keys::{Key, Realm, Secrets, Table};
use crate::port::{Output, Port, Sink};
use crate::slots::{Conn, Kind, Slots, Udp};
use crate::time_wait::TimeWaitList;
use crate::timers::Timers;
use crate::wire;

/// The maximum number of frames of one poll.
const BATCH: usize = 64;
/// The number of addresses (smoltcp's feature `iface-max-addr-count-8`), including the link-local
/// one.
const ADDRESSES: usize = 8;
/// The minimum MTU of IPv6 (RFC 8200, section 5).
const LEAST_MTU: usize = 1280;
/// How long timers are delayed while received frames are pending.
const TIMER_DELAY_MICROS: u64 = 10_000;
/// The retry interval while the device's transmit queue is full.
const RETRY_MICROS: u64 = 1000;

/// The result of [`Stack::capabilities`].
const CAPABILITIES: Capabilities = Capabilities {
    name: "smoltcp",
    version: "0.14.0",
    zero_copy_receive: false,
    zero_copy_send: false,
    send_in_place: true,
    congestion_control: if cfg!(feature = "std") {
        "cubic"
    } else {
        "reno"
    },
    selective_acknowledgements: true,
    many_instances: true,
    keep_alive: true,
    ipv6: true,
    segmentation_offload: true,
};

/// Why a stack can't be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NewError {
    /// `Config::addresses` has more than this number of addresses.
    TooManyAddresses(usize),
    /// An address in `Config::addresses`, or the device's address, is not unicast.
    NotUnicast,
    /// The device's MTU is below this number of bytes.
    SmallMtu(usize),
    /// `Limits::receive_buffer` exceeds this number of bytes, or a buffer is empty.
    Buffers(usize),
}

impl fmt::Display for NewError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooManyAddresses(most) => {
                write!(out, "Config::addresses has more than {most} addresses")
            }
            Self::NotUnicast => out.write_str("an address is not unicast"),
            Self::SmallMtu(least) => write!(out, "the device's MTU is below {least} bytes"),
            Self::Buffers(most) => {
                write!(
                    out,
                    "Limits::receive_buffer and send_buffer are not in 1 to {most} bytes"
                )
            }
        }
    }
}

impl core::error::Error for NewError {}

/// smoltcp as a [`swapstone_net::Stack`] over a [`Device`].
pub struct Smoltcp<D> {
    pub(crate) device: Reordering<D>,
    pub(crate) output: Output,
    pub(crate) iface: Interface,
    /// An interface without neighbors, used to compute deadlines of sockets. `iface` would add its
    /// own deadlines.
    pub(crate) clock: Interface,
    /// An interface that discards datagrams whose neighbor does not respond.
    pub(crate) drain: Interface,
    pub(crate) sink: Sink,
    no_sockets: SocketSet<'static>,
    pub(crate) hardware: HardwareAddress,
    pub(crate) now: Instant,
    pub(crate) limits: Limits,
    slaac: bool,
    pub(crate) addresses: Vec<Cidr>,
    pub(crate) secrets: Secrets,
    pub(crate) table: Table,
    pub(crate) time_wait: TimeWaitList,
    pub(crate) slots: Slots,
    pub(crate) timers: Timers,
    dirty: VecDeque<u32>,
    pub(crate) awaiting: Vec<u32>,
    #[expect(
        clippy::vec_box,
        reason = "a place of the table takes the box, and nothing is moved"
    )]
    pub(crate) spare_tcp: Vec<Box<Conn>>,
    #[expect(
        clippy::vec_box,
        reason = "a place of the table takes the box, and nothing is moved"
    )]
    pub(crate) spare_udp: Vec<Box<Udp>>,
    pub(crate) statistics: Statistics,
    pub(crate) fixes: Fixes,
    /// Half-open connections, the oldest first, and some that are not any more: the slots of their
    /// listener and their own, and their initial sequence number.
    pub(crate) half_open: VecDeque<(u32, u32, u32)>,
    /// When all frames that had arrived were last processed.
    pub(crate) drained_at: Instant,
}

/// Converts a time to smoltcp's type.
pub(crate) fn micros(now: Instant) -> Micros {
    Micros::from_micros(i64::try_from(now.micros()).unwrap_or(i64::MAX))
}

fn plain(cidr: IpCidr) -> Cidr {
    Cidr {
        address: cidr.address().into(),
        prefix: cidr.prefix_len(),
    }
}

impl<D: Device> Smoltcp<D> {
    /// Creates a stack over a device. It sends nothing before the first poll.
    ///
    /// # Errors
    ///
    /// See [`NewError`].
    pub fn new(device: D, config: &Config) -> Result<Self, NewError> {
        Self::with_fixes(device, config, Fixes::all(FIXES))
    }

    /// As [`Smoltcp::new`], with these of [`FIXES`] only.
    ///
    /// # Errors
    ///
    /// See [`NewError`].
    pub fn with_fixes(device: D, config: &Config, fixes: Fixes) -> Result<Self, NewError> {
        let limits = device.limits();
        let most = ADDRESSES - 1;
        if config.addresses.len() > most {
            return Err(NewError::TooManyAddresses(most));
        }
        let multicast = |address: IpAddr| address.is_multicast() || address.is_unspecified();
        let broadcast = IpAddr::V4(core::net::Ipv4Addr::BROADCAST);
        let bad = |cidr: &Cidr| multicast(cidr.address) || cidr.address == broadcast;
        if config.addresses.iter().any(bad) || limits.address[0] & 1 == 1 {
            return Err(NewError::NotUnicast);
        }
        if limits.mtu < LEAST_MTU {
            return Err(NewError::SmallMtu(LEAST_MTU));
        }
        let buffers = 1..=1 << 30;
        if !buffers.contains(&config.limits.receive_buffer)
            || !buffers.contains(&config.limits.send_buffer)
        {
            return Err(NewError::Buffers(1 << 30));
        }
        let secrets = Secrets::new(&config.seed);
        let output = Output::new(limits, fixes.on(ICMP_ERROR_RATE));
        let mut sink = Sink::default();
        let mut stack = Self {
            iface: interface(&output, limits.address, secrets.number(), config.slaac),
            clock: interface(&output, limits.address, 0, false),
            drain: Interface::new(
                iface::Config::new(SmoltcpAddress::Ip),
                &mut sink,
                Micros::ZERO,
            ),
            device: Reordering::new(
                device,
                ReorderingFixes {
                    hold: fixes.on(REORDERING_WINDOW),
                    windows: fixes.on(DUPLICATE_ACK_WINDOW),
                },
            ),
            output,
            sink,
            no_sockets: SocketSet::new(Vec::new()),
            hardware: limits.address,
            now: Instant::ZERO,
            limits: config.limits,
            slaac: config.slaac,
            addresses: Vec::with_capacity(ADDRESSES),
            table: secrets.table(),
            secrets,
            time_wait: TimeWaitList::new(config.limits.tcp_sockets.max(4096)),
            slots: Slots::default(),
            timers: Timers::default(),
            dirty: VecDeque::new(),
            awaiting: Vec::new(),
            spare_tcp: Vec::new(),
            spare_udp: Vec::new(),
            statistics: Statistics::default(),
            fixes,
            half_open: VecDeque::new(),
            drained_at: Instant::ZERO,
        };
        stack.configure(config);
        Ok(stack)
    }

    fn configure(&mut self, config: &Config) {
        let ethernet = SmoltcpAddress::Ethernet(EthernetAddress(self.hardware));
        let prefix = Ipv6Cidr::new(core::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 0), 64);
        self.iface.update_ip_addrs(|addresses| {
            let own = config
                .addresses
                .iter()
                .map(|cidr| IpCidr::new(cidr.address.into(), cidr.prefix));
            let link_local = Ipv6Cidr::from_link_prefix(&prefix, ethernet).map(IpCidr::Ipv6);
            for cidr in link_local.into_iter().chain(own) {
                // The number of addresses was checked.
                let _ = addresses.push(cidr);
            }
        });
        // The tables have room for these routes.
        if let Some(gateway) = config.gateway_v4 {
            let _ = self.iface.routes_mut().add_default_ipv4_route(gateway);
        }
        if let Some(gateway) = config.gateway_v6 {
            let _ = self.iface.routes_mut().add_default_ipv6_route(gateway);
        }
        self.drain.routes_mut().update(|routes| {
            let v4 = Route::new_ipv4_gateway(core::net::Ipv4Addr::new(192, 0, 2, 1));
            let v6 = Route::new_ipv6_gateway(core::net::Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1));
            let _ = routes.push(v4);
            let _ = routes.push(v6);
        });
        self.read_addresses();
    }

    fn read_addresses(&mut self) {
        self.addresses.clear();
        self.addresses
            .extend(self.iface.ip_addrs().iter().copied().map(plain));
    }

    /// Creates an interface that generates its first sequence number from `seed` and accepts
    /// segments for any address.
    pub(crate) fn opener(&self, seed: u64) -> Interface {
        let mut opener = interface(&self.output, self.hardware, seed, false);
        opener.set_any_ip(true);
        opener
    }

    /// Returns the device.
    pub fn device(&self) -> &D {
        self.device.inner()
    }

    /// Returns the device.
    pub fn device_mut(&mut self) -> &mut D {
        self.device.inner_mut()
    }

    /// Returns which fixes are on.
    pub fn fixes(&self) -> Fixes {
        self.fixes
    }

    /// Returns the number of connections in TIME-WAIT. They are not counted as sockets and have no
    /// buffers.
    pub fn time_waits(&self) -> usize {
        self.time_wait.len()
    }

    pub(crate) fn is_local(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|own| own.address == address)
    }

    /// Returns the source address for `address`, or `None` without a route.
    pub(crate) fn source(&self, address: IpAddr) -> Option<IpAddr> {
        if address.is_unspecified() || self.is_local(address) || address.is_loopback() {
            return None;
        }
        let near = |cidr: &IpCidr| cidr.contains_addr(&address.into());
        let routes = self.iface.routes();
        let router = match address {
            IpAddr::V4(_) => routes.get_default_ipv4_route(),
            IpAddr::V6(_) => routes.get_default_ipv6_route(),
        };
        let broadcast = address == IpAddr::V4(core::net::Ipv4Addr::BROADCAST);
        let direct = address.is_multicast() || broadcast;
        if !direct && router.is_none() && !self.iface.ip_addrs().iter().any(near) {
            return None;
        }
        self.iface
            .get_source_address(&address.into())
            .map(Into::into)
    }

    /// Queues a socket for output.
    pub(crate) fn queue_output(&mut self, index: u32) {
        let slot = &mut self.slots[index];
        if !slot.dirty {
            slot.dirty = true;
            self.dirty.push_back(index);
        }
    }

    /// Records that a socket waits for neighbor discovery.
    pub(crate) fn await_neighbor(&mut self, index: u32) {
        let slot = &mut self.slots[index];
        if !slot.awaiting {
            slot.awaiting = true;
            self.awaiting.push(index);
        }
    }

    /// Lets each socket that may have something to send do so once.
    pub(crate) fn send_pending(&mut self) {
        for _ in 0..self.dirty.len() {
            let Some(index) = self.dirty.pop_front() else {
                break;
            };
            self.slots[index].dirty = false;
            match self.slots[index].kind {
                Kind::Conn(_) => self.send_tcp(index),
                Kind::Udp(_) => self.send_udp(index),
                _ => {}
            }
        }
    }

    /// Returns whether all TCP sockets are in use.
    pub(crate) fn is_full(&self) -> bool {
        self.statistics.tcp_sockets >= self.limits.tcp_sockets as u64
    }

    /// Queues an event if the readiness has new flags, or if `anyway` is set and it has any.
    pub(crate) fn notify(&mut self, index: u32, anyway: bool) {
        let ready = self.ready(index);
        let slot = &mut self.slots[index];
        let more = !slot.seen.contains(ready) || (anyway && !ready.is_empty());
        slot.seen = ready;
        if more && self.slots.is_open(index) {
            self.slots.queue_event(index);
        }
    }

    /// Records the readiness that the owner has seen.
    pub(crate) fn seen(&mut self, index: u32) {
        let ready = self.ready(index);
        self.slots[index].seen = ready;
    }

    pub(crate) fn ready(&self, index: u32) -> Readiness {
        match &self.slots[index].kind {
            Kind::Free | Kind::New { .. } => Readiness::NONE,
            Kind::Listener(listener, _) if listener.ready.is_empty() => Readiness::NONE,
            Kind::Listener(..) => Readiness::READABLE,
            Kind::Conn(conn) => conn.readiness(),
            Kind::Udp(udp) => udp.readiness(self.limits.datagrams),
        }
    }

    /// Returns the deadline of a socket in microseconds.
    pub(crate) fn due(&mut self, index: u32) -> Option<u64> {
        let set = match &self.slots[index].kind {
            Kind::Conn(conn) => &conn.socket.set,
            Kind::Udp(udp) => &udp.socket.set,
            _ => return None,
        };
        let at = self.clock.poll_at(micros(self.now), set)?;
        Some(u64::try_from(at.total_micros()).unwrap_or(0))
    }

    fn maintain(&mut self) {
        while let Some(index) = self.time_wait.overdue(self.now) {
            self.remove_time_wait(index);
        }
        if !self.slaac {
            return;
        }
        let now = micros(self.now);
        let before = self.iface.slaac_updated_at();
        self.iface.poll_maintenance(now);
        if self.iface.slaac_updated_at() != before {
            self.read_addresses();
        }
        let mut port = Port {
            device: &mut self.device,
            output: &mut self.output,
            frame: None,
        };
        self.iface.poll_egress(now, &mut port, &mut self.no_sockets);
    }

    /// Passes a received frame to its socket.
    fn process(&mut self, mut frame: Frame) {
        self.statistics.frames_in += 1;
        self.statistics.bytes_in += frame.bytes.len() as u64;
        if self.fixes.on(IPV6_EXTENSION_HEADERS)
            && let Some(length) = wire::remove_extension_headers(&mut frame.bytes)
        {
            frame.bytes.narrow(0..length);
        }
        let kind = wire::parse(&frame.bytes, frame.checksum);
        let ours = frame
            .bytes
            .first_chunk::<6>()
            .is_some_and(|to| *to == self.hardware || to[0] & 1 == 1);
        match kind {
            wire::Kind::Malformed => self.statistics.malformed += 1,
            _ if !ours => {}
            wire::Kind::Fragment => self.statistics.no_room += 1,
            wire::Kind::Segment(segment) => self.process_tcp(frame, &segment),
            wire::Kind::Datagram(datagram) => self.process_udp(&frame, &datagram),
            wire::Kind::Unreachable(what) => self.unreachable(&what),
            wire::Kind::TooBig(what) => self.lower_path_mtu(&what, &frame.bytes),
            wire::Kind::Neighbor => {
                self.process_unassigned(&frame.bytes);
                for at in 0..self.awaiting.len() {
                    let index = self.awaiting[at];
                    self.slots[index].awaiting = false;
                    self.queue_output(index);
                }
                self.awaiting.clear();
            }
            wire::Kind::AddressProbe(address) => self.defend(address),
            wire::Kind::Other => self.process_unassigned(&frame.bytes),
        }
    }

    /// Responds to duplicate address detection for a local address. smoltcp would respond to the
    /// unspecified address.
    fn defend(&mut self, address: core::net::Ipv6Addr) {
        let wanted = IpAddr::V6(address);
        if self.addresses.iter().any(|own| own.address == wanted) {
            let hardware = self.hardware;
            let length = discovery::DEFENSE_FRAME;
            self.output.emit(&mut self.device, length, |frame| {
                discovery::defend(frame, address, hardware);
            });
        }
    }

    /// Lets smoltcp process a frame that belongs to no socket.
    pub(crate) fn process_unassigned(&mut self, frame: &[u8]) {
        let mut port = Port {
            device: &mut self.device,
            output: &mut self.output,
            frame: Some(frame),
        };
        self.iface
            .poll_ingress_single(micros(self.now), &mut port, &mut self.no_sockets);
    }

    /// Removes a connection in TIME-WAIT.
    pub(crate) fn remove_time_wait(&mut self, index: u32) {
        let record = self.time_wait.remove(index);
        self.table.remove(&record.key);
    }

    /// Responds to a segment with one without data, to the link-layer address of its sender.
    /// With a time to `echo`, it has timestamps.
    pub(crate) fn answer(
        &mut self,
        frame: &[u8],
        segment: &wire::Segment,
        answer: wire::Answer,
        echo: Option<u32>,
    ) {
        let length = wire::answer_length(segment);
        let hardware = self.hardware;
        self.output.set_echo(echo);
        self.output.emit(&mut self.device, length, |reply| {
            wire::answer(reply, frame, segment, hardware, answer);
        });
    }

    /// Returns the sockets that are bound to a local address or to a wildcard that includes it.
    pub(crate) fn bound(&self, realm: Realm, local: SocketAddr) -> impl Iterator<Item = u32> + '_ {
        [local.ip(), wildcard_for(local.ip()).ip(), V6_ALL]
            .into_iter()
            .filter_map(move |ip| self.table.get(&Key::port(realm, ip, local.port())).copied())
    }

    /// Returns whether a port is in use.
    pub(crate) fn taken(&self, realm: Realm, local: SocketAddr) -> bool {
        let held = |ip: IpAddr| self.table.contains_key(&Key::port(realm, ip, local.port()));
        let all = wildcard_for(local.ip()).ip();
        if !local.ip().is_unspecified() {
            return held(local.ip()) || held(all);
        }
        let alike = |own: &&Cidr| own.address.is_ipv4() == local.is_ipv4();
        held(all)
            || self
                .addresses
                .iter()
                .filter(alike)
                .any(|own| held(own.address))
    }

    /// Binds a socket to a port; port 0 selects a free one. `None` if the port is in use or none is
    /// free.
    pub(crate) fn take_port(
        &mut self,
        realm: Realm,
        local: SocketAddr,
        index: u32,
    ) -> Option<(SocketAddr, Key)> {
        let local = if local.port() == 0 {
            self.secrets
                .any_port()
                .map(|port| SocketAddr::new(local.ip(), port))
                .find(|local| !self.taken(realm, *local))?
        } else if self.taken(realm, local) {
            return None;
        } else {
            local
        };
        let key = Key::port(realm, local.ip(), local.port());
        self.table.insert(key, index);
        Some((local, key))
    }
}

impl<D: Device> Stack for Smoltcp<D> {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics;
        let filter = self.device.counters();
        statistics.frames_in += filter.kept;
        statistics.bytes_in += filter.kept_bytes;
        statistics.frames_out = self.output.frames;
        statistics.bytes_out = self.output.bytes;
        statistics.no_room += self.output.no_room;
        statistics
    }

    fn poll(&mut self, now: Instant) -> bool {
        self.now = self.now.max(now);
        self.output.now = self.now;
        self.device.set_now(self.now);
        self.maintain();
        self.output.retry(&mut self.device);
        let mut taken = 0;
        while taken < BATCH {
            let Some(frame) = self.device.receive() else {
                self.drained_at = self.now;
                break;
            };
            taken += 1;
            self.process(frame);
        }
        while let Some((at, index)) = self.timers.next() {
            // Pending frames may change what a timer does, so they are processed first.
            let late = if taken == BATCH {
                TIMER_DELAY_MICROS
            } else {
                0
            };
            if at.saturating_add(late) > self.now.micros() {
                break;
            }
            self.timers.set(index, None);
            self.expire(index);
        }
        self.send_pending();
        self.device.flush();
        taken == BATCH || (!self.dirty.is_empty() && !self.output.is_held())
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        self.now = self.now.max(now);
        let now = self.now.micros();
        let timer = self.timers.next().map(|(at, _)| at);
        let work = match (self.output.is_held(), self.dirty.is_empty()) {
            (true, _) => Some(now + RETRY_MICROS),
            (false, false) => Some(now),
            (false, true) => None,
        };
        let router = if self.slaac {
            self.iface
                .poll_at(micros(self.now), &self.no_sockets)
                .map(|at| u64::try_from(at.total_micros()).unwrap_or(0))
        } else {
            None
        };
        let held = self.device.deadline().map(Instant::micros);
        [timer, work, router, held]
            .into_iter()
            .flatten()
            .min()
            .map(|at| Instant::from_micros(at.max(now)))
    }

    fn next_event(&mut self) -> Option<(SocketId, Readiness)> {
        while let Some(id) = self.slots.next_event() {
            let ready = self.ready(id.index);
            if !ready.is_empty() {
                return Some((id, ready));
            }
        }
        None
    }

    fn addresses(&self) -> Vec<Cidr> {
        self.addresses.clone()
    }

    fn readiness(&self, id: SocketId) -> Readiness {
        match self.slots.get(id) {
            Some(_) => self.ready(id.index),
            None => Readiness::NONE,
        }
    }
}

const V6_ALL: IpAddr = IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED);

fn interface(output: &Output, hardware: HardwareAddress, seed: u64, slaac: bool) -> Interface {
    let ethernet = SmoltcpAddress::Ethernet(EthernetAddress(hardware));
    let mut config = iface::Config::new(ethernet);
    config.random_seed = seed;
    config.slaac = slaac;
    Interface::new(config, &mut CapabilitiesOnly(output), Micros::ZERO)
}

/// A device that provides its capabilities only.
struct CapabilitiesOnly<'a>(&'a Output);

impl smoltcp::phy::Device for CapabilitiesOnly<'_> {
    type RxToken<'t>
        = crate::port::Received<'t>
    where
        Self: 't;
    type TxToken<'t>
        = crate::port::Discard<'t>
    where
        Self: 't;

    fn receive(
        &mut self,
        _now: Micros,
    ) -> Option<(crate::port::Received<'_>, crate::port::Discard<'_>)> {
        None
    }

    fn transmit(&mut self, _now: Micros) -> Option<crate::port::Discard<'_>> {
        None
    }

    fn capabilities(&self) -> smoltcp::phy::DeviceCapabilities {
        self.0.capabilities()
    }
}
