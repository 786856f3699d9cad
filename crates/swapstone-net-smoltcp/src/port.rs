// SPDX-License-Identifier: MIT OR Apache-2.0
//! smoltcp's view of the device: it receives one frame at a time. Sent frames are completed here.

use alloc::vec;
use alloc::vec::Vec;
use core::num::NonZeroUsize;
use core::ops::Range;

use smoltcp::phy::{self, Checksum, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use swapstone_net::Device;
use swapstone_net::Instant as Now;
use swapstone_net::device::{
    DeviceLimits, ETHERNET_HEADER, Outgoing, PartialChecksum, Segmentation,
};

use crate::frame::{FrameMemory, ROOM};
use crate::slots::Conn;
use crate::wire::{self, SYN, Transport};

/// The number of ICMP errors that may be sent at once, and for each second.
const ERROR_BURST: u64 = 10;
const ERRORS_PER_SECOND: u64 = 100;
/// The maximum length of an IP packet.
const LARGEST_PACKET: usize = 65535;

/// A sent TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sent {
    pub(crate) fields: wire::Answer,
    /// The length of the payload in bytes.
    pub(crate) payload: usize,
}

/// How a frame is passed to the device.
#[derive(Clone, Copy, Debug, Default)]
struct Offload {
    partial: Option<PartialChecksum>,
    segmentation: Option<Segmentation>,
}

/// The transmit path.
#[derive(Debug)]
pub(crate) struct Output {
    limits: DeviceLimits,
    /// The largest IP packet that smoltcp may send; it exceeds the MTU with segmentation offload.
    pub(crate) largest: usize,
    frame: FrameMemory,
    /// Discarded output while `frame` waits for the device.
    lost: Vec<u8>,
    /// A frame that waits because the device's transmit queue was full.
    held: Option<(Range<usize>, Offload)>,
    /// The segment size of the sending connection in bytes.
    segment: u16,
    /// The time of its peer, which its segments echo.
    echo: Option<u32>,
    /// The last sent TCP segment.
    pub(crate) sent: Option<Sent>,
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) no_room: u64,
    pub(crate) now: Now,
    /// ICMP errors are limited.
    limits_errors: bool,
    /// The time since when no ICMP error would have been sent at the permitted rate, in microseconds.
    errors_paid: u64,
}

impl Output {
    pub(crate) fn new(limits: DeviceLimits, limits_errors: bool) -> Self {
        let cuts = limits.checksum_offload && limits.segments > limits.mtu;
        let largest = if cuts { limits.segments } else { limits.mtu }.min(LARGEST_PACKET);
        Self {
            limits,
            largest,
            frame: FrameMemory::new(ETHERNET_HEADER + largest),
            lost: vec![0; ETHERNET_HEADER + largest],
            held: None,
            segment: 0,
            echo: None,
            sent: None,
            frames: 0,
            bytes: 0,
            no_room: 0,
            now: Now::ZERO,
            limits_errors,
            errors_paid: 0,
        }
    }

    /// Returns whether an ICMP error may be sent (RFC 4443, section 2.4: a token bucket).
    fn takes_error(&mut self) -> bool {
        const EACH: u64 = 1_000_000 / ERRORS_PER_SECOND;
        let now = self.now.micros() + ERROR_BURST * EACH;
        let paid = self.errors_paid.max(self.now.micros()) + EACH;
        if !self.limits_errors || paid <= now {
            self.errors_paid = paid;
            return true;
        }
        false
    }

    /// Returns whether segmentation offload is used.
    pub(crate) fn cuts(&self) -> bool {
        self.largest > self.limits.mtu
    }

    /// Sets the connection whose segments are sent next.
    pub(crate) fn set_connection(&mut self, conn: &Conn) {
        self.segment = conn.segment;
        self.set_echo(conn.timestamps.then_some(conn.recent));
    }

