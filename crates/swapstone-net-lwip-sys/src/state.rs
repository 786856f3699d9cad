//! What lwIP's callbacks write to, and the callbacks themselves.
//!
//! A callback only takes note: of data in a queue, of a flag, of the socket in the list of changed ones. Nobody's code runs inside it but
//! the device's `transmit`. So no reference to the state lives while C runs.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::UnsafeCell;
use core::ffi::{CStr, c_char, c_int, c_void};
use core::net::SocketAddr;
use core::ptr;

use swapstone_net::Instant;
use swapstone_net::device::{Device, Outgoing, PartialChecksum, Segmentation};

use crate::Failure;
use crate::ffi::{self, Address, Offload, Part, Pbuf, TcpPcb, UdpPcb};
use crate::received;

/// What a slot is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Nothing.
    Free,
    /// A socket with an owner.
    Owned,
    /// A connection that a listener's peer has begun.
    HalfOpen,
    /// A connection that waits to be accepted.
    Waiting,
    /// A connection whose owner is gone.
    Orphan,
}

/// One TCP socket.
pub struct Slot {
    pub role: Role,
    pub pcb: *mut TcpPcb,
    /// Of a listener: how many connections may be begun or wait.
    pub backlog: usize,
    pub half_open: usize,
    pub waiting: VecDeque<u32>,
    /// Of a connection that was not accepted yet: its listener.
    pub parent: Option<u32>,
    /// Both ends' addresses, as of the acceptance.
    pub names: Option<(SocketAddr, SocketAddr)>,
    /// What has arrived, and how many bytes that is.
    pub received: VecDeque<*mut Pbuf>,
    pub bytes: usize,
    /// Bytes queued and acknowledged so far.
    pub written: u64,
    pub acknowledged: u64,
    /// Memory that is sent from where it is, and up to where in the stream it is needed.
    pub shared: VecDeque<(u64, Rc<[u8]>)>,
    pub connected: bool,
    /// The peer has sent its last byte.
    pub ended: bool,
    /// Both sides have ended, and lwIP only waits.
    pub time_wait: bool,
    pub failure: Option<Failure>,
    /// What arrives is thrown away.
    pub discard: bool,
    /// When a connection without an owner is given up.
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

    /// As new, but for the memory of its queues; the data must have been freed.
    fn reset(&mut self, role: Role) {
        self.waiting.clear();
        self.received.clear();
        self.shared.clear();
        // Field by field: a slot is large, and moving a new one in would be two copies of it for each connection.
        self.pcb = ptr::null_mut();
        self.backlog = 0;
        self.half_open = 0;
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

/// A datagram that has arrived.
pub struct Datagram {
    pub data: *mut Pbuf,
    pub from: SocketAddr,
}

/// One UDP socket.
pub struct UdpSlot {
    pub pcb: *mut UdpPcb,
    pub received: VecDeque<Datagram>,
    pub changed: bool,
}

/// Everything that callbacks write to.
pub struct State {
    pub slots: Vec<Slot>,
    pub free: Vec<u32>,
    pub udp: Vec<UdpSlot>,
    /// Slots that something has changed for; UDP's are numbered after TCP's.
    pub changed: VecDeque<u32>,
    pub device: Option<*mut dyn Device>,
    pub nodes: received::Nodes,
    pub table: Vec<usize>,
    pub now: Instant,
    pub orphans: usize,
    pub datagrams: usize,
    pub frames_in: u64,
    pub bytes_in: u64,
    pub frames_out: u64,
    pub bytes_out: u64,
    pub no_room: u64,
    pub malformed: u64,
    /// The device had no room.
    pub full: bool,
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
            datagrams,
            frames_in: 0,
            bytes_in: 0,
            frames_out: 0,
            bytes_out: 0,
            no_room: 0,
            malformed: 0,
            full: false,
        }
    }

