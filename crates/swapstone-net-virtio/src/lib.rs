//! A virtio-net card as a [`Device`] of swapstone-net: `no_std`, for machines without an operating system.
//!
//! The transport (MMIO, PCI) and what the machine does about addresses ([`Hal`]) are those of the crate virtio-drivers. A frame that
//! arrives stays where the card has put it until the stack drops it; a frame that is sent is copied once, into a buffer of the card's
//! queue. The driver negotiates no offloads, so the stack sums and cuts by itself. Nothing is allocated for a frame once the pools of
//! buffers have grown to what is in use.
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

/// The largest IP packet, in bytes.
pub const MTU: usize = 1500;
/// Bytes of a buffer: virtio's header, Ethernet's, and a packet.
const SIZE: usize = 2048;

/// A virtio-net card with queues of so many buffers each way, a power of two.
pub struct VirtioNet<H: Hal, T: Transport, const QUEUE: usize> {
    // First, so that it is dropped first: the card must forget the buffers before they are freed.
    card: VirtIONetRaw<H, T, QUEUE>,
    /// What the card receives into, by its token.
    receiving: [Option<Buffer>; QUEUE],
    /// What the card sends from, by its token.
    sending: [Option<Buffer>; QUEUE],
    receive_pool: Pool,
    send_pool: Pool,
    counters: Counters,
}

/// What became of frames that were neither received nor sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Buffers that came back with a frame that is none.
    pub broken_in: u64,
    /// Frames that were too large to be sent.
    pub refused_out: u64,
}

impl<H: Hal, T: Transport, const QUEUE: usize> VirtioNet<H, T, QUEUE> {
    /// Start the card. `frames` is how many received frames the stack may hold at once, besides those that the card receives into.
    ///
    /// # Errors
    ///
    /// The card is none, has shorter queues, or there is no memory for them.
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

    /// The card's Ethernet address.
    pub fn address(&self) -> HardwareAddress {
        self.card.mac_address()
    }

    /// What was lost here so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Give the card as many buffers to receive into as it takes and there are.
    fn offer(&mut self) {
        while let Some(mut buffer) = self.receive_pool.take() {
            // SAFETY: the buffer's memory stays where it is and is not touched until the card has given the token back: `receiving`
            // keeps it, and `card` is dropped before that.
            let Ok(token) = (unsafe { self.card.receive_begin(&mut buffer) }) else {
                return; // the queue is full
            };
            self.receiving[usize::from(token)] = Some(buffer);
        }
    }

    /// Take back what the card has sent.
    fn reclaim(&mut self) {
        while let Some(token) = self.card.poll_transmit() {
            let Some(buffer) = self
                .sending
                .get_mut(usize::from(token))
                .and_then(Option::take)
            else {
                return;
            };
            // SAFETY: it is the buffer that was given to the card for this token.
            let _ = unsafe { self.card.transmit_complete(token, &buffer) };
        }
    }

    /// The next buffer that the card has filled.
    fn filled(&self) -> Option<u16> {
        self.card.poll_receive().or_else(|| {
            // The card interrupts only for what it fills after it has seen how far we have read. What it filled before that must be
            // seen here, or nobody sees it before the next frame comes.
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
                // The stack may have dropped frames since: their buffers can be received into again.
                self.offer();
                return None;
            };
            let mut buffer = self.receiving.get_mut(usize::from(token))?.take()?;
            // SAFETY: it is the buffer that was given to the card for this token.
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
            self.counters.refused_out += 1; // it would be refused again: it is as lost as on a wire
            return Ok(());
        }
        for part in frame.parts {
            buffer[used..used + part.len()].copy_from_slice(part);
            used += part.len();
        }
        buffer.narrow(0..used);
        // SAFETY: the buffer's memory stays where it is and is not touched until the card has given the token back: `sending` keeps it,
        // and `card` is dropped before that.
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
