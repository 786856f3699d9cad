// SPDX-License-Identifier: MIT OR Apache-2.0
//! A virtio-net device for `swapstone-net`: `no_std`, for machines without an operating system.
//!
//! The transport (MMIO, PCI) and the address translation ([`Hal`]) are those of the crate
//! `virtio-drivers`. A received frame stays in its buffer until the stack drops it. A sent frame is
//! copied once, into a buffer of the queue. The driver negotiates no offloads. No memory is
//! allocated per frame once the buffer pools have grown.
#![no_std]

use core::fmt;
use core::sync::atomic::{Ordering, fence};

use swapstone_net::buffer::{Buffer, Pool};
use swapstone_net::device::{
    Checksum, Device, DeviceLimits, ETHERNET_HEADER, Frame, Full, HardwareAddress, Outgoing,
};
use virtio_drivers::device::net::VirtIONetRaw;
use virtio_drivers::transport::Transport;
use virtio_drivers::{Error, Hal};

/// The MTU in bytes.
pub const MTU: usize = 1500;
/// The size of a buffer: virtio-net header, Ethernet header and packet.
const SIZE: usize = 2048;

/// A virtio-net device. `QUEUE` is the number of buffers of each queue, a power of two.
pub struct VirtioNet<H: Hal, T: Transport, const QUEUE: usize> {
    // First, so that it is dropped first: the device must release the buffers before they are
    // freed.
    card: VirtIONetRaw<H, T, QUEUE>,
    /// Receive buffers in the device's queue, by token.
    receiving: [Option<Buffer>; QUEUE],
    /// Transmit buffers in the device's queue, by token.
    sending: [Option<Buffer>; QUEUE],
    receive_pool: Pool,
    send_pool: Pool,
    counters: Counters,
}

/// Counters of dropped frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received buffers without a valid frame.
    pub broken_in: u64,
    /// Frames that were too large to send.
    pub refused_out: u64,
}

impl<H: Hal, T: Transport, const QUEUE: usize> VirtioNet<H, T, QUEUE> {
    /// Initializes the device. `frames` is the number of received frames that the stack may hold,
    /// in addition to the receive queue.
    ///
    /// # Errors
    ///
    /// The device is of another type, its queues are shorter, or memory is exhausted.
    pub fn new(transport: T, frames: usize) -> Result<Self, Error> {
        let mut device = Self {
            card: VirtIONetRaw::new(transport)?,
            receiving: [const { None }; QUEUE],
            sending: [const { None }; QUEUE],
            receive_pool: Pool::new(SIZE, frames + QUEUE),
            send_pool: Pool::new(SIZE, QUEUE),
            counters: Counters::default(),
        };
        device.offer();
        Ok(device)
    }

    /// Returns the Ethernet address.
    pub fn address(&self) -> HardwareAddress {
        self.card.mac_address()
    }

    /// Returns the counters of dropped frames.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Fills the receive queue with free buffers.
    fn offer(&mut self) {
        while let Some(mut buffer) = self.receive_pool.take() {
            // SAFETY: the buffer does not move and is not accessed until the device has returned
            // the token: `receiving` keeps it, and `card` is dropped before it.
            let Ok(token) = (unsafe { self.card.receive_begin(&mut buffer) }) else {
                return; // the queue is full
            };
            self.receiving[usize::from(token)] = Some(buffer);
        }
    }

    /// Takes back the buffers of sent frames.
    fn reclaim(&mut self) {
        while let Some(token) = self.card.poll_transmit() {
            let Some(buffer) = self
                .sending
                .get_mut(usize::from(token))
                .and_then(Option::take)
            else {
                return;
            };
            // SAFETY: this buffer was passed to the device with this token.
            let _ = unsafe { self.card.transmit_complete(token, &buffer) };
        }
    }

    /// Returns the next filled buffer.
    fn filled(&self) -> Option<u16> {
        self.card.poll_receive().or_else(|| {
            // The device interrupts only for buffers that it fills after it has read our position
            // in the queue. Buffers that it filled before must be detected here, or they wait for
            // the next frame.
            fence(Ordering::SeqCst);
            self.card.poll_receive()
        })
    }
}

impl<H: Hal, T: Transport, const QUEUE: usize> Device for VirtioNet<H, T, QUEUE> {
    fn limits(&self) -> DeviceLimits {
        DeviceLimits {
            address: self.address(),
            mtu: MTU,
            checksum_offload: false,
            segments: 0,
            largest_received: MTU,
        }
    }

    fn receive(&mut self) -> Option<Frame> {
        loop {
            let Some(token) = self.filled() else {
                // The stack may have dropped frames since: their buffers are free.
                self.offer();
                return None;
            };
            let mut buffer = self.receiving.get_mut(usize::from(token))?.take()?;
            // SAFETY: this buffer was passed to the device with this token.
            let taken = unsafe { self.card.receive_complete(token, &mut buffer) };
            self.offer();
            match taken {
                Ok((header, size)) if header + size <= buffer.len() => {
                    buffer.narrow(header..header + size);
                    return Some(Frame {
                        bytes: buffer,
                        checksum: Checksum::Unknown,
                        segment: None,
                    });
                }
                _ => self.counters.broken_in += 1,
            }
        }
    }

    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
        self.reclaim();
        let mut buffer = self.send_pool.take().ok_or(Full)?;
        let mut used = self
            .card
            .fill_buffer_header(&mut buffer)
            .map_err(|_| Full)?;
        if frame.len() > ETHERNET_HEADER + MTU || frame.is_empty() {
            self.counters.refused_out += 1; // a retry would be rejected, too
            return Ok(());
        }
        for part in frame.parts {
            buffer[used..used + part.len()].copy_from_slice(part);
            used += part.len();
        }
        buffer.narrow(0..used);
        // SAFETY: the buffer does not move and is not accessed until the device has returned the
        // token: `sending` keeps it, and `card` is dropped before it.
        let token = unsafe { self.card.transmit_begin(&buffer) }.map_err(|_| Full)?;
        self.sending[usize::from(token)] = Some(buffer);
        Ok(())
    }
}

impl<H: Hal, T: Transport, const QUEUE: usize> fmt::Debug for VirtioNet<H, T, QUEUE> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "VirtioNet({:02x?}, {QUEUE} buffers each way)",
            self.address()
        )
    }
}
