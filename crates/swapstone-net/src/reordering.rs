// SPDX-License-Identifier: MIT OR Apache-2.0
//! A reordering window before fast retransmit, for a stack that retransmits at the third duplicate
//! ACK (RFC 5681) and can't be changed.
//!
//! Duplicate ACKs of TCP, from the third on, are held for a quarter of the round trip of the
//! connection's handshake: the window with which RFC 8985 (RACK-TLP), section 6.2, begins once it has
//! seen reordering. (RFC 8985 does not wait before that, and lengthens the window later; this does
//! neither.) If a segment was only overtaken, the ACK that includes it arrives meanwhile: the held ones
//! are dropped, and the stack neither retransmits nor reduces its congestion window. Else the stack
//! receives all of them and recovers as ever.
//!
//! Such a stack counts an ACK as a duplicate only if its window is that of the last one. A receiver that
//! enlarges its buffer, as Linux does, announces a larger window with nearly each. RFC 6675 counts an
//! ACK with news in its SACK option, whatever its window. So a larger window of such an ACK is replaced
//! by the last one; the next ACK of new data has it, too.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::time::Duration;

use crate::buffer::Buffer;
use crate::device::{Checksum, Device, DeviceLimits, ETHERNET_HEADER, Frame, Full, Outgoing};
use crate::time::Instant;

/// Duplicate ACKs that pass: RFC 5681 retransmits at the third.
const PASS: u32 = 2;
/// The share of the round trip.
const SHARE: u32 = 4;
/// Connections that are observed. One with the place of another takes it.
const FLOWS: usize = 256;
/// Held frames of all connections; further ones pass.
const MOST: usize = 1024;
/// No longer frame is an ACK without data: Ethernet, IPv6 and TCP with options.
const LARGEST: usize = ETHERNET_HEADER + 40 + 60;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// Addresses and ports: those of the peer, then the stack's own.
type Key = [u8; 36];

struct Segment {
    key: Key,
    ack: u32,
    window: u16,
    flags: u8,
    payload: usize,
    /// The place of its TCP header in the frame, and of the end of that.
    header: (usize, usize),
}

#[derive(Clone, Copy)]
struct Flow {
    key: Key,
    /// When the last SYN was received or sent.
    syn: Option<Instant>,
    /// The round trip of the handshake.
    round_trip: Option<Duration>,
    /// Whether `ack` and `window` are of a segment.
    seen: bool,
    ack: u32,
    window: u16,
    /// A digest of the last SACK option; 0 without one.
    blocks: u32,
    duplicates: u32,
    /// When the first duplicate ACK arrived.
    since: Instant,
    /// Whether the window has passed, so that the stack recovers.
    lost: bool,
}

struct Held {
    key: Key,
    until: Instant,
    frame: Frame,
}

/// Counters of a [`Reordering`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Duplicate ACKs that were held.
    pub held: u64,
    /// Those that the stack did not receive, because the segment had only been overtaken.
    pub spared: u64,
    /// Frames of the device that the stack has not received: held now, or spared.
    pub kept: u64,
    /// Bytes of those.
    pub kept_bytes: u64,
}

/// What a [`Reordering`] does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderingFixes {
    /// Duplicate ACKs are held.
    pub hold: bool,
    /// A duplicate ACK with another SACK option and a larger window gets the last window.
    pub windows: bool,
}

/// A device that holds duplicate ACKs.
pub struct Reordering<D> {
    inner: D,
    fixes: ReorderingFixes,
    now: Instant,
    flows: Box<[Option<Flow>]>,
    held: VecDeque<Held>,
    counters: Counters,
}

