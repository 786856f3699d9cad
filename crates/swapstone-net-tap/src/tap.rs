// SPDX-License-Identifier: MIT OR Apache-2.0
//! The device.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use swapstone_net::buffer::{Buffer, Pool};
use swapstone_net::device::{
    Device, DeviceLimits, ETHERNET_HEADER, Frame, Full, HardwareAddress, Outgoing,
};

use crate::{header, interface};

/// The maximum length of an IP packet in bytes.
const LARGEST_PACKET: usize = 65535;
/// The length of a VLAN tag, which the kernel inserts into tagged frames.
const TAG: usize = 4;
/// The size of small buffers in bytes.
const SMALL: usize = 2048;
/// The maximum number of parts of a frame in one call without a copy, including its header.
const PARTS: usize = 32;

/// How to open a [`Tap`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The name of the interface.
    pub name: String,
    /// The Ethernet address of the stack. The interface of the kernel has another one.
    pub address: HardwareAddress,
    /// The MTU in bytes. The interface should have the same.
    pub mtu: usize,
    /// Enables checksum and segmentation offload in both directions.
    pub offload: bool,
    /// The number of received frames that the stack may hold. With offload, half as many more can
    /// be up to 64 KiB long.
    pub frames: usize,
}

impl Settings {
    /// Default settings: offload, an MTU of 1500 bytes, 4096 frames, and a locally administered
    /// address.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            address: [0x02, 0x6e, 0x65, 0x74, 0x00, 0x02],
            mtu: 1500,
            offload: true,
            frames: 4096,
        }
    }
}

/// Counters of dropped frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Received frames that were dropped because the stack holds the maximum number.
    pub dropped_in: u64,
    /// Sent frames that the kernel rejected as invalid.
    pub refused_out: u64,
}

/// A TAP device.
#[derive(Debug)]
pub struct Tap {
    descriptor: OwnedFd,
    limits: DeviceLimits,
    offload: bool,
    /// Receive buffers, each for the largest frame.
    large: Pool,
    /// Buffers for small frames, used when half of the large ones are held.
    small: Pool,
    most_large: usize,
    /// The buffer for the next frame.
    next: Option<Buffer>,
    counters: Counters,
}

impl Tap {
    /// Attaches to the interface, or creates it.
    ///
    /// # Errors
    ///
    /// `/dev/net/tun` is missing, the permission is missing, or the interface is of another type or
    /// in use.
    pub fn open(settings: &Settings) -> io::Result<Self> {
        let descriptor = interface::open(&settings.name, settings.offload)?;
        let limits = DeviceLimits {
            address: settings.address,
            mtu: settings.mtu,
            checksum_offload: settings.offload,
            segments: if settings.offload { LARGEST_PACKET } else { 0 },
            largest_received: if settings.offload {
                LARGEST_PACKET
            } else {
                settings.mtu
            },
        };
        let largest = (limits.largest_received + ETHERNET_HEADER + TAG).max(SMALL);
        let most_large = if largest > SMALL {
            settings.frames.div_ceil(8)
        } else {
            settings.frames
        }
        .max(2);
        Ok(Self {
            descriptor,
            limits,
            offload: settings.offload,
            large: Pool::new(largest, most_large),
            small: Pool::new(SMALL, settings.frames),
            most_large,
            next: None,
            counters: Counters::default(),
        })
    }

    /// Returns the file descriptor, for `poll`.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// Returns the counters of dropped frames.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Reads a frame; returns its length without the virtio-net header.
    fn read(&self, into: &mut Buffer, header: &mut [u8; header::SIZE]) -> Option<usize> {
        loop {
            let result = if self.offload {
                let mut parts = [IoSliceMut::new(header), IoSliceMut::new(into)];
                rustix::io::readv(&self.descriptor, &mut parts)
            } else {
                rustix::io::read(&self.descriptor, &mut into[..])
            };
            match result {
                Ok(size) if self.offload => return size.checked_sub(header::SIZE),
                Ok(size) => return Some(size),
                Err(Errno::INTR) => {}
                // No frame is available, or the interface is down or removed.
                Err(_) => return None,
            }
        }
    }

    /// Selects the buffer of a received frame. `None`: no buffer is free, and `read` is kept for
    /// the next frame.
    fn settle(&mut self, mut read: Buffer, size: usize) -> Option<Buffer> {
        let scarce = self.large.in_use() * 2 > self.most_large;
        if scarce
            && size <= SMALL
            && self.large.size() > SMALL
            && let Some(mut small) = self.small.take()
        {
            small.narrow(0..size);
            small.copy_from_slice(&read[..size]);
            self.next = Some(read);
            return Some(small);
        }
        // The last buffer is never passed on: without a buffer to read into, waiting for frames
        // would not block.
        self.next = self.large.take();
        if self.next.is_none() {
            self.next = Some(read);
            self.counters.dropped_in += 1;
            return None;
        }
        read.narrow(0..size);
        Some(read)
    }
}

impl Device for Tap {
    fn limits(&self) -> DeviceLimits {
        self.limits
    }

    fn receive(&mut self) -> Option<Frame> {
        loop {
            let mut into = self.next.take().or_else(|| self.large.take())?;
            let mut header = [0; header::SIZE];
            let Some(size) = self.read(&mut into, &mut header) else {
                self.next = Some(into);
                return None;
            };
            if let Some(bytes) = self.settle(into, size) {
                let (checksum, segment) = header::meaning(&header);
                return Some(Frame {
                    bytes,
                    checksum,
                    segment,
                });
            }
        }
    }

    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
        let header = header::of(&frame);
        let mut parts = [IoSlice::new(&[]); PARTS];
        let mut used = 0;
        if self.offload {
            parts[0] = IoSlice::new(&header);
            used = 1;
        }
        let joined;
        if used + frame.parts.len() <= PARTS {
            for part in frame.parts {
                parts[used] = IoSlice::new(part);
                used += 1;
            }
        } else {
            joined = frame.parts.concat();
            parts[used] = IoSlice::new(&joined);
            used += 1;
        }
        loop {
            match rustix::io::writev(&self.descriptor, &parts[..used]) {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::INVAL) => {
                    self.counters.refused_out += 1; // a retry would be rejected, too
                    return Ok(());
                }
                // The queue is full, or the interface is down, which may change.
                Err(_) => return Err(Full),
            }
        }
    }
}
