// SPDX-License-Identifier: MIT OR Apache-2.0
//! lwIP's raw API behind a safe interface, for `swapstone-net-lwip`.
//!
//! This crate contains all C and all `unsafe` code of the lwIP stack: lwIP itself, compiled from a
//! source folder (see the README), and C code that hides its structures. lwIP keeps its state in
//! global variables, so a process has at most one [`Core`].
//!
//! Operations that can send frames need an [`Active`]: a core with access to its device. Callbacks
//! only record changes; [`Core::next_change`] returns the sockets that changed.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod active;
mod ffi;
mod heap;
mod received;
mod state;

use alloc::boxed::Box;
use core::ffi::CStr;
use core::fmt;
use core::marker::PhantomData;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use core::sync::atomic::{AtomicBool, Ordering};
use core::time::Duration;

use swapstone_net::device::{Device, DeviceLimits};
use swapstone_net::{Cidr, Instant, Limits};

pub use active::{Active, Sent};
use ffi::Address;
use state::{Role, State, state};

/// Why lwIP has ended a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer has reset it.
    Reset,
    /// The peer acknowledged nothing.
    TimedOut,
}

/// Why lwIP can't be started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The process already has an instance: lwIP keeps its state in global variables.
    Exists,
    /// lwIP has rejected the device.
    Refused,
}

/// The settings of lwIP.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The properties of the device.
    pub device: DeviceLimits,
    /// The IPv4 address and prefix length.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// The default gateway for IPv4.
    pub gateway_v4: Option<Ipv4Addr>,
    /// The default gateway for IPv6, used without a router advertisement.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Enables SLAAC.
    pub slaac: bool,
    /// The seed of ports, sequence numbers and hashes.
    pub seed: [u8; 32],
    /// Upper limits.
    pub limits: Limits,
    /// Bit N is set if the fix N of `enum lw_fix` is on.
    pub fixes: u32,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// It was established.
    pub connected: bool,
    /// The peer has sent a FIN. Data may still be unread.
    pub ended: bool,
    /// Unread bytes.
    pub readable: usize,
    /// Free bytes of the send buffer.
    pub room: usize,
    /// lwIP has a control block for it.
    pub alive: bool,
    /// It is in TIME_WAIT.
    pub time_wait: bool,
    /// The error that ended it.
    pub failure: Option<Failure>,
    /// Connections in the accept queue.
    pub waiting: usize,
}

/// Counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Received frames.
    pub frames_in: u64,
    /// Bytes of received frames.
    pub bytes_in: u64,
    /// Sent frames.
    pub frames_out: u64,
    /// Bytes of sent frames.
    pub bytes_out: u64,
    /// Frames dropped as malformed.
    pub malformed: u64,
    /// Frames dropped for lack of memory.
    pub no_room: u64,
    /// Retransmitted TCP segments.
    pub retransmitted: u64,
    /// TCP slots in use.
    pub tcp: usize,
    /// TCP slots whose socket was closed by its owner.
    pub orphans: usize,
    /// Connections in TIME_WAIT. They have no slot.
    pub waiting: usize,
    /// Bytes of packet memory in use.
    pub memory: usize,
    /// Bytes of packet memory allocated so far.
    pub memory_taken: usize,
    /// Received frames that are held.
    pub held: usize,
    /// Segments whose connection or listener was at the front of lwIP's list.
    pub found_first: u64,
    /// Connections that TCP's timers have examined.
    pub timers_visited: u64,
}

/// Options of lwIP that are set when it is compiled, by the variables of the build in the README.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compiled {
    /// Payload is summed when it is queued (`LWIP_CHECKSUM_ON_COPY`).
    pub checksum_on_copy: bool,
    /// Bytes that a segment of a small write has room for (`TCP_OVERSIZE`); 0: none.
    pub oversize: u32,
    /// Data out of order is kept (`TCP_QUEUE_OOSEQ`).
    pub ooseq: bool,
    /// TCP connections in lwIP's fixed pools; 0: all memory comes from one allocator.
    pub pools: u32,
}

/// A socket whose state changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A TCP slot.
    Tcp(u32),
    /// A UDP slot.
    Udp(u32),
}

static EXISTS: AtomicBool = AtomicBool::new(false);

