//! What may transmit: lwIP with its device at hand.

use alloc::rc::Rc;
use core::ffi::c_int;
use core::mem::transmute;
use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::ptr;

use swapstone_net::Instant;
use swapstone_net::device::{Checksum, Device, ETHERNET_HEADER, Frame};

use crate::ffi::{self, Address, Part};
use crate::state::{Role, state, token};
use crate::{Core, free_received};

/// lwIP's ERR_MEM, ERR_RTE and ERR_USE.
const NO_MEMORY: c_int = -1;
const IN_USE: c_int = -8;

/// What came of sending a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It is on its way.
    Done,
    /// There is no room, here or in the device.
    NoRoom,
    /// There is no way to the peer.
    NoRoute,
}

/// A core whose device is at hand.
pub struct Active<'a> {
    core: &'a mut Core,
}

impl<'a> Active<'a> {
    pub(crate) fn new(core: &'a mut Core, device: &'a mut dyn Device) -> Self {
        let device: *mut (dyn Device + 'a) = device;
        // SAFETY: only the lifetime changes, and `drop` takes the pointer away before it is over. If this value is leaked the pointer
        // stays, but only an `Active` (which sets it anew) transmits, and the core's own end clears it first. No reference to the state
        // lives.
        unsafe {
            state().device = Some(transmute::<
                *mut (dyn Device + 'a),
                *mut (dyn Device + 'static),
            >(device))
        };
        Self { core }
    }

    /// The core itself.
    pub fn core(&mut self) -> &mut Core {
        self.core
    }

    /// Begin the life on the link, if that was not done yet. Times before the first poll are not known, and count from it.
    pub fn begin(&mut self) {
        if !self.core.begun {
            self.core.begun = true;
            // SAFETY: the device is at hand.
            unsafe { ffi::lw_up() };
        }
    }

    /// What time it is: everything until the next call happens now.
    pub fn set_now(&mut self, now: Instant) {
        // SAFETY: no other reference to the state lives.
        unsafe { state().now = now };
        if !self.core.polled {
            self.core.polled = true;
            self.core.next = [now + period(0), now + period(1)];
        }
        self.begin();
    }

    /// The device's next frame.
    pub fn receive(&mut self) -> Option<Frame> {
        // SAFETY: `new` has borrowed the device for as long as this value lives; no reference to the state lives across the call.
        unsafe { state().device.and_then(|device| (*device).receive()) }
    }

    /// Let the device send what it has only collected.
    pub fn flush(&mut self) {
        // SAFETY: as in `receive`.
        unsafe {
            if let Some(device) = state().device {
                (*device).flush();
            }
        }
    }

    /// Give lwIP a frame.
    pub fn input(&mut self, frame: Frame, copy: bool) {
        // SAFETY: no reference to the state lives across the calls into C.
        unsafe {
            let state = state();
            state.frames_in += 1;
            state.bytes_in += frame.bytes.len() as u64;
            if frame.bytes.len() <= ETHERNET_HEADER {
                state.malformed += 1;
                return;
            }
            let verified = c_int::from(frame.checksum != Checksum::Unknown);
            if copy {
                let mut bytes = frame.bytes;
                if ffi::lw_input(ptr::null_mut(), bytes.as_mut_ptr(), bytes.len(), verified) == 0 {
                    crate::state::state().no_room += 1;
                }
            } else {
                let (node, bytes, size) = state.nodes.take(frame.bytes);
                ffi::lw_input(node, bytes, size, verified);
            }
            ffi::lw_limit_waiting(self.core.waiting_most);
        }
    }

    /// How many received frames are held.
    pub fn held(&self) -> usize {
        // SAFETY: no other reference to the state lives.
        unsafe { state().nodes.in_use }
    }

    /// Let the timers that are due expire, and what the device had no room for be tried again.
    pub fn timers(&mut self) {
        // SAFETY: no reference to the state lives across the calls into C.
        unsafe {
            let now = state().now;
            let full = core::mem::take(&mut state().full);
            if full {
                ffi::lw_tcp_retry();
            }
            if ffi::lw_tcp_running() == 0 {
                // The timer of TCP stands still without connections.
                self.core.next[0] = now + period(0);
            }
            while self.core.next[0] <= now || self.core.next[1] <= now {
                let which = usize::from(self.core.next[1] < self.core.next[0]);
                ffi::lw_timer(which as c_int);
                let next = self.core.next[which] + period(which);
                // After a long sleep a timer catches up with two minutes, which is more than any of lwIP's times.
                let floor = Instant::from_micros(now.micros().saturating_sub(120_000_000));
                self.core.next[which] = next.max(floor);
            }
        }
    }

    /// Listen in this slot; `false` if there is no memory.
    pub fn listen(&mut self, index: u32, local: SocketAddr, backlog: usize) -> bool {
        // SAFETY: no reference to the state lives across the call.
        unsafe {
            let pcb =
                ffi::lw_tcp_listen(token(index), &Address::of_socket(local.ip()), local.port());
            let slot = &mut state().slots[index as usize];
            slot.pcb = pcb;
            slot.backlog = backlog;
            !pcb.is_null()
        }
    }

    /// Begin to connect in this slot; `false` if there is no memory.
    pub fn connect(&mut self, index: u32, local: SocketAddr, remote: SocketAddr) -> bool {
        // SAFETY: no reference to the state lives across the call. lwIP keeps no address.
        unsafe {
            let (from, to) = (local.ip().into(), remote.ip().into());
            let pcb = ffi::lw_tcp_connect(token(index), &from, local.port(), &to, remote.port());
            state().slots[index as usize].pcb = pcb;
            !pcb.is_null()
        }
    }

    /// Queue bytes, copied; how many.
    pub fn write(&mut self, index: u32, bytes: &[u8], more: bool) -> usize {
        self.queue(index, bytes, true, more)
    }

    /// Queue bytes that are sent from where they are; how many.
    ///
    /// # Panics
    ///
    /// If the range is not inside the bytes.
    pub fn write_shared(&mut self, index: u32, bytes: &Rc<[u8]>, range: Range<usize>) -> usize {
        let written = self.queue(index, &bytes[range], false, false);
        if written > 0 {
            // SAFETY: no other reference to the state lives.
            let slot = unsafe { &mut state().slots[index as usize] };
            // The memory is held until the last of these bytes is acknowledged, or lwIP has dropped the connection with its queues.
            match slot.shared.back_mut() {
                Some((end, last)) if Rc::ptr_eq(last, bytes) => *end = slot.written,
                _ => slot.shared.push_back((slot.written, bytes.clone())),
            }
        }
        written
    }

    fn queue(&mut self, index: u32, bytes: &[u8], copy: bool, more: bool) -> usize {
        // SAFETY: no reference to the state lives across the call; a control block that we have is alive. What is not copied is kept by
        // `write_shared`, the only caller that does not ask for a copy.
        unsafe {
            let pcb = state().slots[index as usize].pcb;
            if pcb.is_null() || bytes.is_empty() {
                return 0;
            }
            let written =
                ffi::lw_tcp_write(pcb, bytes.as_ptr(), bytes.len(), copy.into(), more.into());
            state().slots[index as usize].written += written as u64;
            written
        }
    }

    /// Send what is queued, as far as windows allow.
    pub fn output(&mut self, index: u32) {
        // SAFETY: as in `queue`.
        unsafe {
            let pcb = state().slots[index as usize].pcb;
            if !pcb.is_null() {
                ffi::lw_tcp_output(pcb);
            }
        }
    }

    /// Show the first piece of what has arrived, and take as many bytes as `look` returns; `None` if nothing is there.
    ///
    /// # Panics
    ///
    /// If `look` returns more than it was shown.
    pub fn read(&mut self, index: u32, look: &mut dyn FnMut(&[u8]) -> usize) -> Option<usize> {
        // SAFETY: the packet is taken out of the queue while it is looked at, so `look` can't reach it by another way; if it panics, the
        // packet is only leaked.
        unsafe {
            let first = state().slots[index as usize].received.pop_front()?;
            let mut size = 0;
            let bytes = ffi::lw_pbuf_bytes(first, &mut size);
            let taken = look(core::slice::from_raw_parts(bytes, size));
            assert!(taken <= size, "{taken} bytes were taken of {size}");
            let rest = if taken == 0 {
                first
            } else {
                ffi::lw_pbuf_advance(first, taken)
            };
            let slot = &mut state().slots[index as usize];
            if !rest.is_null() {
                slot.received.push_front(rest);
            }
            slot.bytes -= taken;
            let pcb = slot.pcb;
            if !pcb.is_null() && taken > 0 {
                ffi::lw_tcp_consumed(pcb, taken);
            }
            Some(taken)
        }
    }

    /// Throw away what has arrived, and what will; returns whether there was anything.
    pub fn discard(&mut self, index: u32) -> bool {
        // SAFETY: as in `queue`.
        unsafe {
            let slot = &mut state().slots[index as usize];
            slot.discard = true;
            let (pcb, bytes) = (slot.pcb, slot.bytes);
            free_received(index);
            if !pcb.is_null() && bytes > 0 {
                ffi::lw_tcp_consumed(pcb, bytes);
            }
            bytes > 0
        }
    }

    /// Whether what arrives is thrown away.
    pub fn discards(&self, index: u32) -> bool {
        // SAFETY: no other reference to the state lives.
        unsafe { state().slots[index as usize].discard }
    }

    /// End the sending half.
    pub fn end(&mut self, index: u32) {
        // SAFETY: as in `queue`.
        unsafe {
            let pcb = state().slots[index as usize].pcb;
            if !pcb.is_null() {
                ffi::lw_tcp_end(pcb);
            }
        }
    }

    /// Give a slot up. A connection lives on until `deadline` at most, or is reset at once.
    pub fn close(&mut self, index: u32, reset: bool, deadline: Instant) {
        // SAFETY: no reference to the state lives across the calls; a control block that we have is alive.
        unsafe {
            while let Some(waiting) = state().slots[index as usize].waiting.pop_front() {
                self.close(waiting, true, deadline);
            }
            free_received(index);
            let slot = &mut state().slots[index as usize];
            let pcb = slot.pcb;
            if pcb.is_null() {
                state().free_slot(index);
            } else if slot.backlog > 0 {
                slot.pcb = ptr::null_mut();
                // What is half open loses its listener; lwIP refuses it when it completes.
                for other in &mut state().slots {
                    if other.parent == Some(index) {
                        other.parent = None;
                    }
                }
                ffi::lw_tcp_close_listener(pcb);
                state().free_slot(index);
            } else if slot.time_wait {
                ffi::lw_tcp_forget(pcb);
                state().free_slot(index);
            } else if reset {
                ffi::lw_tcp_abort(pcb);
                state().free_slot(index);
            } else {
                slot.role = Role::Orphan;
                slot.deadline = deadline;
                state().orphans += 1;
                ffi::lw_tcp_close(pcb);
            }
        }
    }

    /// Open a UDP socket; `None` if there is no memory or slot.
    pub fn udp_open(&mut self) -> Option<u32> {
        // SAFETY: no reference to the state lives across the call.
        unsafe {
            let index = state().udp.iter().position(|slot| slot.pcb.is_null())?;
            let pcb = ffi::lw_udp_new(token(index as u32));
            state().udp[index].pcb = pcb;
            (!pcb.is_null()).then_some(index as u32)
        }
    }

    /// Give a UDP socket an address; `false` if it is taken.
    pub fn udp_bind(&mut self, index: u32, local: SocketAddr) -> bool {
        // SAFETY: an open slot has a control block.
        unsafe {
            let pcb = state().udp[index as usize].pcb;
            ffi::lw_udp_bind(pcb, &Address::of_socket(local.ip()), local.port()) != IN_USE
        }
    }

    /// Choose its only peer, or none.
    pub fn udp_connect(&mut self, index: u32, peer: Option<SocketAddr>) {
        // SAFETY: an open slot has a control block.
        unsafe {
            let pcb = state().udp[index as usize].pcb;
            match peer {
                Some(peer) => ffi::lw_udp_connect(pcb, &peer.ip().into(), peer.port()),
                None => ffi::lw_udp_disconnect(pcb),
            }
        }
    }

    /// Send a datagram of these parts, from where they are. There are at most 32 of them.
    pub fn udp_send(&mut self, index: u32, parts: &[&[u8]], peer: SocketAddr) -> Sent {
        let mut list = [Part {
            bytes: ptr::null(),
            size: 0,
        }; 32];
        for (to, from) in list.iter_mut().zip(parts) {
            *to = Part {
                bytes: from.as_ptr(),
                size: from.len(),
            };
        }
        let address: Address = IpAddr::into(peer.ip());
        // SAFETY: an open slot has a control block; lwIP copies what it keeps.
        let result = unsafe {
            let pcb = state().udp[index as usize].pcb;
            ffi::lw_udp_send(
                pcb,
                list.as_ptr(),
                parts.len().min(32),
                &address,
                peer.port(),
            )
        };
        match result {
            0 => Sent::Done,
            NO_MEMORY => Sent::NoRoom,
            _ => Sent::NoRoute,
        }
    }

    /// Show the datagram that has waited longest; it is gone if `look` says so. `None` if none waits.
    pub fn udp_read(
        &mut self,
        index: u32,
        scratch: &mut alloc::vec::Vec<u8>,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Option<()> {
        // SAFETY: as in `read`.
        unsafe {
            let datagram = state().udp[index as usize].received.pop_front()?;
            let (mut size, whole) = (0, ffi::lw_pbuf_total(datagram.data));
            let bytes = ffi::lw_pbuf_bytes(datagram.data, &mut size);
            let gone = if size == whole {
                look(core::slice::from_raw_parts(bytes, size), datagram.from)
            } else {
                // It came in fragments, which lie apart.
                scratch.resize(whole, 0);
                ffi::lw_pbuf_copy(datagram.data, scratch.as_mut_ptr());
                look(scratch, datagram.from)
            };
            if gone {
                ffi::lw_pbuf_free(datagram.data);
            } else {
                state().udp[index as usize].received.push_front(datagram);
            }
            Some(())
        }
    }

    /// Give a UDP socket up.
    pub fn udp_close(&mut self, index: u32) {
        // SAFETY: no reference to the state lives across the calls.
        unsafe {
            while let Some(datagram) = state().udp[index as usize].received.pop_front() {
                ffi::lw_pbuf_free(datagram.data);
            }
            let pcb = core::mem::replace(&mut state().udp[index as usize].pcb, ptr::null_mut());
            if !pcb.is_null() {
                ffi::lw_udp_remove(pcb);
            }
        }
    }
}

fn period(which: usize) -> core::time::Duration {
    // SAFETY: a constant.
    core::time::Duration::from_millis(u64::from(unsafe { ffi::lw_timer_period(which as c_int) }))
}

impl Drop for Active<'_> {
    fn drop(&mut self) {
        // SAFETY: no other reference to the state lives.
        unsafe { state().device = None };
    }
}