impl<D: Device> Reordering<D> {
    /// Wraps a device. Without fixes, frames pass unchanged.
    pub fn new(inner: D, fixes: ReorderingFixes) -> Self {
        let flows = if fixes == ReorderingFixes::default() {
            0
        } else {
            FLOWS
        };
        Self {
            inner,
            fixes,
            now: Instant::ZERO,
            flows: (0..flows).map(|_| None).collect::<Vec<_>>().into(),
            held: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Returns the device.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Returns the device.
    pub fn inner_mut(&mut self) -> &mut D {
        &mut self.inner
    }

    /// Returns the counters.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Sets the time of the frames that are received and sent from now on.
    pub fn set_now(&mut self, now: Instant) {
        self.now = now;
    }

    /// Returns when the next held frame is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.held.iter().map(|held| held.until).min()
    }

    /// Returns the next held frame that is due.
    fn due(&mut self) -> Option<Frame> {
        let now = self.now;
        let at = self.held.iter().position(|held| held.until <= now)?;
        let held = self.held.remove(at)?;
        self.counters.kept -= 1;
        self.counters.kept_bytes -= held.frame.bytes.len() as u64;
        if let Some(flow) = self.flow(&held.key) {
            flow.lost = true;
        }
        Some(held.frame)
    }

    fn place(key: &Key) -> usize {
        // FNV-1a.
        let mut hash = 0x811c_9dc5_u32;
        for byte in key {
            hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
        }
        (hash ^ hash >> 16) as usize % FLOWS
    }

    fn flow(&mut self, key: &Key) -> Option<&mut Flow> {
        let flow = self.flows.get_mut(Self::place(key))?.as_mut()?;
        (flow.key == *key).then_some(flow)
    }

    /// Notes a SYN of either side. After a retransmitted one the round trip may be too short, which
    /// only makes the window shorter.
    fn begin(&mut self, key: Key) {
        let now = self.now;
        self.flows[Self::place(&key)] = Some(Flow {
            key,
            syn: Some(now),
            round_trip: None,
            seen: false,
            ack: 0,
            window: 0,
            blocks: 0,
            duplicates: 0,
            since: now,
            lost: false,
        });
    }

    /// Returns the frame if the stack shall receive it now.
    fn sift(&mut self, mut frame: Frame) -> Option<Frame> {
        let Some(mut segment) = Segment::of(&frame.bytes, false) else {
            return Some(frame);
        };
        if segment.flags & (SYN | ACK) == SYN {
            self.begin(segment.key);
            return Some(frame);
        }
        let (now, room, fixes) = (self.now, self.held.len() < MOST, self.fixes);
        let Some(flow) = self.flow(&segment.key) else {
            return Some(frame);
        };
        if let Some(syn) = flow.syn.take() {
            flow.round_trip = Some(now - syn);
        }
        let ahead = segment.ack.wrapping_sub(flow.ack).cast_signed();
        let fresh = !flow.seen;
        if ahead < 0 && !fresh {
            return Some(frame); // an overtaken ACK
        }
        let plain = segment.flags & (SYN | FIN | RST) == 0 && segment.payload == 0;
        if fixes.windows && plain && !fresh && ahead == 0 {
            let blocks = segment.blocks(&frame.bytes);
            if segment.window > flow.window
                && flow.window > 0
                && blocks != 0
                && blocks != flow.blocks
            {
                segment.replace_window(&mut frame, flow.window);
            }
            flow.blocks = blocks;
        }
        if !plain || fresh || ahead > 0 || segment.window != flow.window {
            (flow.ack, flow.window, flow.seen) = (segment.ack, segment.window, true);
            if ahead != 0 {
                (flow.duplicates, flow.lost) = (0, false);
                let before = self.held.len();
                self.held.retain(|held| held.key != segment.key);
                self.counters.spared += (before - self.held.len()) as u64;
            }
            return Some(frame);
        }
        if !fixes.hold {
            return Some(frame);
        }
        flow.duplicates += 1;
        if flow.duplicates == 1 {
            flow.since = now;
        }
        let until = flow.since + flow.round_trip.unwrap_or_default() / SHARE;
        if flow.duplicates <= PASS || flow.lost || until <= now || !room {
            flow.lost |= flow.duplicates > PASS;
            return Some(frame);
        }
        self.counters.held += 1;
        self.counters.kept += 1;
        self.counters.kept_bytes += frame.bytes.len() as u64;
        // The device's buffer is free again.
        let frame = Frame {
            bytes: Buffer::copied(&frame.bytes),
            checksum: frame.checksum,
            segment: frame.segment,
        };
        let key = segment.key;
        self.held.push_back(Held { key, until, frame });
        None
    }
}

impl<D: Device> Device for Reordering<D> {
    fn limits(&self) -> DeviceLimits {
        self.inner.limits()
    }

    fn receive(&mut self) -> Option<Frame> {
        if self.fixes == ReorderingFixes::default() {
            return self.inner.receive();
        }
        loop {
            if let Some(frame) = self.due() {
                return Some(frame);
            }
            let frame = self.inner.receive()?;
            if frame.bytes.len() > LARGEST {
                return Some(frame);
            }
            if let Some(frame) = self.sift(frame) {
                return Some(frame);
            }
        }
    }

    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
        if self.fixes != ReorderingFixes::default()
            && frame.len() <= LARGEST
            && let Some(segment) = Segment::of_parts(frame.parts)
            && segment.flags & (SYN | ACK) == SYN
        {
            self.begin(segment.key);
        }
        self.inner.transmit(frame)
    }

    fn flush(&mut self) {
        self.inner.flush();
    }
}

