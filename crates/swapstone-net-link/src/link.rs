// SPDX-License-Identifier: MIT OR Apache-2.0
//! The link and its ports.

use alloc::boxed::Box;
use alloc::collections::BinaryHeap;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::{Cell, RefCell};
use core::cmp::Ordering;
use core::fmt;

use swapstone_net::device::{
    Checksum, Device, DeviceLimits, ETHERNET_HEADER, Frame, Full, HardwareAddress, Outgoing,
};
use swapstone_net::{Instant, Pool};

use crate::digest::Digest;
use crate::endpoint::Endpoints;
use crate::path::{Counters, Outcome, Path, PortId, Sender, WhenFull};
use crate::pcap;
use crate::random::Random;
use crate::receipts::Receipts;

/// The options of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The MTU: the largest IP packet in bytes.
    pub mtu: usize,
    /// The number of frame buffers, for frames in transit and at receivers. Without a free one,
    /// `transmit` returns `Full`.
    pub frames: usize,
    /// Enables checksum offload: such frames arrive as [`Checksum::Partial`].
    pub partial_checksums: bool,
    /// The largest TCP segment that is carried without splitting, as IP packet length in bytes; 0
    /// disables segmentation offload. It requires `partial_checksums`.
    pub segments: usize,
    /// Enables [`Link::digest`].
    pub digest: bool,
    /// The seed of all random outcomes.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mtu: 1500,
            frames: 8192,
            partial_checksums: false,
            segments: 0,
            digest: true,
            seed: 1,
        }
    }
}

/// The decision of a filter about a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The frame passes to the path.
    Pass,
    /// The frame is dropped.
    Drop,
}

type Filter = Box<dyn FnMut(Instant, &[u8]) -> Verdict>;
type Sink = Box<dyn FnMut(&[u8])>;

/// An in-memory Ethernet. Clones refer to the same one.
#[derive(Clone)]
pub struct Link {
    pub(crate) shared: Rc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) now: Cell<Instant>,
    pub(crate) wires: RefCell<Wires>,
    pub(crate) endpoints: RefCell<Endpoints>,
}

/// The ports and the frames in transit.
pub(crate) struct Wires {
    options: Options,
    pool: Pool,
    ends: Vec<End>,
    /// The number of frames so far: orders frames with the same arrival time.
    count: u64,
    digest: Digest,
    capture: Option<Sink>,
}

/// One port's side.
struct End {
    address: HardwareAddress,
    path: Path,
    random: Random,
    sender: Sender,
    counters: Counters,
    filter: Option<Filter>,
    arriving: BinaryHeap<Arriving>,
    receipts: Receipts,
}

struct Arriving {
    when: Instant,
    sent: Instant,
    count: u64,
    frame: Frame,
}

impl Ord for Arriving {
    /// Reversed, as `BinaryHeap` returns the greatest element first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.when, other.count).cmp(&(self.when, self.count))
    }
}

impl PartialOrd for Arriving {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Arriving {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Arriving {}

impl Link {
    /// Creates a link without ports, at time zero.
    ///
    /// # Panics
    ///
    /// If `segments` is set without `partial_checksums`.
    pub fn new(options: Options) -> Self {
        assert!(
            options.segments == 0 || options.partial_checksums,
            "segmentation offload requires checksum offload"
        );
        let largest = options.mtu.max(options.segments);
        let wires = Wires {
            options,
            pool: Pool::new(ETHERNET_HEADER + largest, options.frames),
            ends: Vec::new(),
            count: 0,
            digest: Digest::new(),
            capture: None,
        };
        Self {
            shared: Rc::new(Shared {
                now: Cell::new(Instant::ZERO),
                wires: RefCell::new(wires),
                endpoints: RefCell::default(),
            }),
        }
    }

    /// Adds a port with this Ethernet address.
    ///
    /// With two ports, each frame is delivered to the other port, whatever its destination address.
    /// With more, it is delivered to the port with its destination address, or to all others.
    pub fn port(&self, address: HardwareAddress) -> Port {
        let mut wires = self.shared.wires.borrow_mut();
        let id = wires.ends.len();
        // Each port has its own random generator.
        let seed = Random::new(wires.options.seed ^ ((id as u64) << 32)).bits();
        let end = End {
            address,
            path: Path::default(),
            random: Random::new(seed),
            sender: Sender::default(),
            counters: Counters::default(),
            filter: None,
            arriving: BinaryHeap::with_capacity(wires.options.frames),
            receipts: Receipts::default(),
        };
        wires.ends.push(end);
        drop(wires);
        Port {
            link: self.clone(),
            id,
        }
    }

    /// Sets the path of frames that `port` sends.
    ///
    /// # Panics
    ///
    /// If there is no such port.
    pub fn set_path(&self, port: PortId, path: Path) {
        let mut wires = self.shared.wires.borrow_mut();
        let most = path.queue.frames.min(wires.options.frames);
        let end = &mut wires.ends[port];
        end.path = path;
        if path.bandwidth > 0 {
            end.sender.reserve(most);
        }
    }

