//! lwIP's raw API behind a safe interface, for `swapstone-net-lwip`.
//!
//! All `unsafe` code and all C of the two crates is here. The C part is lwIP itself, from a pinned archive that the build fetches (see
//! `source.toml`; `LWIP_DIR` names another folder of lwIP's source), and glue that hides lwIP's structures. lwIP is a process-wide
//! singleton, so there is at most one [`Core`].
//!
//! What can transmit is done by an [`Active`]: a core with its device at hand. Callbacks only take note; [`Core::next_change`] says for
//! which sockets.
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

/// Why lwIP has given a connection up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The peer has reset it.
    Reset,
    /// The peer acknowledges nothing.
    TimedOut,
}

/// Why there is no core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// There is one already in this process: lwIP keeps its state in global variables.
    Exists,
    /// lwIP refused the device.
    Refused,
}

/// What lwIP is told when it starts.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What the device can do.
    pub device: DeviceLimits,
    /// Its IPv4 address; lwIP has at most one.
    pub v4: Option<(Ipv4Addr, u8)>,
    /// Where IPv4 packets to other networks go.
    pub gateway_v4: Option<Ipv4Addr>,
    /// Where IPv6 packets to other networks go while no router advertises itself.
    pub gateway_v6: Option<Ipv6Addr>,
    /// Whether it takes addresses from advertisements.
    pub slaac: bool,
    /// What ports, sequence numbers and the index's hashes are drawn from.
    pub seed: [u8; 32],
    /// How much it may hold.
    pub limits: Limits,
}

/// What is known of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// It has come about.
    pub connected: bool,
    /// The peer has sent its last byte (which may still have to be read).
    pub ended: bool,
    /// Bytes that can be read.
    pub readable: usize,
    /// Bytes that there is room for.
    pub room: usize,
    /// Whether lwIP still has it.
    pub alive: bool,
    /// Whether both sides have ended.
    pub time_wait: bool,
    /// Why it was given up.
    pub failure: Option<Failure>,
    /// Connections that wait to be accepted.
    pub waiting: usize,
}

/// Counts of what has happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames and bytes from the device.
    pub frames_in: u64,
    /// Bytes in those.
    pub bytes_in: u64,
    /// Frames and bytes to the device.
    pub frames_out: u64,
    /// Bytes in those.
    pub bytes_out: u64,
    /// Frames that were dropped because they are malformed.
    pub malformed: u64,
    /// Frames that were dropped for lack of room.
    pub no_room: u64,
    /// TCP segments sent again.
    pub retransmitted: u64,
    /// TCP slots in use.
    pub tcp: usize,
    /// Of those, the ones whose owner is gone.
    pub orphans: usize,
    /// Connections in `TIME_WAIT`, which are no sockets any more.
    pub waiting: usize,
    /// Bytes of packet memory in use.
    pub memory: usize,
    /// Bytes of packet memory taken from the allocator so far.
    pub memory_taken: usize,
    /// Received frames whose memory is held.
    pub held: usize,
    /// Segments whose connection or listener was the first that lwIP looked at.
    pub found_first: u64,
    /// Connections that a tick of TCP's timers has looked at, counted each time.
    pub timers_visited: u64,
}

/// A socket that something has changed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A TCP slot.
    Tcp(u32),
    /// A UDP slot.
    Udp(u32),
}

static EXISTS: AtomicBool = AtomicBool::new(false);

/// lwIP: the only one in this process.
pub struct Core {
    next: [Instant; 2],
    begun: bool,
    polled: bool,
    waiting_most: usize,
    /// It stays on the thread that made it.
    here: PhantomData<*mut ()>,
}

