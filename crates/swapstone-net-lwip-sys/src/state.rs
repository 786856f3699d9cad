// SPDX-License-Identifier: MIT OR Apache-2.0
//! The state that lwIP's callbacks change, and the callbacks.
//!
//! A callback only records changes: data in a queue, a flag, the socket in the list of changed
//! ones. It calls no other code, except `transmit` of the device. So no reference to the state
//! exists while C code runs.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::net::SocketAddr;
use core::ptr;
use core::time::Duration;

use swapstone_net::Instant;
use swapstone_net::device::{Device, Outgoing, PartialChecksum, Segmentation};

use crate::Failure;
use crate::ffi::{self, Address, Offload, Part, Pbuf, TcpPcb, UdpPcb};
use crate::received;

/// The use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Free.
    Free,
    /// A socket with an owner.
    Owned,
    /// A connection in SYN_RCVD.
    HalfOpen,
    /// A connection in an accept queue.
    Waiting,
    /// A connection whose owner has closed the socket.
    Orphan,
}

/// A TCP slot.
pub struct Slot {
    pub role: Role,
    pub pcb: *mut TcpPcb,
    /// Of a listener: the backlog.
    pub backlog: usize,
    pub half_open: usize,
    /// Of a half-open connection: how many were created before it.
    pub born: u64,
    pub waiting: VecDeque<u32>,
    /// Of a connection that was not accepted yet: its listener.
    pub parent: Option<u32>,
    /// Both addresses, set when the connection was accepted.
    pub names: Option<(SocketAddr, SocketAddr)>,
    /// Received data and its length.
    pub received: VecDeque<*mut Pbuf>,
    pub bytes: usize,
    /// Bytes queued and acknowledged so far.
    pub written: u64,
    pub acknowledged: u64,
    /// Memory that is sent without a copy, and the stream offset up to which it is needed.
    pub shared: VecDeque<(u64, Rc<[u8]>)>,
    pub connected: bool,
    /// The peer has sent a FIN.
    pub ended: bool,
    /// The connection is in TIME_WAIT.
    pub time_wait: bool,
    pub failure: Option<Failure>,
    /// Received data is discarded.
    pub discard: bool,
    /// The timeout of a connection without an owner; of a half-open one, until when it is kept even if
    /// another one needs its place, because its ACK may be on the way.
    pub deadline: Instant,
    pub changed: bool,
}

impl Slot {
    fn new() -> Self {
        Self {
            role: Role::Free,
            pcb: ptr::null_mut(),
            backlog: 0,
            half_open: 0,
            born: 0,
            waiting: VecDeque::new(),
            parent: None,
            names: None,
            received: VecDeque::new(),
            bytes: 0,
            written: 0,
            acknowledged: 0,
            shared: VecDeque::new(),
            connected: false,
            ended: false,
            time_wait: false,
            failure: None,
            discard: false,
            deadline: Instant::ZERO,
            changed: false,
        }
    }

    /// Resets the slot and keeps the memory of its queues. Its data must have been freed.
    fn reset(&mut self, role: Role) {
        self.waiting.clear();
        self.received.clear();
        self.shared.clear();
        // Each field is assigned: a slot is large, and a struct literal would be copied twice.
        self.pcb = ptr::null_mut();
        self.backlog = 0;
        self.half_open = 0;
        self.born = 0;
        self.parent = None;
        self.names = None;
        self.bytes = 0;
        self.written = 0;
        self.acknowledged = 0;
        self.connected = false;
        self.ended = false;
        self.time_wait = false;
        self.failure = None;
        self.discard = false;
        self.deadline = Instant::ZERO;
        self.role = role;
    }
}

/// How long a half-open connection is kept even if another one needs its place.
const LEAST_AGE: Duration = Duration::from_millis(10);
/// For how much of that time the arrived frames must have been processed.
const LEAST_PROCESSED: Duration = Duration::from_millis(5);

/// A received datagram.
pub struct Datagram {
    pub data: *mut Pbuf,
    pub from: SocketAddr,
}

/// A UDP slot.
pub struct UdpSlot {
    pub pcb: *mut UdpPcb,
    pub received: VecDeque<Datagram>,
    pub changed: bool,
}