    /// Sets the time that the next segments echo; without one they have no timestamps.
    pub(crate) fn set_echo(&mut self, echo: Option<u32>) {
        self.echo = echo;
    }

    /// Returns the maximum payload of a segment for the MTU.
    pub(crate) fn largest_segment(&self, v6: bool) -> u16 {
        let headers = if v6 { 60 } else { 40 };
        self.limits.mtu.min(LARGEST_PACKET).saturating_sub(headers) as u16
    }

    /// Returns whether a frame waits for the device.
    pub(crate) fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// Returns the capabilities that smoltcp uses.
    pub(crate) fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = ETHERNET_HEADER + self.largest;
        // Checksums of received frames are verified before, and those of TCP and UDP are set here.
        capabilities.checksum.ipv4 = Checksum::Tx;
        capabilities.checksum.icmpv4 = Checksum::Tx;
        capabilities.checksum.icmpv6 = Checksum::Tx;
        capabilities.checksum.tcp = Checksum::None;
        capabilities.checksum.udp = Checksum::None;
        if self.cuts() {
            let largest = NonZeroUsize::new(ETHERNET_HEADER + self.largest - ROOM);
            capabilities.segmentation.tcpv4 = largest;
            capabilities.segmentation.tcpv6 = largest;
        }
        capabilities
    }

    /// Retries to send the waiting frame. Returns whether none is left.
    pub(crate) fn retry<D: Device>(&mut self, device: &mut D) -> bool {
        if let Some((place, offload)) = self.held.take() {
            self.hand_over(device, place, offload);
        }
        self.held.is_none()
    }

    fn hand_over<D: Device>(&mut self, device: &mut D, place: Range<usize>, offload: Offload) {
        let parts = [&self.frame[place.clone()]];
        let outgoing = Outgoing {
            parts: &parts,
            partial: offload.partial,
            segmentation: offload.segmentation,
        };
        match device.transmit(outgoing) {
            Ok(()) => {
                self.frames += 1;
                self.bytes += place.len() as u64;
            }
            Err(swapstone_net::device::Full) => self.held = Some((place, offload)),
        }
    }

    /// Writes a frame with `write`, completes it and sends it.
    pub(crate) fn emit<D: Device, R>(
        &mut self,
        device: &mut D,
        length: usize,
        write: impl FnOnce(&mut [u8]) -> R,
    ) -> R {
        if self.is_held() || ROOM + length > self.frame.len() {
            self.no_room += 1;
            if self.lost.len() < length {
                self.lost.resize(length, 0);
            }
            return write(&mut self.lost[..length]);
        }
        // smoltcp expects some header fields to be 0. No header is longer.
        let headers = length.min(128);
        self.frame[ROOM..ROOM + headers].fill(0);
        let result = write(&mut self.frame[ROOM..ROOM + length]);
        let mut place = ROOM..ROOM + length;
        let time = (self.now.micros() / 1000) as u32;
        if let Some(echo) = self.echo
            && wire::insert_timestamps(&mut self.frame[..place.end], time, echo)
        {
            place.start = 0;
        }
        if let Some((transport, payload)) = self.exceeds_path(place.clone()) {
            self.send_parts(device, transport, place, payload);
        } else if let Some(offload) = self.finish(place.clone()) {
            self.hand_over(device, place, offload);
        }
        result
    }

    /// Returns the TCP header and the length of the payload of a frame that fits the device, but not the
    /// path of its connection, and that the device does not split.
    fn exceeds_path(&self, place: Range<usize>) -> Option<(Transport, usize)> {
        if self.cuts() || self.segment == 0 {
            return None;
        }
        let frame = &self.frame[place];
        let transport = Transport::of(frame).filter(|transport| transport.tcp)?;
        let payload = transport.segment(frame).1;
        (payload > usize::from(self.payload(transport, frame))).then_some((transport, payload))
    }

    /// Returns the largest payload of a segment in bytes, for the options of this one (RFC 6691).
    fn payload(&self, transport: Transport, frame: &[u8]) -> u16 {
        let options = transport.tcp_options(frame) as u16;
        self.segment.saturating_sub(options).max(1)
    }

    /// Sends a segment in parts of the segment size of its connection.
    fn send_parts<D: Device>(
        &mut self,
        device: &mut D,
        transport: Transport,
        place: Range<usize>,
        payload: usize,
    ) {
        let whole = self.frame[place.clone()].to_vec();
        let headers = whole.len() - payload;
        let (fields, _) = transport.segment(&whole);
        let each = usize::from(self.payload(transport, &whole));
        let begin = place.start;
        for (at, part) in whole[headers..].chunks(each).enumerate() {
            let offset = at * each;
            let place = begin..begin + headers + part.len();
            let frame = &mut self.frame[place.clone()];
            frame[..headers].copy_from_slice(&whole[..headers]);
            frame[headers..].copy_from_slice(part);
            let last = offset + part.len() == payload;
            wire::cut(frame, transport, offset as u32, last);
            if let Some(offload) = self.finish(place.clone()) {
                self.hand_over(device, place, offload);
            }
            if self.is_held() {
                break;
            }
        }
        self.sent = Some(Sent { fields, payload });
    }

    /// Sets checksum and options. Returns `None` if the frame can't be sent.
    fn finish(&mut self, place: Range<usize>) -> Option<Offload> {
        let too_large = place.len() > ETHERNET_HEADER + self.limits.mtu;
        if wire::is_icmp_error(&self.frame[place.clone()]) && !self.takes_error() {
            return None;
        }
        let frame = &mut self.frame[place];
        let mut offload = Offload::default();
        let Some(transport) = Transport::of(frame) else {
            return (!too_large).then_some(offload);
        };
        if transport.tcp {
            let (fields, payload) = transport.segment(frame);
            self.sent = Some(Sent { fields, payload });
            if fields.flags & SYN != 0 && self.largest > self.limits.mtu {
                let headers = if transport.v6 { 60 } else { 40 };
                let most = self.limits.mtu.saturating_sub(headers) as u16;
                wire::lower_mss(frame, transport.at, most, 0);
            }
        }
        if too_large && !(transport.tcp && self.segment > 0) {
            return None;
        }
        if self.limits.checksum_offload {
            offload.partial = Some(PartialChecksum {
                start: transport.at as u16,
                offset: transport.prepare_checksum(frame),
            });
        } else {
            transport.fill_checksum(frame);
        }
        if too_large {
            let headers = (transport.at + transport.tcp_header(frame)) as u16;
            let options = transport.tcp_options(frame) as u16;
            offload.segmentation = Some(Segmentation {
                size: self.segment.saturating_sub(options).max(1),
                headers,
                ipv6: transport.v6,
            });
        }
        Some(offload)
    }
}