    /// Sets the path of frames of all existing ports.
    pub fn set_paths(&self, path: Path) {
        let ports = self.shared.wires.borrow().ends.len();
        (0..ports).for_each(|port| self.set_path(port, path));
    }

    /// Sets a filter for the frames that `port` sends. It is called with the time and the bytes, and
    /// must not use the link.
    ///
    /// # Panics
    ///
    /// If there is no such port.
    pub fn set_filter(
        &self,
        port: PortId,
        filter: impl FnMut(Instant, &[u8]) -> Verdict + 'static,
    ) {
        self.shared.wires.borrow_mut().ends[port].filter = Some(Box::new(filter));
    }

    /// Returns the counters of frames that `port` sent.
    ///
    /// # Panics
    ///
    /// If there is no such port.
    pub fn counters(&self, port: PortId) -> Counters {
        self.shared.wires.borrow().ends[port].counters
    }

    /// Returns the counters of frames that `port` received.
    ///
    /// # Panics
    ///
    /// If there is no such port.
    pub fn receipts(&self, port: PortId) -> Receipts {
        self.shared.wires.borrow().ends[port].receipts
    }

    /// Returns a digest of the time, port and bytes of every sent frame, including lost ones.
    ///
    /// It is constant if [`Options::digest`] is off.
    pub fn digest(&self) -> u64 {
        self.shared.wires.borrow().digest.value()
    }

    /// Writes a capture of all further frames to `sink`, in the format of [`pcap`].
    ///
    /// Frames are captured before the path affects them. Wireshark reports partial checksums as
    /// wrong.
    pub fn capture(&self, mut sink: impl FnMut(&[u8]) + 'static) {
        sink(&pcap::HEADER);
        self.shared.wires.borrow_mut().capture = Some(Box::new(sink));
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.shared.now.get()
    }

    /// Returns the number of frame buffers in use.
    pub fn in_use(&self) -> usize {
        self.shared.wires.borrow().pool.in_use()
    }
}

impl fmt::Debug for Link {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Link({} us)", self.now().micros())
    }
}

impl Wires {
    /// Returns the time of the next arrival after `now`. Frames that have arrived are ignored.
    pub(crate) fn next_arrival(&self, now: Instant) -> Option<Instant> {
        let next = self.ends.iter().filter_map(|end| end.arriving.peek());
        next.map(|frame| frame.when)
            .filter(|&when| when > now)
            .min()
    }

    /// Returns whether a frame is available at `port`.
    pub(crate) fn has_arrived(&self, port: PortId, now: Instant) -> bool {
        let next = self.ends[port].arriving.peek();
        next.is_some_and(|frame| frame.when <= now)
    }

