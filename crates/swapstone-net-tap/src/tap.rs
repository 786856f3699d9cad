//! The device.

use std::io::{self, IoSlice, IoSliceMut};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use swapstone_net::buffer::{Buffer, Pool};
use swapstone_net::device::{
    Device, DeviceLimits, ETHERNET_HEADER, Frame, Full, HardwareAddress, Outgoing,
};

use crate::{header, interface};

/// What an IP packet has at most, in bytes.
const LARGEST_PACKET: usize = 65535;
/// A VLAN tag, which the kernel puts into a frame that has one.
const TAG: usize = 4;
/// What most frames fit into, in bytes.
const SMALL: usize = 2048;
/// Parts of a frame that one call takes without a copy, its header among them.
const PARTS: usize = 32;

/// How a [`Tap`] is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The interface's name.
    pub name: String,
    /// The address of our side of the wire; the interface itself has another, which is the kernel's side.
    pub address: HardwareAddress,
    /// The largest IP packet, in bytes; the interface should have the same.
    pub mtu: usize,
    /// Whether checksums and segmentation are left to the kernel, both ways.
    pub offload: bool,
    /// How many received frames the stack may hold at once. With offload, half as many again may be up to 64 KiB large.
    pub frames: usize,
}

impl Settings {
    /// Usual settings: offload, an MTU of 1500 bytes, 4096 frames, and a locally administered address.
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

/// What became of frames that were neither received nor sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Frames that arrived and were thrown away: the stack holds as many as it may.
    pub dropped_in: u64,
    /// Frames that the kernel refused as nonsense.
    pub refused_out: u64,
}

/// A TAP.
#[derive(Debug)]
pub struct Tap {
    descriptor: OwnedFd,
    limits: DeviceLimits,
    offload: bool,
    /// Where frames are read into; each as large as the largest frame.
    large: Pool,
    /// Where small frames go once half of the large buffers are held.
    small: Pool,
    most_large: usize,
    /// Taken for the next frame already.
    next: Option<Buffer>,
    counters: Counters,
}

impl Tap {
    /// Attach to the interface, or make it.
    ///
    /// # Errors
    ///
    /// There is no `/dev/net/tun`, the user may not, or the interface is something else or in use.
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

    /// The open file, to wait on.
    pub fn descriptor(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }

    /// What was lost here so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Read a frame; return its size, without the virtio-net header.
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
                // Nothing there; or the interface is down or gone, and nothing comes either.
                Err(_) => return None,
            }
        }
    }

    /// Choose where a frame stays while the stack holds it. `None`: there is no room, and `read` is kept for the next one.
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
        // The last buffer is never given away: something has to be read into, or the wait for frames would not wait.
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
                    self.counters.refused_out += 1; // it would be refused again: it is as lost as on a wire
                    return Ok(());
                }
                // No room, or the interface is down, which may change.
                Err(_) => return Err(Full),
            }
        }
    }
}