    pub fn take_slot(&mut self, role: Role) -> Option<u32> {
        let index = self.free.pop()?;
        self.slots[index as usize].reset(role);
        Some(index)
    }

    /// Its control block must be gone or have forgotten it, and its data be freed.
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

// SAFETY: only one `Core` exists at a time, it stays on its thread, and all of lwIP runs inside its methods.
unsafe impl Sync for Global {}

static STATE: Global = Global(UnsafeCell::new(None));

/// Begin or end the state's life.
///
/// # Safety
///
/// No reference from `state` may live.
pub unsafe fn set(state: Option<Box<State>>) {
    // SAFETY: the caller's promise.
    unsafe { *STATE.0.get() = state };
}

/// The state, while a `Core` exists.
///
/// # Safety
///
/// No other reference from here may live, and none across a call into C or to the device.
pub unsafe fn state() -> &'static mut State {
    // SAFETY: the caller's promise. Callbacks come only while a `Core` exists.
    unsafe {
        (*STATE.0.get())
            .as_mut()
            .expect("lwIP runs only while a Core exists")
    }
}

/// A token is a slot's number plus one: lwIP's null is nobody.
pub fn token(index: u32) -> usize {
    index as usize + 1
}

fn with(token: usize, what: impl FnOnce(&mut State, u32)) {
    // SAFETY: callbacks get no reference from elsewhere, and `what` calls neither C nor the device.
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
            // The peer has the last byte: nobody asks for this connection any more.
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
        // Many peers may begin at once and be accepted at once, so more may be half open than may wait; a flood finds an end, too.
        let most = slot.backlog.max((state.slots.len() / 4).min(256));
        room = slot.waiting.len() < slot.backlog && slot.half_open < most && !state.free.is_empty();
    });
    c_int::from(room)
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
            .expect("lw_rust_room has said so");
        let slot = &mut state.slots[index as usize];
        slot.pcb = pcb;
        slot.parent = Some(parent);
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
            // SAFETY: lwIP hands the packet over. Asking for its length is no call that could come back here.
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
            return; // It was never accepted, and is gone already.
        }
        slot.failure = match error {
            // ERR_CLSD: the peer has acknowledged our end after its own: in order.
            -15 => None,
            // ERR_RST
            -14 => Some(Failure::Reset),
            // ERR_ABRT, as timers say it
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
/// As C calls it: with a packet that is ours now, and a readable address.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_datagram(
    token: usize,
    data: *mut Pbuf,
    from: *const Address,
    port: u16,
) {
    let mut refused = true;
    // SAFETY: the caller's promise.
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
        // SAFETY: it is ours.
        unsafe { ffi::lw_pbuf_free(data) };
    }
}

/// How many pieces a frame can have; `PARTS` in glue.c.
const PARTS: usize = 64;

/// # Safety
///
/// As C calls it: with `count` readable parts.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_transmit(
    parts: *const Part,
    count: usize,
    how: *const Offload,
) -> c_int {
    // SAFETY: the caller's promise; no reference to the state lives.
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
    // SAFETY: `Core::enter` has borrowed the device for as long as this pointer is set.
    let taken = unsafe { (*device).transmit(frame) }.is_ok();
    // SAFETY: no reference to the state lives.
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
/// As C calls it: with a node of ours that nobody uses any more.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_received_free(node: *mut c_void) {
    // SAFETY: the caller's promise; no other reference to the state lives.
    unsafe { state().nodes.free(node.cast()) };
}

#[unsafe(no_mangle)]
extern "C" fn lw_rust_micros() -> u64 {
    // SAFETY: no other reference to the state lives: `with` never calls C that asks for the time.
    unsafe { state().now.micros() }
}

/// # Safety
///
/// As C calls it: with a text that ends in a null.
#[unsafe(no_mangle)]
unsafe extern "C" fn lw_rust_broken(text: *const c_char, line: c_int) {
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) };
    // A panic can't pass through C: this ends the program.
    panic!("lwIP: {text:?}, line {line}");
}