/// Copies addresses and ports, whose sizes are constants: that needs no call of memcpy, which the
/// counts of copies would contain.
fn key_of<const N: usize>(addresses: &[u8], ports: &[u8], own: bool) -> Option<Key> {
    let (source, destination) = addresses.split_first_chunk::<N>()?;
    let destination = destination.first_chunk::<N>()?;
    let (from, to) = ports.split_first_chunk::<2>()?;
    let to = to.first_chunk::<2>()?;
    let mut key = [0; 36];
    let (first, rest) = key.split_first_chunk_mut::<N>()?;
    let (second, rest) = rest.split_first_chunk_mut::<N>()?;
    let (third, rest) = rest.split_first_chunk_mut::<2>()?;
    let fourth = rest.first_chunk_mut::<2>()?;
    (*first, *second, *third, *fourth) = if own {
        (*destination, *source, *to, *from)
    } else {
        (*source, *destination, *from, *to)
    };
    Some(key)
}

impl Segment {
    /// Reads a TCP segment directly behind an IP header, at the start of a frame; `None` for other
    /// frames. With `own` its source is this side.
    fn of(frame: &[u8], own: bool) -> Option<Self> {
        let ip = frame.get(ETHERNET_HEADER..)?;
        let (is_v4, tcp, end) = match frame.get(12..14)? {
            [0x08, 0x00] => {
                let header = usize::from(ip.first()? & 15) * 4;
                let fragment = u16::from_be_bytes([*ip.get(6)?, *ip.get(7)?]) & 0x3fff;
                if *ip.get(9)? != 6 || fragment != 0 {
                    return None;
                }
                let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
                (true, header, total)
            }
            [0x86, 0xdd] if *ip.get(6)? == 6 => {
                let length = usize::from(u16::from_be_bytes([ip[4], ip[5]]));
                (false, 40, 40 + length)
            }
            _ => return None,
        };
        if !own && ip.len() < end {
            return None; // truncated
        }
        let segment = ip.get(tcp..)?;
        let ports = segment.get(..4)?;
        let key = if is_v4 {
            key_of::<4>(ip.get(12..20)?, ports, own)?
        } else {
            key_of::<16>(ip.get(8..40)?, ports, own)?
        };
        let header = usize::from(segment.get(12)? >> 4) * 4;
        Some(Self {
            key,
            ack: u32::from_be_bytes(*segment.get(8..12)?.first_chunk()?),
            window: u16::from_be_bytes(*segment.get(14..16)?.first_chunk()?),
            flags: *segment.get(13)?,
            payload: end.checked_sub(tcp)?.checked_sub(header)?,
            header: (ETHERNET_HEADER + tcp, ETHERNET_HEADER + tcp + header),
        })
    }

    /// Returns a digest of the SACK option (RFC 2018); 0 without one.
    fn blocks(&self, frame: &[u8]) -> u32 {
        let options = frame.get(self.header.0 + 20..self.header.1);
        let mut rest = options.unwrap_or_default();
        loop {
            match rest {
                [1, more @ ..] => rest = more,
                [5, length, ..] => {
                    // FNV-1a.
                    let bytes = rest.get(2..usize::from(*length)).unwrap_or_default();
                    return bytes.iter().fold(0x811c_9dc5, |hash, byte| {
                        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
                    });
                }
                [kind, length, ..] if *kind != 0 && *length >= 2 => {
                    rest = rest.get(usize::from(*length)..).unwrap_or_default();
                }
                _ => return 0,
            }
        }
    }

    /// Replaces the window in a frame, and updates its checksum (RFC 1624).
    fn replace_window(&mut self, frame: &mut Frame, window: u16) {
        let tcp = self.header.0;
        frame.bytes[tcp + 14..tcp + 16].copy_from_slice(&window.to_be_bytes());
        if frame.checksum != Checksum::Partial {
            let field = tcp + 16..tcp + 18;
            let old = u16::from_be_bytes([frame.bytes[tcp + 16], frame.bytes[tcp + 17]]);
            let sum = u32::from(!old) + u32::from(!self.window) + u32::from(window);
            let sum = (sum & 0xffff) + (sum >> 16);
            let new = !((sum & 0xffff) + (sum >> 16)) as u16;
            frame.bytes[field].copy_from_slice(&new.to_be_bytes());
        }
        self.window = window;
    }