/// lwIP: the only instance of this process.
pub struct Core {
    next: [Instant; 2],
    begun: bool,
    polled: bool,
    waiting_most: usize,
    /// Confined to the thread that created it.
    here: PhantomData<*mut ()>,
}

impl Core {
    /// Starts lwIP.
    ///
    /// # Errors
    ///
    /// The process already has an instance.
    pub fn new(settings: &Settings) -> Result<Self, StartError> {
        if EXISTS.swap(true, Ordering::Acquire) {
            return Err(StartError::Exists);
        }
        let limits = settings.limits;
        heap::set_limit(limits.packet_memory);
        let mut new = Box::new(State::new(
            limits.tcp_sockets,
            limits.udp_sockets,
            limits.datagrams,
        ));
        let none = Address::default();
        let of = |address: Option<IpAddr>| address.map_or(none, Address::from);
        let device = &settings.device;
        let c = ffi::Settings {
            hardware_address: device.address,
            slaac: settings.slaac.into(),
            checksum_offload: device.checksum_offload.into(),
            mtu: device.mtu.min(0xffff) as u16,
            segments: device.segments.min(60_000) as u16,
            receive_buffer: limits.receive_buffer.clamp(2048, 1 << 30) as u32,
            send_buffer: limits.send_buffer.clamp(2048, 1 << 30) as u32,
            key: core::array::from_fn(|word| {
                u64::from_ne_bytes(core::array::from_fn(|at| settings.seed[8 * word + at]))
            }),
            v4: of(settings.v4.map(|(address, _)| address.into())),
            mask_v4: of(settings.v4.map(|(_, prefix)| {
                let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
                Ipv4Addr::from_bits(mask).into()
            })),
            gateway_v4: of(settings.gateway_v4.map(IpAddr::from)),
            gateway_v6: of(settings.gateway_v6.map(IpAddr::from)),
            table: new.table.as_mut_ptr().cast(),
            buckets: new.table.len(),
            fixes: settings.fixes,
        };
        // SAFETY: no reference to a former state exists: there is no other core. The table lives as
        // long as the state.
        let started = unsafe {
            state::set(Some(new));
            ffi::lw_start(&c) != 0
        };
        let core = Self {
            next: [Instant::ZERO; 2],
            begun: false,
            polled: false,
            waiting_most: limits.tcp_sockets.max(8),
            here: PhantomData,
        };
        if started {
            Ok(core)
        } else {
            Err(StartError::Refused)
        }
    }

