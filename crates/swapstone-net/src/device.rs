//! What a stack needs of a network device: Ethernet frames in, Ethernet frames out.
//!
//! The contract is small enough for a virtio-net driver, and its offloads are those of virtio-net: partial checksums, and TCP segments
//! larger than the MTU that somebody further on cuts (TSO out, GRO in).

use crate::buffer::Buffer;

/// Bytes of an Ethernet header.
pub const ETHERNET_HEADER: usize = 14;

/// An Ethernet address.
pub type HardwareAddress = [u8; 6];

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceLimits {
    /// Its Ethernet address.
    pub address: HardwareAddress,
    /// The largest IP packet that it carries, in bytes, without the Ethernet header.
    pub mtu: usize,
    /// Whether it completes the checksum of frames with [`Outgoing::partial`] set, for TCP and UDP.
    pub finishes_checksums: bool,
    /// The largest TCP segment over IPv4 or IPv6 that it cuts up, in bytes of IP packet; 0 if it cuts none.
    pub segments: usize,
    /// The largest IP packet that [`Device::receive`] may return; more than `mtu` if frames are merged on the way in.
    pub largest_received: usize,
}

/// What is known of a received frame's TCP or UDP checksum. (IPv4's header checksum is always the stack's to verify.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Checksum {
    /// Nothing: the stack must verify it.
    #[default]
    Unknown,
    /// The device verified it.
    Verified,
    /// It was never completed, because the frame never left this machine's memory: the field holds the pseudo-header's sum only.
    Partial,
}

/// A frame that was received. Its memory is the device's; dropping it gives that back.
#[derive(Debug)]
pub struct Frame {
    /// From the Ethernet header on.
    pub bytes: Buffer,
    /// What is known of its checksum.
    pub checksum: Checksum,
    /// If it is several TCP segments in one, the payload of each but the last, in bytes.
    pub segment: Option<u16>,
}

/// Where the checksum of a frame that is sent has to be completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Where the summing starts: the TCP or UDP header, in bytes from the frame's first.
    pub start: u16,
    /// Where the field is, in bytes from `start`. It holds the pseudo-header's sum.
    pub offset: u16,
}

/// How a frame that is too large has to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// The payload of each segment but the last, in bytes.
    pub size: u16,
    /// Bytes of all headers, Ethernet's among them.
    pub headers: u16,
    /// Whether it is IPv6.
    pub ipv6: bool,
}

/// A frame to send, in pieces.
#[derive(Clone, Copy, Debug)]
pub struct Outgoing<'a> {
    /// The frame's bytes, from the Ethernet header on.
    pub parts: &'a [&'a [u8]],
    /// Set if the checksum is left to the device.
    pub partial: Option<PartialChecksum>,
    /// Set if cutting is left to the device; `partial` is set then too.
    pub segmentation: Option<Segmentation>,
}

impl Outgoing<'_> {
    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.parts.iter().map(|part| part.len()).sum()
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The device can take no frame now; it can be tried again after a while. TCP sends such a segment again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// A network device. Nothing here blocks.
pub trait Device {
    /// What it can do; the same at any time.
    fn limits(&self) -> DeviceLimits;

    /// Return the next frame that has arrived; `None` if there is none, or no memory to receive into.
    ///
    /// A frame may be shorter than an Ethernet header or full of nonsense: that is for the stack to drop.
    fn receive(&mut self) -> Option<Frame>;

    /// Take a frame to send. The bytes are the caller's again when this returns.
    ///
    /// # Errors
    ///
    /// [`Full`] if there is no room; the frame was not taken, not even a part of it.
    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full>;

    /// Send what `transmit` has only collected. A stack calls this at the end of each poll.
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