    /// Reads a segment of this side. Its headers are in the first part, or else the parts are
    /// joined.
    fn of_parts(parts: &[&[u8]]) -> Option<Self> {
        let first = *parts.first()?;
        let ip = if first.get(12..14) == Some(&[0x86, 0xdd]) {
            40
        } else {
            20
        };
        if parts.len() == 1 || first.len() >= ETHERNET_HEADER + ip + 20 {
            return Self::of(first, true);
        }
        let mut bytes = [0; LARGEST];
        let mut size = 0;
        for part in parts {
            bytes
                .get_mut(size..size + part.len())?
                .copy_from_slice(part);
            size += part.len();
        }
        Self::of(&bytes[..size], true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const BOTH: ReorderingFixes = ReorderingFixes {
        hold: true,
        windows: true,
    };

    #[derive(Default)]
    struct Wire {
        arriving: VecDeque<Vec<u8>>,
    }

    impl Device for Wire {
        fn limits(&self) -> DeviceLimits {
            unreachable!("not used here")
        }

        fn receive(&mut self) -> Option<Frame> {
            let bytes = self.arriving.pop_front()?;
            Some(Frame {
                bytes: Buffer::copied(&bytes),
                checksum: Checksum::Unknown,
                segment: None,
            })
        }

        fn transmit(&mut self, _: Outgoing<'_>) -> Result<(), Full> {
            Ok(())
        }
    }

    fn frame(flags: u8, ack: u32, payload: usize, own: bool) -> Vec<u8> {
        let mut bytes = vec![0; 14 + 40 + payload];
        bytes[12..14].copy_from_slice(&[8, 0]);
        bytes[14] = 0x45;
        bytes[16..18].copy_from_slice(&(40 + payload as u16).to_be_bytes());
        bytes[23] = 6;
        let (source, destination) = if own { (2, 1) } else { (1, 2) };
        bytes[26..30].copy_from_slice(&[10, 0, 0, source]);
        bytes[30..34].copy_from_slice(&[10, 0, 0, destination]);
        let (from, to) = if own { (80u16, 5000u16) } else { (5000, 80) };
        bytes[34..36].copy_from_slice(&from.to_be_bytes());
        bytes[36..38].copy_from_slice(&to.to_be_bytes());
        bytes[42..46].copy_from_slice(&ack.to_be_bytes());
        bytes[46] = 0x50;
        bytes[47] = flags;
        bytes[48..50].copy_from_slice(&1000u16.to_be_bytes());
        bytes
    }

    fn at(device: &mut Reordering<Wire>, ms: u64, arriving: &[Vec<u8>]) -> usize {
        device.set_now(Instant::from_micros(ms * 1000));
        device.inner_mut().arriving.extend(arriving.iter().cloned());
        core::iter::from_fn(|| device.receive()).count()
    }

    /// A connection with a round trip of 8 ms that has sent data and received one ACK.
    fn connected(active: bool) -> Reordering<Wire> {
        let mut device = Reordering::new(Wire::default(), BOTH);
        if active {
            device.set_now(Instant::from_micros(1000));
            let syn = frame(SYN, 0, 0, true);
            let parts: [&[u8]; 1] = [&syn];
            let outgoing = Outgoing {
                parts: &parts,
                partial: None,
                segmentation: None,
            };
            device.transmit(outgoing).unwrap();
            assert_eq!(at(&mut device, 9, &[frame(SYN | ACK, 1, 0, false)]), 1);
        } else {
            assert_eq!(at(&mut device, 1, &[frame(SYN, 0, 0, false)]), 1);
            assert_eq!(at(&mut device, 9, &[frame(ACK, 1, 0, false)]), 1);
        }
        assert_eq!(at(&mut device, 20, &[frame(ACK, 1000, 0, false)]), 1);
        device
    }

    /// Of duplicate ACKs in frames of one length.
    fn counters(held: u64, spared: u64, kept: u64) -> Counters {
        let length = frame(ACK, 1000, 0, false).len() as u64;
        Counters {
            held,
            spared,
            kept,
            kept_bytes: kept * length,
        }
    }

    #[test]
    fn an_overtaken_segment_causes_two_duplicate_acks_only() {
        for active in [false, true] {
            let mut device = connected(active);
            let duplicate = frame(ACK, 1000, 0, false);
            assert_eq!(at(&mut device, 21, &vec![duplicate; 5]), 2);
            assert_eq!(device.deadline(), Some(Instant::from_micros(23_000)));
            assert_eq!(device.counters(), counters(3, 0, 3));
            assert_eq!(at(&mut device, 22, &[frame(ACK, 7000, 0, false)]), 1);
            assert_eq!(device.deadline(), None);
            assert_eq!(device.counters(), counters(3, 3, 3));
            assert_eq!(at(&mut device, 30, &[]), 0);
        }
    }

    #[test]
    fn after_a_quarter_of_the_round_trip_the_stack_receives_all() {
        let mut device = connected(false);
        let duplicate = frame(ACK, 1000, 0, false);
        assert_eq!(at(&mut device, 21, &vec![duplicate.clone(); 5]), 2);
        assert_eq!(at(&mut device, 22, core::slice::from_ref(&duplicate)), 0);
        assert_eq!(device.counters(), counters(4, 0, 4));
        assert_eq!(at(&mut device, 23, &[]), 4);
        // During recovery nothing is held.
        assert_eq!(at(&mut device, 24, &vec![duplicate; 9]), 9);
        assert_eq!(device.counters(), counters(4, 0, 0));
    }

    #[test]
    fn an_overtaken_ack_changes_nothing() {
        let mut device = connected(false);
        let duplicate = frame(ACK, 1000, 0, false);
        let mut all = vec![duplicate.clone(); 2];
        all.push(frame(ACK, 900, 0, false));
        all.extend(vec![duplicate; 3]);
        assert_eq!(at(&mut device, 21, &all), 3);
        assert_eq!(device.counters(), counters(3, 0, 3));
    }

    #[test]
    fn other_segments_are_not_held() {
        let mut device = connected(false);
        let mut other = frame(ACK, 1000, 0, false);
        other[48] = 9; // another window
        let mut all = vec![frame(ACK, 1000, 10, false); 5];
        all.extend([other.clone(), frame(ACK | FIN, 1000, 0, false), other]);
        all.extend([frame(ACK | RST, 1000, 0, false), vec![0; 5], vec![8; 60]]);
        assert_eq!(at(&mut device, 21, &all), all.len());
        // Without a handshake no round trip is known.
        let mut late = Reordering::new(Wire::default(), BOTH);
        assert_eq!(at(&mut late, 1, &vec![frame(ACK, 1, 0, false); 9]), 9);
        let mut off = Reordering::new(Wire::default(), ReorderingFixes::default());
        assert_eq!(at(&mut off, 1, &vec![frame(ACK, 1, 0, false); 9]), 9);
    }

    /// A duplicate ACK with this window and a SACK block that ends there.
    fn with_block(window: u16, end: u32) -> Vec<u8> {
        let mut bytes = frame(ACK, 1000, 0, false);
        bytes[16..18].copy_from_slice(&52u16.to_be_bytes());
        bytes[46] = 0x80;
        bytes[48..50].copy_from_slice(&window.to_be_bytes());
        bytes.extend([1, 1, 5, 10]);
        bytes.extend(2000u32.to_be_bytes());
        bytes.extend(end.to_be_bytes());
        let sum = !folded(&bytes[34..]);
        bytes[50..52].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// The sum of 16-bit words (RFC 1071).
    fn folded(bytes: &[u8]) -> u16 {
        let words = bytes.chunks(2);
        let sum: u32 = words
            .map(|two| u32::from(two[0]) << 8 | u32::from(two[1]))
            .sum();
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// The windows of the frames that pass.
    fn windows(device: &mut Reordering<Wire>, arriving: &[Vec<u8>]) -> Vec<u16> {
        device.inner_mut().arriving.extend(arriving.iter().cloned());
        let passed = core::iter::from_fn(|| device.receive());
        passed
            .map(|frame| {
                assert_eq!(folded(&frame.bytes[34..]), 0xffff, "its checksum is valid");
                u16::from_be_bytes([frame.bytes[48], frame.bytes[49]])
            })
            .collect()
    }

    #[test]
    fn a_duplicate_ack_with_news_gets_the_last_window() {
        let mut device = connected(false);
        device.fixes.hold = false;
        let arriving = [
            with_block(1001, 3000),
            with_block(1002, 4000),
            with_block(1003, 4000), // a window update: nothing else is new
            with_block(1004, 5000),
            with_block(900, 6000), // a smaller window is never hidden
        ];
        let expected = [1000, 1000, 1003, 1003, 900];
        assert_eq!(windows(&mut device, &arriving), expected);
        // The third one is held for the reordering window, as others are.
        let mut device = connected(false);
        device.set_now(Instant::from_micros(21_000));
        let arriving = [3, 4, 5].map(|n| with_block(1000 + n, 1000 * u32::from(n)));
        assert_eq!(windows(&mut device, &arriving), [1000, 1000]);
        device.set_now(Instant::from_micros(23_000));
        assert_eq!(windows(&mut device, &[]), [1000]);
        let mut off = connected(false);
        off.fixes.windows = false;
        assert_eq!(windows(&mut off, &arriving), [1003, 1004, 1005]);
    }
}