    fn transmit(
        &mut self,
        from: PortId,
        now: Instant,
        outgoing: Outgoing<'_>,
        mark: Checksum,
    ) -> Result<(), Full> {
        let size = outgoing.len();
        let end = &mut self.ends[from];
        let room = end.sender.has_room(&end.path, now, size);
        if !room && end.path.queue.when_full == WhenFull::Refuse {
            end.counters.refused += 1;
            return Err(Full);
        }
        let largest = match outgoing.segmentation {
            Some(_) => self.options.segments,
            None => self.options.mtu,
        };
        let oversized = size > ETHERNET_HEADER + largest;
        let Some(mut buffer) = self.pool.take() else {
            end.counters.refused += 1;
            return Err(Full);
        };
        end.counters.sent += 1;
        end.counters.bytes += size as u64;
        if oversized {
            end.counters.oversized += 1;
            return Ok(());
        }
        let mut at = 0;
        for part in outgoing.parts {
            buffer[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        buffer.narrow(0..size);
        let frame = Frame {
            bytes: buffer,
            checksum: mark,
            segment: outgoing.segmentation.map(|cut| cut.size),
        };
        self.record(from, now, &frame.bytes);
        if room {
            self.carry(from, now, frame);
        } else {
            self.ends[from].counters.dropped += 1;
        }
        Ok(())
    }

    /// Adds a frame to the digest and the capture.
    fn record(&mut self, from: PortId, now: Instant, bytes: &[u8]) {
        if self.options.digest {
            self.digest.word(now.micros());
            self.digest.word(from as u64);
            self.digest.bytes(bytes);
        }
        if let Some(sink) = &mut self.capture {
            sink(&pcap::record(now, bytes.len()));
            sink(bytes);
        }
    }

    /// Sends a frame over its path.
    fn carry(&mut self, from: PortId, now: Instant, mut frame: Frame) {
        let end = &mut self.ends[from];
        let verdict = match &mut end.filter {
            Some(filter) => filter(now, &frame.bytes),
            None => Verdict::Pass,
        };
        if verdict == Verdict::Drop {
            end.counters.filtered += 1;
            return;
        }
        let outcome = Outcome::draw(&end.path, &mut end.random);
        // A lost frame uses bandwidth, too.
        let when = end.sender.send(&end.path, now, frame.bytes.len(), &outcome);
        if outcome.lost {
            end.counters.lost += 1;
            return;
        }
        end.counters.reordered += u64::from(outcome.reordered);
        if outcome.flip.is_some_and(|place| flip(&mut frame, place)) {
            end.counters.corrupted += 1;
        }
        let duplicate = if outcome.duplicated {
            self.copy(&frame)
        } else {
            None
        };
        if let Some(duplicate) = duplicate {
            self.ends[from].counters.duplicated += 1;
            self.deliver(from, now, when, duplicate);
        }
        self.deliver(from, now, when, frame);
    }

    /// Delivers a frame to its receivers.
    fn deliver(&mut self, from: PortId, sent: Instant, when: Instant, frame: Frame) {
        let to = frame.bytes.get(..6);
        let only = match self.ends.len() {
            2 => Some(1 - from),
            _ => self
                .ends
                .iter()
                .position(|end| Some(end.address.as_slice()) == to),
        };
        if let Some(only) = only {
            if only != from {
                self.arrive(from, only, sent, when, frame);
            }
            return;
        }
        for other in (0..self.ends.len()).filter(|&other| other != from) {
            // Without free buffers the other copies are lost, as in a switch.
            let Some(copy) = self.copy(&frame) else {
                return;
            };
            self.arrive(from, other, sent, when, copy);
        }
    }

    fn arrive(&mut self, from: PortId, at: PortId, sent: Instant, when: Instant, frame: Frame) {
        self.count += 1;
        self.ends[from].counters.delivered += 1;
        self.ends[at].arriving.push(Arriving {
            when,
            sent,
            count: self.count,
            frame,
        });
    }

    fn copy(&self, frame: &Frame) -> Option<Frame> {
        let mut bytes = self.pool.take()?;
        bytes.narrow(0..frame.bytes.len());
        bytes.copy_from_slice(&frame.bytes);
        Some(Frame {
            bytes,
            checksum: frame.checksum,
            segment: frame.segment,
        })
    }
}

/// Flips a bit behind the Ethernet header of an IP packet with complete checksums.
fn flip(frame: &mut Frame, place: u64) -> bool {
    let ip = matches!(frame.bytes.get(12..14), Some([0x08, 0x00] | [0x86, 0xdd]));
    let bits = frame.bytes.len().saturating_sub(ETHERNET_HEADER) as u64 * 8;
    if !ip || bits == 0 || frame.checksum != Checksum::Unknown {
        return false;
    }
    let bit = usize::try_from(place % bits).unwrap_or(0);
    frame.bytes[ETHERNET_HEADER + bit / 8] ^= 1 << (bit % 8);
    true
}

/// A port of a [`Link`].
#[derive(Debug)]
pub struct Port {
    link: Link,
    id: PortId,
}

impl Port {
    /// Returns its number.
    pub fn id(&self) -> PortId {
        self.id
    }

    /// Returns its link.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Sends a frame that arrives with this state of its checksum, for tests.
    ///
    /// # Errors
    ///
    /// See [`Device::transmit`].
    pub fn transmit_as(&mut self, bytes: &[u8], mark: Checksum) -> Result<(), Full> {
        let outgoing = Outgoing {
            parts: &[bytes],
            partial: None,
            segmentation: None,
        };
        self.send(outgoing, mark)
    }

    fn send(&self, outgoing: Outgoing<'_>, mark: Checksum) -> Result<(), Full> {
        let shared = &self.link.shared;
        let mut wires = shared.wires.borrow_mut();
        wires.transmit(self.id, shared.now.get(), outgoing, mark)
    }
}

impl Device for Port {
    fn limits(&self) -> DeviceLimits {
        let wires = self.link.shared.wires.borrow();
        let options = wires.options;
        DeviceLimits {
            address: wires.ends[self.id].address,
            mtu: options.mtu,
            checksum_offload: options.partial_checksums,
            segments: options.segments,
            largest_received: options.mtu.max(options.segments),
        }
    }

    fn receive(&mut self) -> Option<Frame> {
        let shared = &self.link.shared;
        let mut wires = shared.wires.borrow_mut();
        let now = shared.now.get();
        if !wires.has_arrived(self.id, now) {
            return None;
        }
        let end = &mut wires.ends[self.id];
        let arrived = end.arriving.pop()?;
        end.receipts.note(arrived.count, arrived.sent, now);
        Some(arrived.frame)
    }

    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
        let mark = match frame.partial {
            Some(_) => Checksum::Partial,
            None => Checksum::Unknown,
        };
        self.send(frame, mark)
    }
}

#[cfg(test)]
#[path = "link_tests.rs"]
mod tests;