    /// Returns the version of lwIP.
    pub fn version() -> &'static str {
        // SAFETY: a constant string with a terminating NUL.
        unsafe { CStr::from_ptr(ffi::lw_version()) }
            .to_str()
            .unwrap_or("")
    }

    /// Returns the options that lwIP was compiled with.
    pub fn compiled() -> Compiled {
        // SAFETY: it reads constants; the numbers are below their count.
        let of = |which| unsafe { ffi::lw_option(which) };
        Compiled {
            checksum_on_copy: of(0) != 0,
            oversize: of(1),
            ooseq: of(2) != 0,
            pools: of(3),
        }
    }

    /// Gives access to the device, for operations that can send frames.
    pub fn enter<'a>(&'a mut self, device: &'a mut dyn Device) -> Active<'a> {
        Active::new(self, device)
    }

    /// Adds an IPv6 address with a prefix of 64 bits; `false` if there is no free slot.
    pub fn add_v6(&mut self, address: Ipv6Addr) -> bool {
        // SAFETY: lwIP is started. It sends nothing before `begin`.
        unsafe { ffi::lw_add_v6(&IpAddr::V6(address).into()) != 0 }
    }

    /// Returns the addresses.
    pub fn addresses(&self) -> impl Iterator<Item = Cidr> + '_ {
        (0..)
            .map_while(|at| {
                let (mut address, mut prefix) = (Address::default(), 0);
                // SAFETY: both are writable.
                let more = unsafe { ffi::lw_address_at(at, &mut address, &mut prefix) != 0 };
                more.then(|| address.get().map(|address| Cidr::new(address, prefix)))
            })
            .flatten()
    }

    /// Returns the source address for a peer; `None` without a route.
    pub fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        let mut local = Address::default();
        // SAFETY: both are valid.
        let found = unsafe { ffi::lw_source_for(&remote.into(), &mut local) != 0 };
        found.then(|| local.get()).flatten()
    }

    /// Returns whether a connection with these addresses exists.
    pub fn taken(&self, local: SocketAddr, remote: SocketAddr) -> bool {
        // SAFETY: all are valid.
        unsafe {
            ffi::lw_tcp_exists(
                &local.ip().into(),
                local.port(),
                &remote.ip().into(),
                remote.port(),
            ) != 0
        }
    }

    /// Returns a number that is unpredictable without the seed.
    pub fn random(&mut self) -> u32 {
        // SAFETY: it increments a counter only.
        unsafe { ffi::lw_random() }
    }

    /// Returns the offset of the search for an ephemeral port: a keyed hash (RFC 6056, algorithm
    /// 3).
    pub fn first_port(&self, local: IpAddr, remote: SocketAddr) -> u32 {
        // SAFETY: all are valid.
        unsafe { ffi::lw_first_port(&local.into(), &remote.ip().into(), remote.port()) }
    }

    /// Returns the next socket whose state changed.
    pub fn next_change(&mut self) -> Option<Change> {
        // SAFETY: no other reference to the state exists.
        let state = unsafe { state() };
        let number = state.changed.pop_front()?;
        let tcp = state.slots.len() as u32;
        if number < tcp {
            state.slots[number as usize].changed = false;
            Some(Change::Tcp(number))
        } else {
            state.udp[(number - tcp) as usize].changed = false;
            Some(Change::Udp(number - tcp))
        }
    }

    /// Returns once whether memory is available again after an allocation failed. With pools it may
    /// always be: they don't report it.
    pub fn memory_recovered(&mut self) -> bool {
        heap::recovered() || Self::compiled().pools != 0
    }

    /// Allocates a TCP slot for a new socket.
    pub fn tcp_open(&mut self) -> Option<u32> {
        // SAFETY: no other reference to the state exists.
        unsafe { state() }.take_slot(Role::Owned)
    }

    /// Takes the first connection from the accept queue of a listener: its slot and both addresses.
    pub fn accept(&mut self, listener: u32) -> Option<(u32, SocketAddr, SocketAddr)> {
        loop {
            // SAFETY: no other reference to the state exists.
            let state = unsafe { state() };
            let index = state.slots[listener as usize].waiting.pop_front()?;
            let slot = &mut state.slots[index as usize];
            slot.parent = None;
            slot.role = Role::Owned;
            if let Some((local, remote)) = slot
                .names
                .filter(|_| !slot.pcb.is_null() || slot.bytes > 0 || slot.ended)
            {
                return Some((index, local, remote));
            }
            // It was reset before it was accepted, and has no data.
            free_received(index);
            // SAFETY: as above.
            unsafe { state::state() }.free_slot(index);
        }
    }

    /// Returns the state of a TCP slot.
    pub fn condition(&self, index: u32) -> Condition {
        // SAFETY: no other reference to the state exists.
        let slot = unsafe { &state().slots[index as usize] };
        let alive = !slot.pcb.is_null();
        let sends = alive && slot.connected && !slot.time_wait;
        Condition {
            connected: slot.connected,
            ended: slot.ended,
            readable: slot.bytes,
            // SAFETY: lwIP reports when a control block is freed, so this one is valid.
            room: if sends {
                unsafe { ffi::lw_tcp_room(slot.pcb) }
            } else {
                0
            },
            alive,
            time_wait: slot.time_wait,
            failure: slot.failure,
            waiting: slot.waiting.len(),
        }
    }

    /// Returns the number of unacknowledged bytes.
    pub fn unacknowledged(&self, index: u32) -> u64 {
        // SAFETY: no other reference to the state exists.
        let slot = unsafe { &state().slots[index as usize] };
        slot.written - slot.acknowledged
    }

    /// Returns the addresses of a connection.
    pub fn names(&self, index: u32) -> Option<(SocketAddr, SocketAddr)> {
        // SAFETY: no other reference to the state exists.
        names(unsafe { state().slots[index as usize].pcb })
    }

    /// Disables Nagle's algorithm.
    pub fn set_nodelay(&mut self, index: u32, at_once: bool) {
        // SAFETY: the control block of a slot is valid.
        unsafe {
            let pcb = state().slots[index as usize].pcb;
            if !pcb.is_null() {
                ffi::lw_tcp_nodelay(pcb, at_once.into());
            }
        }
    }

    /// Sets the keep-alive idle time in milliseconds; 0 disables keep-alive.
    pub fn set_keep_alive(&mut self, index: u32, after_ms: u32) {
        // SAFETY: the control block of a slot is valid.
        unsafe {
            let pcb = state().slots[index as usize].pcb;
            if !pcb.is_null() {
                ffi::lw_tcp_keep_alive(pcb, after_ms);
            }
        }
    }

    /// Returns the number of datagrams in the receive queue.
    pub fn udp_waiting(&self, index: u32) -> usize {
        // SAFETY: no other reference to the state exists.
        unsafe { state().udp[index as usize].received.len() }
    }

    /// Returns whether the device's transmit queue was full.
    pub fn device_full(&self) -> bool {
        // SAFETY: no other reference to the state exists.
        unsafe { state().full }
    }

    /// Returns the counters.
    pub fn counts(&self) -> Counts {
        let (memory, memory_taken) = heap::usage();
        // SAFETY: no other reference to the state exists, and lwIP's counters are only read.
        unsafe {
            let state = state();
            Counts {
                frames_in: state.frames_in,
                bytes_in: state.bytes_in,
                frames_out: state.frames_out,
                bytes_out: state.bytes_out,
                malformed: state.malformed + ffi::lw_malformed(),
                no_room: state.no_room + ffi::lw_no_room(),
                retransmitted: ffi::lw_retransmitted(),
                tcp: state.slots.len() - state.free.len(),
                orphans: state.orphans,
                waiting: ffi::lw_counts.waiting,
                memory,
                memory_taken,
                held: state.nodes.in_use,
                found_first: ffi::lw_found_first(),
                timers_visited: ffi::lw_counts.timers_visited,
            }
        }
    }

    /// Returns whether ACKs wait until the application could read.
    pub fn owes_acks(&self) -> bool {
        // SAFETY: it reads a counter of the C code.
        unsafe { ffi::lw_tcp_owes() != 0 }
    }

    /// Returns the next deadline of the timers, or the time to retry a full transmit queue.
    pub fn deadline(&self, now: Instant) -> Instant {
        // SAFETY: it reads counters of lwIP; no other reference to the state exists.
        let (running, full) = unsafe { (ffi::lw_tcp_running() != 0, state().full) };
        let due = if running {
            self.next[0].min(self.next[1])
        } else {
            self.next[1]
        };
        if full {
            due.min(now + Duration::from_millis(1))
        } else {
            due
        }
    }
}