/// The device for one call of smoltcp.
pub(crate) struct Port<'a, D> {
    pub(crate) device: &'a mut D,
    pub(crate) output: &'a mut Output,
    pub(crate) frame: Option<&'a [u8]>,
}

impl<D: Device> phy::Device for Port<'_, D> {
    type RxToken<'t>
        = Received<'t>
    where
        Self: 't;
    type TxToken<'t>
        = Room<'t, D>
    where
        Self: 't;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Room<'_, D>)> {
        let frame = self.frame.take()?;
        let room = Room {
            device: self.device,
            output: self.output,
        };
        Some((Received(frame), room))
    }

    fn transmit(&mut self, _now: Instant) -> Option<Room<'_, D>> {
        (!self.output.is_held()).then_some(Room {
            device: self.device,
            output: self.output,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.output.capabilities()
    }
}

/// A received frame.
pub(crate) struct Received<'a>(&'a [u8]);

impl phy::RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, look: F) -> R {
        look(self.0)
    }
}

/// A buffer for a frame to send.
pub(crate) struct Room<'a, D> {
    device: &'a mut D,
    output: &'a mut Output,
}

impl<D: Device> phy::TxToken for Room<'_, D> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        self.output.emit(self.device, length, write)
    }
}

/// A device that discards sent frames.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    swallowed: Vec<u8>,
}