impl Core {
    /// Start lwIP.
    ///
    /// # Errors
    ///
    /// There is one already.
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
        };
        // SAFETY: no reference to an old state lives: there is no other core. The table lives as long as the state does.
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

    /// lwIP's version.
    pub fn version() -> &'static str {
        // SAFETY: a constant text that ends in a null.
        unsafe { CStr::from_ptr(ffi::lw_version()) }
            .to_str()
            .unwrap_or("")
    }

    /// Have the device at hand, for all that may transmit.
    pub fn enter<'a>(&'a mut self, device: &'a mut dyn Device) -> Active<'a> {
        Active::new(self, device)
    }

    /// Give it one more IPv6 address, of a network of 64 bits; `false` if it has as many as it can have.
    pub fn add_v6(&mut self, address: Ipv6Addr) -> bool {
        // SAFETY: lwIP has started. Nothing is sent before it is up.
        unsafe { ffi::lw_add_v6(&IpAddr::V6(address).into()) != 0 }
    }

    /// What it is called.
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

    /// The address to send from to a peer; `None` if there is no way there.
    pub fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        let mut local = Address::default();
        // SAFETY: both are valid.
        let found = unsafe { ffi::lw_source_for(&remote.into(), &mut local) != 0 };
        found.then(|| local.get()).flatten()
    }

    /// Whether there is a connection of this name.
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

    /// A number that only who knows the seed can tell.
    pub fn random(&mut self) -> u32 {
        // SAFETY: it only moves a counter on.
        unsafe { ffi::lw_random() }
    }

    /// Where to begin to search for a local port: a keyed hash of addresses and the peer's port.
    pub fn first_port(&self, local: IpAddr, remote: SocketAddr) -> u32 {
        // SAFETY: all are valid.
        unsafe { ffi::lw_first_port(&local.into(), &remote.ip().into(), remote.port()) }
    }

    /// The next socket that something has changed for.
    pub fn next_change(&mut self) -> Option<Change> {
        // SAFETY: no other reference to the state lives.
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

    /// Whether memory, which an operation lacked, is there again; only once.
    pub fn memory_recovered(&mut self) -> bool {
        heap::recovered()
    }

    /// A TCP slot for a new socket.
    pub fn tcp_open(&mut self) -> Option<u32> {
        // SAFETY: no other reference to the state lives.
        unsafe { state() }.take_slot(Role::Owned)
    }

    /// The connection that has waited longest on this listener: its slot, now its owner's, and both names.
    pub fn accept(&mut self, listener: u32) -> Option<(u32, SocketAddr, SocketAddr)> {
        loop {
            // SAFETY: no other reference to the state lives.
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
            // It was reset before anybody asked for it, and brought nothing.
            free_received(index);
            // SAFETY: as above.
            unsafe { state::state() }.free_slot(index);
        }
    }

    /// What is known of a TCP slot.
    pub fn condition(&self, index: u32) -> Condition {
        // SAFETY: no other reference to the state lives.
        let slot = unsafe { &state().slots[index as usize] };
        let alive = !slot.pcb.is_null();
        let sends = alive && slot.connected && !slot.time_wait;
        Condition {
            connected: slot.connected,
            ended: slot.ended,
            readable: slot.bytes,
            // SAFETY: lwIP tells when a control block is gone, so one that we have is alive.
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

    /// Bytes that the peer has not acknowledged.
    pub fn unacknowledged(&self, index: u32) -> u64 {
        // SAFETY: no other reference to the state lives.
        let slot = unsafe { &state().slots[index as usize] };
        slot.written - slot.acknowledged
    }

    /// Names of a connection.
    pub fn names(&self, index: u32) -> Option<(SocketAddr, SocketAddr)> {
        // SAFETY: no other reference to the state lives.
        names(unsafe { state().slots[index as usize].pcb })
    }

    /// Nagle's algorithm off or on.
    pub fn set_nodelay(&mut self, index: u32, at_once: bool) {
        // SAFETY: a control block that we have is alive.
        unsafe {
            let pcb = state().slots[index as usize].pcb;
            if !pcb.is_null() {
                ffi::lw_tcp_nodelay(pcb, at_once.into());
            }
        }
    }

    /// Keep-alive probes after so many milliseconds of silence; 0 for none.
    pub fn set_keep_alive(&mut self, index: u32, after_ms: u32) {
        // SAFETY: a control block that we have is alive.
        unsafe {
            let pcb = state().slots[index as usize].pcb;
            if !pcb.is_null() {
                ffi::lw_tcp_keep_alive(pcb, after_ms);
            }
        }
    }

    /// How many datagrams wait.
    pub fn udp_waiting(&self, index: u32) -> usize {
        // SAFETY: no other reference to the state lives.
        unsafe { state().udp[index as usize].received.len() }
    }

    /// Whether the device had no room for the last frames.
    pub fn device_full(&self) -> bool {
        // SAFETY: no other reference to the state lives.
        unsafe { state().full }
    }

    /// Counts so far.
    pub fn counts(&self) -> Counts {
        let (memory, memory_taken) = heap::usage();
        // SAFETY: no other reference to the state lives, and lwIP's counters are only read.
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

    /// When timers are due at the latest, or the device is worth another try.
    pub fn deadline(&self, now: Instant) -> Instant {
        // SAFETY: a question to lwIP's counters; no other reference to the state lives.
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
    // SAFETY: a control block that we have is alive; the others are writable.
    unsafe { ffi::lw_tcp_names(pcb, &mut local, &mut local_port, &mut remote, &mut port) };
    Some((
        SocketAddr::new(local.get()?, local_port),
        SocketAddr::new(remote.get()?, port),
    ))
}

/// Free what a slot has received.
fn free_received(index: u32) {
    // SAFETY: no reference to the state lives across the call that frees.
    unsafe {
        while let Some(data) = state().slots[index as usize].received.pop_front() {
            ffi::lw_pbuf_free(data);
        }
        state().slots[index as usize].bytes = 0;
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        // SAFETY: no reference to the state lives across the calls.
        unsafe {
            // lwIP may want to acknowledge what it drops; there may be no device any more.
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
