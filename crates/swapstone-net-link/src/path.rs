// SPDX-License-Identifier: MIT OR Apache-2.0
//! The path of frames: bandwidth, delay, queue and faults.

use core::time::Duration;

use swapstone_net::Instant;

use crate::random::Random;

/// The number of a port of a link, counted from 0.
pub type PortId = usize;

/// What a full queue does with a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// Drops it, as a router does.
    #[default]
    Drop,
    /// Rejects it: the device returns [`swapstone_net::device::Full`].
    Refuse,
}

/// The queue before a path of limited bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The maximum number of frames, including the one that is being sent.
    pub frames: usize,
    /// The maximum number of bytes.
    pub bytes: usize,
    /// What happens to further frames.
    pub when_full: WhenFull,
}

impl Default for Queue {
    fn default() -> Self {
        Self {
            frames: 1000,
            bytes: usize::MAX,
            when_full: WhenFull::Drop,
        }
    }
}

/// The properties of one direction of the link. The default has no delay, limit or fault.
///
/// Probabilities are in parts per million of frames. They are independent: changing one does not
/// change which frames the others affect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// The bandwidth in bits per second, without preamble and interframe gap; 0 for no limit.
    pub bandwidth: u64,
    /// The propagation delay.
    pub delay: Duration,
    /// The maximum additional delay, uniformly distributed. Frames stay in order.
    pub jitter: Duration,
    /// The probability that a frame is delayed by `reorder_by`, so that later ones overtake it.
    pub reorder_ppm: u32,
    /// The additional delay of reordered frames.
    pub reorder_by: Duration,
    /// The probability that a frame is lost.
    pub loss_ppm: u32,
    /// The probability that a frame is duplicated.
    pub duplicate_ppm: u32,
    /// The probability that one bit of an IP packet is flipped.
    ///
    /// Other frames (ARP) have only the Ethernet FCS, so they are not affected. Neither are frames
    /// with a partial checksum.
    pub corrupt_ppm: u32,
    /// The queue before the path.
    pub queue: Queue,
}

/// Counters of one direction, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accepted from the sender.
    pub sent: u64,
    /// Bytes of the accepted frames.
    pub bytes: u64,
    /// Delivered to a receiver, including duplicates.
    pub delivered: u64,
    /// Lost by `loss_ppm`.
    pub lost: u64,
    /// Dropped by a filter.
    pub filtered: u64,
    /// Duplicated.
    pub duplicated: u64,
    /// Delivered with a flipped bit.
    pub corrupted: u64,
    /// Reordered.
    pub reordered: u64,
    /// Dropped because the queue was full.
    pub dropped: u64,
    /// Rejected because the queue or the link's buffers were exhausted.
    pub refused: u64,
    /// Dropped because they exceed the MTU.
    pub oversized: u64,
}

/// The random outcomes of a frame. All are drawn for each frame, independently of the settings.
pub(crate) struct Outcome {
    pub(crate) lost: bool,
    pub(crate) duplicated: bool,
    pub(crate) reordered: bool,
    pub(crate) jitter: Duration,
    /// A random number that selects the bit to flip.
    pub(crate) flip: Option<u64>,
}

impl Outcome {
    pub(crate) fn draw(path: &Path, random: &mut Random) -> Self {
        let lost = random.happens(path.loss_ppm);
        let duplicated = random.happens(path.duplicate_ppm);
        let reordered = random.happens(path.reorder_ppm);
        let most = u64::try_from(path.jitter.as_micros()).unwrap_or(u64::MAX);
        let jitter = Duration::from_micros(random.below(most.saturating_add(1)));
        let flips = random.happens(path.corrupt_ppm);
        let place = random.bits();
        Self {
            lost,
            duplicated,
            reordered,
            jitter,
            flip: flips.then_some(place),
        }
    }
}

/// The transmitter and the queue of one direction.
///
/// Times are in nanoseconds, because small frames take less than a microsecond.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// When the transmission of the last frame ends.
    busy_until: u64,
    /// The end of transmission and the length of the queued frames, in order.
    waiting: alloc::collections::VecDeque<(u64, usize)>,
    waiting_bytes: usize,
    /// When the last frame that was not reordered arrives.
    last_arrival: Instant,
}

impl Sender {
    /// Returns whether the queue has room for a frame of `size` bytes.
    pub(crate) fn has_room(&mut self, path: &Path, now: Instant, size: usize) -> bool {
        let now = now.micros().saturating_mul(1000);
        while let Some(&(sent, bytes)) = self.waiting.front() {
            if sent > now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= bytes;
        }
        // Without a limit of bandwidth the queue is empty.
        self.waiting.len() < path.queue.frames
            && self.waiting_bytes.saturating_add(size) <= path.queue.bytes.max(size)
    }

    /// Queues a frame of `size` bytes; returns when it arrives.
    pub(crate) fn send(
        &mut self,
        path: &Path,
        now: Instant,
        size: usize,
        outcome: &Outcome,
    ) -> Instant {
        let mut sent = now.micros().saturating_mul(1000);
        if path.bandwidth > 0 {
            let bits = size as u128 * 8 * 1_000_000_000;
            let duration = bits.div_ceil(u128::from(path.bandwidth));
            sent = sent
                .max(self.busy_until)
                .saturating_add(u64::try_from(duration).unwrap_or(u64::MAX));
            self.busy_until = sent;
            self.waiting.push_back((sent, size));
            self.waiting_bytes += size;
        }
        let arrival = Instant::from_micros(sent.div_ceil(1000)) + path.delay + outcome.jitter;
        if outcome.reordered {
            return arrival + path.reorder_by;
        }
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_arrival
    }

    /// Reserves memory for `most` queued frames, so that `send` does not allocate.
    pub(crate) fn reserve(&mut self, most: usize) {
        self.waiting
            .reserve(most.saturating_sub(self.waiting.len()));
    }
}
