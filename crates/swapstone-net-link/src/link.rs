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
use crate::path::{Counters, Fate, Path, Sender, WhenFull};
use crate::pcap;
use crate::random::Random;
use crate::time::Actors;

/// What all ports of a link have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The largest IP packet, in bytes.
    pub mtu: usize,
    /// Frames that can be under way or in a receiver's hands at once. A sender beyond that is told `Full`.
    pub frames: usize,
    /// Whether checksums of TCP and UDP may be left out; such frames arrive as [`Checksum::Partial`].
    pub partial_checksums: bool,
    /// The largest IP packet that may be sent as one frame and cut by nobody, in bytes; 0 for none. It needs `partial_checksums`.
    pub segments: usize,
    /// Whether [`Link::digest`] is kept.
    pub digest: bool,
    /// What chance is drawn from.
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

/// Which port of a link: they are numbered from 0.
pub type PortId = usize;

/// What a filter says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It goes on, and chance may still strike.
    Pass,
    /// It is lost.
    Drop,
}

type Filter = Box<dyn FnMut(Instant, &[u8]) -> Verdict>;
type Sink = Box<dyn FnMut(&[u8])>;

/// An Ethernet. Clones are the same one.
#[derive(Clone)]
pub struct Link {
    pub(crate) shared: Rc<Shared>,
}

pub(crate) struct Shared {
    pub(crate) now: Cell<Instant>,
    pub(crate) wires: RefCell<Wires>,
    pub(crate) actors: RefCell<Actors>,
}

/// All that frames pass.
pub(crate) struct Wires {
    options: Options,
    pool: Pool,
    ends: Vec<End>,
    /// Frames so far: the order among those that arrive at the same moment.
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
}

struct Arriving {
    when: Instant,
    count: u64,
    frame: Frame,
}

impl Ord for Arriving {
    /// What arrives first is the greatest, as the heap wants it.
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
    /// A link without ports, at time zero.
    ///
    /// # Panics
    ///
    /// If large segments are wanted without partial checksums.
    pub fn new(options: Options) -> Self {
        assert!(
            options.segments == 0 || options.partial_checksums,
            "whoever cuts segments completes their checksums too"
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
                actors: RefCell::default(),
            }),
        }
    }

    /// Add a port with this Ethernet address.
    ///
    /// What one of two ports sends arrives at the other, whatever its destination. With more ports, a frame goes to the port that has its
    /// destination address, or to all others if none has.
    pub fn port(&self, address: HardwareAddress) -> Port {
        let mut wires = self.shared.wires.borrow_mut();
        let id = wires.ends.len();
        // Each port draws from numbers of its own.
        let seed = Random::new(wires.options.seed ^ ((id as u64) << 32)).bits();
        let end = End {
            address,
            path: Path::default(),
            random: Random::new(seed),
            sender: Sender::default(),
            counters: Counters::default(),
            filter: None,
            arriving: BinaryHeap::with_capacity(wires.options.frames),
        };
        wires.ends.push(end);
        drop(wires);
        Port {
            link: self.clone(),
            id,
        }
    }

    /// Set what happens to frames that `port` sends from now on.
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

    /// Set what happens to frames that any port sends, those to come excepted.
    pub fn set_paths(&self, path: Path) {
        let ports = self.shared.wires.borrow().ends.len();
        (0..ports).for_each(|port| self.set_path(port, path));
    }

    /// Let `filter` decide on each frame that `port` sends; it gets the time and the bytes, and must not use the link.
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

    /// What happened to frames that `port` sent.
    ///
    /// # Panics
    ///
    /// If there is no such port.
    pub fn counters(&self, port: PortId) -> Counters {
        self.shared.wires.borrow().ends[port].counters
    }

    /// A number that depends on every frame that was sent: when, by which port, and its bytes. Lost frames count too.
    ///
    /// It is that of an empty run if the options switch it off.
    pub fn digest(&self) -> u64 {
        self.shared.wires.borrow().digest.value()
    }

    /// Write all frames that are sent from now on to `sink`, in the format that [`pcap`] describes, the file's header first.
    ///
    /// Frames are captured as the sender gives them, before anything happens to them; partial checksums look wrong to the reader.
    pub fn capture(&self, mut sink: impl FnMut(&[u8]) + 'static) {
        sink(&pcap::HEADER);
        self.shared.wires.borrow_mut().capture = Some(Box::new(sink));
    }

    /// What time it is.
    pub fn now(&self) -> Instant {
        self.shared.now.get()
    }

    /// Frames that are under way or in a receiver's hands.
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
    /// When the next frame arrives anywhere, after `now`. What has arrived and was not taken does not count.
    pub(crate) fn next_arrival(&self, now: Instant) -> Option<Instant> {
        // Frames that nobody takes would hide later ones of the same port; such a port is nobody's.
        let next = self.ends.iter().filter_map(|end| end.arriving.peek());
        next.map(|frame| frame.when)
            .filter(|&when| when > now)
            .min()
    }

    /// Whether `port` can receive something now.
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

    /// Note a frame in the digest and the capture.
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

    /// Take a frame over its path to whoever hears it.
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
        let fate = Fate::draw(&end.path, &mut end.random);
        // It takes its time on the wire even if it is lost further on.
        let when = end.sender.send(&end.path, now, frame.bytes.len(), &fate);
        if fate.lost {
            end.counters.lost += 1;
            return;
        }
        end.counters.reordered += u64::from(fate.held_up);
        if fate.flip.is_some_and(|place| flip(&mut frame, place)) {
            end.counters.corrupted += 1;
        }
        let twin = if fate.twin { self.copy(&frame) } else { None };
        if let Some(twin) = twin {
            self.ends[from].counters.duplicated += 1;
            self.deliver(from, when, twin);
        }
        self.deliver(from, when, frame);
    }

    /// Put a frame into the queues of those who hear it.
    fn deliver(&mut self, from: PortId, when: Instant, frame: Frame) {
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
                self.arrive(from, only, when, frame);
            }
            return;
        }
        for other in (0..self.ends.len()).filter(|&other| other != from) {
            // Without memory for all copies the rest is lost, as in any switch.
            let Some(copy) = self.copy(&frame) else {
                return;
            };
            self.arrive(from, other, when, copy);
        }
    }

    fn arrive(&mut self, from: PortId, at: PortId, when: Instant, frame: Frame) {
        self.count += 1;
        let count = self.count;
        self.ends[from].counters.delivered += 1;
        self.ends[at].arriving.push(Arriving { when, count, frame });
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

/// Flip a bit behind the Ethernet header, if it is an IP packet that has all its checksums.
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

/// One end of a [`Link`].
#[derive(Debug)]
pub struct Port {
    link: Link,
    id: PortId,
}

impl Port {
    /// Its number.
    pub fn id(&self) -> PortId {
        self.id
    }

    /// The link that it is part of.
    pub fn link(&self) -> &Link {
        &self.link
    }

    /// Send a frame that arrives with this mark, whatever is in it. (For tests: [`Device::transmit`] marks frames by itself.)
    ///
    /// # Errors
    ///
    /// As of [`Device::transmit`].
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
        if !wires.has_arrived(self.id, shared.now.get()) {
            return None;
        }
        let arrived = wires.ends[self.id].arriving.pop();
        arrived.map(|arrived| arrived.frame)
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