/// The state that callbacks change.
pub struct State {
    pub slots: Vec<Slot>,
    pub free: Vec<u32>,
    pub udp: Vec<UdpSlot>,
    /// Slots that changed, UDP after TCP.
    pub changed: VecDeque<u32>,
    pub device: Option<*mut dyn Device>,
    pub nodes: received::Nodes,
    pub table: Vec<usize>,
    pub now: Instant,
    pub orphans: usize,
    /// The number of half-open connections so far.
    pub births: u64,
    /// The slots of half-open connections and their `born`, the oldest first, and some that are not any
    /// more.
    pub half_open: VecDeque<(u32, u64)>,
    pub datagrams: usize,
    pub frames_in: u64,
    pub bytes_in: u64,
    pub frames_out: u64,
    pub bytes_out: u64,
    pub no_room: u64,
    pub malformed: u64,
    /// The device's transmit queue was full.
    pub full: bool,
    /// When all frames that had arrived were last processed.
    pub drained_at: Instant,
}

impl State {
    pub fn new(tcp: usize, udp: usize, datagrams: usize) -> Self {
        let mut slots = Vec::with_capacity(tcp);
        slots.resize_with(tcp, Slot::new);
        let mut udp_slots = Vec::with_capacity(udp);
        udp_slots.resize_with(udp, || UdpSlot {
            pcb: ptr::null_mut(),
            received: VecDeque::new(),
            changed: false,
        });
        Self {
            slots,
            free: (0..tcp as u32).rev().collect(),
            udp: udp_slots,
            changed: VecDeque::with_capacity(tcp + udp),
            device: None,
            nodes: received::Nodes::default(),
            table: alloc::vec![0; (4 * tcp).next_power_of_two().max(64)],
            now: Instant::ZERO,
            orphans: 0,
            births: 0,
            half_open: VecDeque::new(),
            datagrams,
            frames_in: 0,
            bytes_in: 0,
            frames_out: 0,
            bytes_out: 0,
            no_room: 0,
            malformed: 0,
            full: false,
            drained_at: Instant::ZERO,
        }
    }

    pub fn take_slot(&mut self, role: Role) -> Option<u32> {
        let index = self.free.pop()?;
        self.slots[index as usize].reset(role);
        Some(index)
    }

    /// Its control block must be freed or detached, and its data freed.
    pub fn free_slot(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.role == Role::Orphan {
            self.orphans -= 1;
        }
        slot.reset(Role::Free);
        self.free.push(index);
    }

    pub fn note(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if !slot.changed {
            slot.changed = true;
            self.changed.push_back(index);
        }
    }

    fn note_udp(&mut self, index: u32) {
        let slot = &mut self.udp[index as usize];
        if !slot.changed {
            slot.changed = true;
            self.changed.push_back(self.slots.len() as u32 + index);
        }
    }
}

struct Global(UnsafeCell<Option<Box<State>>>);

// SAFETY: only one `Core` exists at a time, on one thread, and lwIP runs in its methods only.
unsafe impl Sync for Global {}

static STATE: Global = Global(UnsafeCell::new(None));

/// Creates or drops the state.
///
/// # Safety
///
/// No reference from `state` may exist.
pub unsafe fn set(state: Option<Box<State>>) {
    // SAFETY: guaranteed by the caller.
    unsafe { *STATE.0.get() = state };
}

/// Returns the state while a `Core` exists.
///
/// # Safety
///
/// No other reference from here may exist, and none during a call into C or to the device.
pub unsafe fn state() -> &'static mut State {
    // SAFETY: guaranteed by the caller. Callbacks run only while a `Core` exists.
    unsafe {
        (*STATE.0.get())
            .as_mut()
            .expect("lwIP runs only while a Core exists")
    }
}

/// A token is a slot's index plus one, because lwIP uses NULL for no argument.
pub fn token(index: u32) -> usize {
    index as usize + 1
}

