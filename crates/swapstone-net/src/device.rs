// SPDX-License-Identifier: MIT OR Apache-2.0
//! The contract of a network device: it receives and transmits Ethernet frames.
//!
//! Its offloads are those of virtio-net: checksum offload, TCP segmentation offload (TSO) for
//! transmission, and merged segments (GRO) on reception.

use crate::buffer::Buffer;

/// The length of an Ethernet header in bytes.
pub const ETHERNET_HEADER: usize = 14;

/// An Ethernet address.
pub type HardwareAddress = [u8; 6];

/// The properties of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// The Ethernet address.
    pub address: HardwareAddress,
    /// The MTU: the largest IP packet in bytes, without the Ethernet header.
    pub mtu: usize,
    /// Whether it completes TCP and UDP checksums of frames with [`Outgoing::partial`].
    pub checksum_offload: bool,
    /// The largest TCP segment that it splits (TSO), as IP packet length in bytes; 0 without TSO.
    pub segments: usize,
    /// The largest IP packet that [`Device::receive`] returns. It exceeds `mtu` if the device
    /// merges received segments (GRO).
    pub largest_received: usize,
}

/// The state of the TCP or UDP checksum of a received frame. The stack always verifies the IPv4
/// header checksum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// The stack must verify it.
    #[default]
    Unknown,
    /// The device verified it.
    Verified,
    /// The field holds only the sum of the pseudo-header, because the frame comes from this
    /// machine. The stack must not verify it.
    Partial,
}

/// A received frame. Dropping it returns its buffer to the device.
#[derive(Debug)]
pub struct Frame {
    /// The bytes, starting with the Ethernet header.
    pub bytes: Buffer,
    /// The state of the TCP or UDP checksum.
    pub checksum: Checksum,
    /// For merged TCP segments, the payload length of each but the last in bytes.
    pub segment: Option<u16>,
}

/// The position of a checksum that the device has to complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// The offset of the TCP or UDP header in the frame, where the sum starts.
    pub start: u16,
    /// The offset of the checksum field from `start`. It holds the sum of the pseudo-header.
    pub offset: u16,
}

/// How the device has to split a frame that exceeds the MTU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// The payload length of each segment but the last in bytes.
    pub size: u16,
    /// The length of all headers in bytes, including the Ethernet header.
    pub headers: u16,
    /// The packet is IPv6.
    pub ipv6: bool,
}

/// A frame to transmit, in parts.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The consecutive parts of the frame, starting with the Ethernet header.
    pub parts: &'a [&'a [u8]],
    /// Set if the device has to complete the checksum.
    pub partial: Option<PartialChecksum>,
    /// Set if the device has to split the frame; then `partial` is set too.
    pub segmentation: Option<Segmentation>,
}

impl Outgoing<'_> {
    /// Returns the length in bytes.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Returns whether the length is 0.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The transmit queue of the device is full. The caller may try again later; TCP retransmits such a
/// segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A network device. No method blocks.
pub trait Device {
    /// Returns the properties of the device. They are constant.
    fn limits(&self) -> DeviceLimits;

    /// Returns the next received frame; `None` if no frame or no receive buffer is available.
    ///
    /// A frame may be malformed or shorter than an Ethernet header. The stack drops such frames.
    fn receive(&mut self) -> Option<Frame>;

    /// Queues a frame for transmission. The bytes are copied or sent before it returns.
    ///
    /// # Errors
    ///
    /// [`Full`] if the transmit queue is full; then no part of the frame was queued.
    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full>;

    /// Transmits the queued frames. A stack calls this at the end of each poll.
    fn flush(&mut self) {}
}

impl<D: Device + ?Sized> Device for &mut D {
    fn limits(&self) -> DeviceLimits {
        (**self).limits()
    }

    fn receive(&mut self) -> Option<Frame> {
        (**self).receive()
    }

    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
        (**self).transmit(frame)
    }

    fn flush(&mut self) {
        (**self).flush();
    }
}