fn names(pcb: *mut ffi::TcpPcb) -> Option<(SocketAddr, SocketAddr)> {
    if pcb.is_null() {
        return None;
    }
    let (mut local, mut remote, mut local_port, mut port) =
        (Address::default(), Address::default(), 0, 0);
    // SAFETY: the control block of a slot is valid; the others are writable.
    unsafe { ffi::lw_tcp_names(pcb, &mut local, &mut local_port, &mut remote, &mut port) };
    Some((
        SocketAddr::new(local.get()?, local_port),
        SocketAddr::new(remote.get()?, port),
    ))
}

/// Frees the received data of a slot.
fn free_received(index: u32) {
    // SAFETY: no reference to the state exists during the call that frees.
    unsafe {
        while let Some(data) = state().slots[index as usize].received.pop_front() {
            ffi::lw_pbuf_free(data);
        }
        state().slots[index as usize].bytes = 0;
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: no reference to the state exists during the calls.
        unsafe {
            // lwIP may send a RST or ACK; the device may no longer exist.
            state().device = None;
            for index in 0..state().slots.len() {
                free_received(index as u32);
            }
            for index in 0..state().udp.len() {
                while let Some(datagram) = state().udp[index].received.pop_front() {
                    ffi::lw_pbuf_free(datagram.data);
                }
            }
            ffi::lw_stop();
            state::set(None);
        }
        heap::clear();
        EXISTS.store(false, Ordering::Release);
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Core(lwIP {})", Self::version())
    }
}