fn with(token: usize, what: impl FnOnce(&mut State, u32)) {
    // SAFETY: callbacks get no other reference, and `what` calls neither C nor the device.
    what(unsafe { state() }, token as u32 - 1);
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_gone(token: usize) {
    with(token, |state, index| {
        let slot = &mut state.slots[index as usize];
        slot.pcb = ptr::null_mut();
        slot.shared.clear();
        match slot.role {
            Role::HalfOpen => {
                if let Some(parent) = slot.parent {
                    state.slots[parent as usize].half_open -= 1;
                }
                state.free_slot(index);
            }
            Role::Orphan => state.free_slot(index),
            _ => state.note(index),
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_time_wait(token: usize) -> c_int {
    let mut forget = false;
    with(token, |state, index| {
        let slot = &mut state.slots[index as usize];
        if slot.role == Role::Orphan {
            // The peer has acknowledged the FIN, and the owner has closed the socket.
            state.free_slot(index);
            forget = true;
        } else {
            slot.time_wait = true;
            slot.shared.clear();
            state.note(index);
        }
    });
    c_int::from(forget)
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_room(listener: usize) -> c_int {
    let mut room = false;
    with(listener, |state, index| {
        let slot = &state.slots[index as usize];
        // More connections may be half open than the backlog, because they may be accepted
        // together. A SYN flood is limited, too.
        let most = slot.backlog.max((state.slots.len() / 4).min(256));
        room = slot.waiting.len() < slot.backlog && slot.half_open < most && !state.free.is_empty();
    });
    c_int::from(room)
}

/// Returns the oldest half-open connection of a listener, or NULL.
#[unsafe(no_mangle)]
extern "C" fn lw_rust_oldest(listener: usize) -> *mut TcpPcb {
    let mut oldest = ptr::null_mut();
    with(listener, |state, parent| {
        let mut at = 0;
        while let Some((index, born)) = state.half_open.get(at).copied() {
            let slot = &state.slots[index as usize];
            if slot.role != Role::HalfOpen || slot.born != born {
                state.half_open.remove(at);
            } else if slot.parent != Some(parent) {
                at += 1;
            } else if slot.deadline > state.now
                || slot.deadline > state.drained_at + LEAST_PROCESSED
            {
                break; // its ACK may be on the way, or wait in the device
            } else {
                state.half_open.remove(at);
                oldest = slot.pcb;
                break;
            }
        }
    });
    oldest
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_full(token: usize) -> c_int {
    let mut full = false;
    with(token, |state, index| {
        if let Some(parent) = state.slots[index as usize].parent {
            let listener = &state.slots[parent as usize];
            full = listener.waiting.len() >= listener.backlog;
        }
    });
    c_int::from(full)
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_half_open(listener: usize, pcb: *mut TcpPcb) -> usize {
    let mut made = 0;
    with(listener, |state, parent| {
        let index = state
            .take_slot(Role::HalfOpen)
            .expect("lw_rust_room checked the room");
        let slot = &mut state.slots[index as usize];
        slot.pcb = pcb;
        slot.parent = Some(parent);
        slot.born = state.births;
        slot.deadline = state.now + LEAST_AGE;
        state.half_open.push_back((index, state.births));
        state.births += 1;
        // Established ones are removed here, so that the queue stays short.
        if state.half_open.len() > 2 * state.slots.len() + 16 {
            let slots = &state.slots;
            state.half_open.retain(|(index, born)| {
                let slot = &slots[*index as usize];
                slot.role == Role::HalfOpen && slot.born == *born
            });
        }
        state.slots[parent as usize].half_open += 1;
        made = token(index);
    });
    made
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_accepted(token: usize) {
    with(token, |state, index| {
        let slot = &mut state.slots[index as usize];
        slot.role = Role::Waiting;
        slot.connected = true;
        slot.names = crate::names(slot.pcb);
        if let Some(parent) = slot.parent {
            let listener = &mut state.slots[parent as usize];
            listener.half_open -= 1;
            listener.waiting.push_back(index);
            state.note(parent);
        }
    });
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_connected(token: usize) {
    with(token, |state, index| {
        state.slots[index as usize].connected = true;
        state.note(index);
    });
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_received(token: usize, data: *mut Pbuf) {
    with(token, |state, index| {
        let slot = &mut state.slots[index as usize];
        if data.is_null() {
            slot.ended = true;
        } else {
            // SAFETY: lwIP passes ownership of the packet. Reading its length calls nothing.
            slot.bytes += unsafe { ffi::lw_pbuf_total(data) };
            slot.received.push_back(data);
        }
        state.note(index);
    });
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_sent(token: usize, size: u16) {
    with(token, |state, index| {
        let slot = &mut state.slots[index as usize];
        slot.acknowledged += u64::from(size);
        while slot
            .shared
            .front()
            .is_some_and(|(end, _)| *end <= slot.acknowledged)
        {
            slot.shared.pop_front();
        }
        state.note(index);
    });
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_failed(token: usize, error: c_int) {
    with(token, |state, index| {
        let slot = &mut state.slots[index as usize];
        if slot.role == Role::Free {
            return; // It was never accepted and is already removed.
        }
        slot.failure = match error {
            // ERR_CLSD: the peer has acknowledged our FIN after its own.
            -15 => None,
            // ERR_RST
            -14 => Some(Failure::Reset),
            // ERR_ABRT, from timers
            _ => Some(Failure::TimedOut),
        };
        state.note(index);
    });
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_overdue(token: usize) -> c_int {
    let mut overdue = false;
    with(token, |state, index| {
        let slot = &state.slots[index as usize];
        overdue = slot.role == Role::Orphan && state.now >= slot.deadline;
    });
    c_int::from(overdue)
}

/// # Safety
///
/// `data` must be a packet whose ownership is passed, and `from` a readable address.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_datagram(
    token: usize,
    data: *mut Pbuf,
    from: *const Address,
    port: u16,
) {
    let mut refused = true;
    // SAFETY: guaranteed by the caller.
    let from = unsafe { *from };
    with(token, |state, index| {
        let most = state.datagrams;
        let slot = &mut state.udp[index as usize];
        if slot.received.len() >= most {
            state.no_room += 1;
        } else if let Some(address) = from.get() {
            slot.received.push_back(Datagram {
                data,
                from: SocketAddr::new(address, port),
            });
            refused = false;
            state.note_udp(index);
        }
    });
    if refused {
        // SAFETY: it is owned.
        unsafe { ffi::lw_pbuf_free(data) };
    }
}

/// The maximum number of parts of a frame; `PARTS` in device.c.
const PARTS: usize = 64;

/// # Safety
///
/// `parts` must be `count` readable parts.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_transmit(
    parts: *const Part,
    count: usize,
    how: *const Offload,
) -> c_int {
    // SAFETY: guaranteed by the caller; no reference to the state exists.
    let (parts, how, device) = unsafe {
        (
            core::slice::from_raw_parts(parts, count),
            &*how,
            state().device,
        )
    };
    let Some(device) = device else {
        return 0;
    };
    let mut slices: [&[u8]; PARTS] = [&[]; PARTS];
    let mut total = 0;
    for (slice, part) in slices.iter_mut().zip(parts) {
        // SAFETY: lwIP's packets are readable while it sends them.
        *slice = unsafe { core::slice::from_raw_parts(part.bytes, part.size) };
        total += part.size;
    }
    let frame = Outgoing {
        parts: &slices[..count],
        partial: (how.start != 0).then_some(PartialChecksum {
            start: how.start,
            offset: how.offset,
        }),
        segmentation: (how.size != 0).then_some(Segmentation {
            size: how.size,
            headers: how.headers,
            ipv6: how.ipv6 != 0,
        }),
    };
    // SAFETY: `Core::enter` borrows the device as long as this pointer is set.
    let taken = unsafe { (*device).transmit(frame) }.is_ok();
    // SAFETY: no reference to the state exists.
    let state = unsafe { state() };
    if taken {
        state.frames_out += 1;
        state.bytes_out += total as u64;
    } else {
        state.full = true;
        state.no_room += 1;
    }
    c_int::from(taken)
}

/// # Safety
///
/// `received` must be a node of this crate that is not used any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_received_free(node: *mut c_void) {
    // SAFETY: guaranteed by the caller; no other reference to the state exists.
    unsafe { state().nodes.free(node.cast()) };
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_micros() -> u64 {
    // SAFETY: no other reference to the state exists: `with` never calls C code that reads the
    // time.
    unsafe { state().now.micros() }
}

/// # Safety
///
/// `message` must be a string with a terminating NUL.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_broken(text: *const c_char, line: c_int) {
    // SAFETY: guaranteed by the caller.
    let text = unsafe { CStr::from_ptr(text) };
    // A panic can't unwind through C, so this aborts the program.
    panic!("lwIP: {text:?}, line {line}");
}