impl phy::Device for Sink {
    type RxToken<'t> = Received<'t>;
    type TxToken<'t> = Discard<'t>;

    fn receive(&mut self, _now: Instant) -> Option<(Received<'_>, Discard<'_>)> {
        None
    }

    fn transmit(&mut self, _now: Instant) -> Option<Discard<'_>> {
        Some(Discard(&mut self.swallowed))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = LARGEST_PACKET;
        capabilities
    }
}

/// A buffer that is discarded.
pub(crate) struct Discard<'a>(&'a mut Vec<u8>);

impl phy::TxToken for Discard<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        self.0.resize(length, 0);
        write(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use swapstone_net::device::{Frame, Full};

    #[derive(Default)]
    struct Recorder {
        sent: Vec<(usize, Option<PartialChecksum>, Option<Segmentation>)>,
        /// Where the byte behind 54 bytes of headers lies in its page of 4096 bytes.
        places: Vec<usize>,
    }

    impl Device for Recorder {
        fn limits(&self) -> DeviceLimits {
            DeviceLimits {
                address: [2; 6],
                mtu: 1500,
                checksum_offload: true,
                segments: 60_000,
                largest_received: 1500,
            }
        }

        fn receive(&mut self) -> Option<Frame> {
            None
        }

        fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
            self.places
                .push(frame.parts[0][54..].as_ptr().addr() % 4096);
            self.sent
                .push((frame.len(), frame.partial, frame.segmentation));
            Ok(())
        }
    }

    #[test]
    fn the_largest_segment_has_room_for_timestamps() {
        let limits = DeviceLimits {
            segments: 70_000,
            ..Recorder::default().limits()
        };
        let largest = Output::new(limits, true).capabilities().segmentation;
        let expected = NonZeroUsize::new(ETHERNET_HEADER + 65_535 - 12);
        assert_eq!((largest.tcpv4, largest.tcpv6), (expected, expected));
    }

    #[test]
    fn large_segments_are_sent_with_how_to_cut_them() {
        let mut device = Recorder::default();
        let mut output = Output::new(device.limits(), true);
        let mut send = |segment: u16, length: usize, v6: bool, echo: Option<u32>| {
            output.segment = segment;
            output.echo = echo;
            output.emit(&mut device, length, |frame| {
                let tcp = if v6 { 54 } else { 34 };
                frame[12..15].copy_from_slice(if v6 {
                    &[0x86, 0xdd, 0x60]
                } else {
                    &[8, 0, 0x45]
                });
                frame[if v6 { 20 } else { 23 }] = 6;
                frame[tcp + 12] = 0x50;
            });
        };
        send(1460, 1514, false, None);
        send(1400, 10_000, false, None);
        send(1440, 10_000, true, None);
        // Options are a part of the segment size (RFC 6691).
        send(1400, 10_000, false, Some(5));
        // Without a connection the segment size is unknown.
        send(0, 10_000, false, None);
        let partial = |start| Some(PartialChecksum { start, offset: 16 });
        let cut = |size, headers, ipv6| {
            Some(Segmentation {
                size,
                headers,
                ipv6,
            })
        };
        let expected = [
            (1514, partial(34), None),
            (10_000, partial(34), cut(1400, 54, false)),
            (10_000, partial(54), cut(1440, 74, true)),
            (10_012, partial(34), cut(1388, 66, false)),
        ];
        assert_eq!(device.sent, expected);
        // See `FrameMemory`.
        assert_eq!(device.places, [64, 64, 64, 64 - ROOM]);
    }
}
