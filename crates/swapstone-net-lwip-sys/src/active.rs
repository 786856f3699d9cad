// SPDX-License-Identifier: MIT OR Apache-2.0
//! Operations that can send frames: lwIP with access to its device.

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

/// The result of sending a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// It was sent.
    Done,
    /// Packet memory or the transmit queue is exhausted.
    NoRoom,
    /// No route to host.
    NoRoute,
}

/// A core with access to its device.
pub struct Active<'a> {
    core: &'a mut Core,
}

impl<'a> Active<'a> {
    pub(crate) fn new(core: &'a mut Core, device: &'a mut dyn Device) -> Self {
        let device: *mut (dyn Device + 'a) = device;
        // SAFETY: only the lifetime changes, and `drop` clears the pointer before it ends. If this
        // value is leaked, the pointer stays, but only an `Active` transmits, and it sets the
        // pointer; the drop of the core clears it first. No reference to the state exists.
        unsafe {
            state().device = Some(transmute::<
                *mut (dyn Device + 'a),
                *mut (dyn Device + 'static),
            >(device))
        };
        Self { core }
    }

    /// Returns the core.
    pub fn core(&mut self) -> &mut Core {
        self.core
    }

    /// Brings the interface up once. Times before the first poll are unknown, and timers start with
    /// it.
    pub fn begin(&mut self) {
        if !self.core.begun {
            self.core.begun = true;
            // SAFETY: the device is accessible.
            unsafe { ffi::lw_up() };
        }
    }

    /// Sets the current time.
    pub fn set_now(&mut self, now: Instant) {
        // SAFETY: no other reference to the state exists.
        unsafe { state().now = now };
        if !self.core.polled {
            self.core.polled = true;
            self.core.next = [now + period(0), now + period(1)];
        }
        self.begin();
    }

    /// Returns the next frame of the device.
    pub fn receive(&mut self) -> Option<Frame> {
        // SAFETY: `new` borrows the device as long as this value exists; no reference to the state
        // exists during the call.
        unsafe {
            let frame = state().device.and_then(|device| (*device).receive());
            if frame.is_none() {
                let state = state();
                state.drained_at = state.now;
            }
            frame
        }
    }

    /// Lets the device transmit queued frames.
    pub fn flush(&mut self) {
        // SAFETY: as in `receive`.
        unsafe {
            if let Some(device) = state().device {
                (*device).flush();
            }
        }
    }

    /// Passes a frame to lwIP.
    pub fn input(&mut self, frame: Frame, copy: bool) {
        // SAFETY: no reference to the state exists during the calls into C.
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

    /// Returns the number of received frames that are held.
    pub fn held(&self) -> usize {
        // SAFETY: no other reference to the state exists.
        unsafe { state().nodes.in_use }
    }

    /// Sends the ACKs that were delayed until the application could read.
    pub fn acknowledge(&mut self) {
        // SAFETY: no reference to the state exists during the call.
        unsafe { ffi::lw_tcp_acknowledge() }
    }

    /// Runs the timers that are due, and retries after a full transmit queue.
    pub fn timers(&mut self) {
        // SAFETY: no reference to the state exists during the calls into C.
        unsafe {
            let now = state().now;
            let full = core::mem::take(&mut state().full);
            if full {
                ffi::lw_tcp_retry();
            }
            if ffi::lw_tcp_running() == 0 {
                // TCP's timer stops without connections.
                self.core.next[0] = now + period(0);
            }
            while self.core.next[0] <= now || self.core.next[1] <= now {
                let which = usize::from(self.core.next[1] < self.core.next[0]);
                ffi::lw_timer(which as c_int);
                let next = self.core.next[which] + period(which);
                // After a long pause a timer catches up by two minutes, more than any timeout of
                // lwIP.
                let floor = Instant::from_micros(now.micros().saturating_sub(120_000_000));
                self.core.next[which] = next.max(floor);
            }
        }
    }

    /// Listens in this slot; `false` if memory is exhausted.
    pub fn listen(&mut self, index: u32, local: SocketAddr, backlog: usize) -> bool {
        // SAFETY: no reference to the state exists during the call.
        unsafe {
            let pcb =
                ffi::lw_tcp_listen(token(index), &Address::of_socket(local.ip()), local.port());
            let slot = &mut state().slots[index as usize];
            slot.pcb = pcb;
            slot.backlog = backlog;
            !pcb.is_null()
        }
    }

    /// Starts to connect in this slot; `false` if memory is exhausted.
    pub fn connect(&mut self, index: u32, local: SocketAddr, remote: SocketAddr) -> bool {
        // SAFETY: no reference to the state exists during the call. lwIP keeps no address.
        unsafe {
            let (from, to) = (local.ip().into(), remote.ip().into());
            let pcb = ffi::lw_tcp_connect(token(index), &from, local.port(), &to, remote.port());
            state().slots[index as usize].pcb = pcb;
            !pcb.is_null()
        }
    }

    /// Queues a copy of bytes; returns their number.
    pub fn write(&mut self, index: u32, bytes: &[u8], more: bool) -> usize {
        self.queue(index, bytes, true, more)
    }

    /// Queues bytes without a copy; returns their number.
    ///
    /// # Panics
    ///
    /// If the range is out of bounds.
    pub fn write_shared(&mut self, index: u32, bytes: &Rc<[u8]>, range: Range<usize>) -> usize {
        let written = self.queue(index, &bytes[range], false, false);
        if written > 0 {
            // SAFETY: no other reference to the state exists.
            let slot = unsafe { &mut state().slots[index as usize] };
            // The memory is held until its last byte is acknowledged, or until lwIP has freed the
            // connection and its queues.
            match slot.shared.back_mut() {
                Some((end, last)) if Rc::ptr_eq(last, bytes) => *end = slot.written,
                _ => slot.shared.push_back((slot.written, bytes.clone())),
            }
        }
        written
    }

    fn queue(&mut self, index: u32, bytes: &[u8], copy: bool, more: bool) -> usize {
        // SAFETY: no reference to the state exists during the call; the control block of a slot is
        // valid. `write_shared`, the only caller without a copy, holds the memory.
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

    /// Sends queued data as far as the windows allow.
    pub fn output(&mut self, index: u32) {
        // SAFETY: as in `queue`.
        unsafe {
            let pcb = state().slots[index as usize].pcb;
            if !pcb.is_null() {
                ffi::lw_tcp_output(pcb);
            }
        }
    }

    /// Calls `look` with the first piece of received data and removes as many bytes as it returns;
    /// `None` without data.
    ///
    /// # Panics
    ///
    /// If `look` returns more than the length of the slice.
    pub fn read(&mut self, index: u32, look: &mut dyn FnMut(&[u8]) -> usize) -> Option<usize> {
        // SAFETY: the packet is removed from the queue during the call, so `look` can't access it
        // in another way. If `look` panics, the packet is leaked.
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

    /// Discards received and future data; returns whether there was any.
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

    /// Returns whether received data is discarded.
    pub fn discards(&self, index: u32) -> bool {
        // SAFETY: no other reference to the state exists.
        unsafe { state().slots[index as usize].discard }
    }

    /// Shuts down sending.
    pub fn end(&mut self, index: u32) {
        // SAFETY: as in `queue`.
        unsafe {
            let pcb = state().slots[index as usize].pcb;
            if !pcb.is_null() {
                ffi::lw_tcp_end(pcb);
            }
        }
    }

    /// Closes a slot. A connection continues until `deadline`, or is reset at once.
    pub fn close(&mut self, index: u32, reset: bool, deadline: Instant) {
        // SAFETY: no reference to the state exists during the calls; the control block of a slot is
        // valid.
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
                // Connections in SYN_RCVD lose their listener; lwIP resets them when the handshake
                // completes.
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

    /// Opens a UDP socket; `None` if memory or slots are exhausted.
    pub fn udp_open(&mut self) -> Option<u32> {
        // SAFETY: no reference to the state exists during the call.
        unsafe {
            let index = state().udp.iter().position(|slot| slot.pcb.is_null())?;
            let pcb = ffi::lw_udp_new(token(index as u32));
            state().udp[index].pcb = pcb;
            (!pcb.is_null()).then_some(index as u32)
        }
    }

    /// Binds a UDP socket; `false` if the address is in use.
    pub fn udp_bind(&mut self, index: u32, local: SocketAddr) -> bool {
        // SAFETY: an open slot has a control block.
        unsafe {
            let pcb = state().udp[index as usize].pcb;
            ffi::lw_udp_bind(pcb, &Address::of_socket(local.ip()), local.port()) != IN_USE
        }
    }

    /// Sets or removes the only peer.
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

    /// Sends a datagram of at most 32 parts without a copy.
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

    /// Calls `look` with the first datagram; it is removed if `look` returns `true`. `None` without
    /// a datagram.
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
                // A reassembled datagram is not contiguous.
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

    /// Closes a UDP socket.
    pub fn udp_close(&mut self, index: u32) {
        // SAFETY: no reference to the state exists during the calls.
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
        // SAFETY: no other reference to the state exists.
        unsafe { state().device = None };
    }
}
