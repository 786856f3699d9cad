//! What happens to frames on their way.

use core::time::Duration;

use swapstone_net::Instant;

use crate::random::Random;

/// What a queue does with a frame that it has no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenFull {
    /// It is lost, as in a router.
    #[default]
    Drop,
    /// The device says [`swapstone_net::device::Full`].
    Refuse,
}

/// The queue in front of a path of limited bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// Frames that may wait, the one being sent among them.
    pub frames: usize,
    /// Bytes that may wait.
    pub bytes: usize,
    /// What happens to more.
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

/// One direction of the link: what a port sends passes this. The default is a perfect wire without delay.
///
/// Chances are in parts per million of frames, and independent of each other: changing one leaves the others' outcomes as they were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Path {
    /// Bits per second, of frames as they are (no preamble, no gap); 0 for no limit.
    pub bandwidth: u64,
    /// How long a frame travels after its last bit was sent.
    pub delay: Duration,
    /// Up to so much more, evenly distributed; frames stay in order.
    pub jitter: Duration,
    /// Chance that a frame is held up, so that later ones overtake it.
    pub reorder_ppm: u32,
    /// How long it is held up.
    pub reorder_by: Duration,
    /// Chance that a frame is lost.
    pub loss_ppm: u32,
    /// Chance that a frame arrives twice.
    pub duplicate_ppm: u32,
    /// Chance that one bit of an IP packet is flipped.
    ///
    /// Other frames (ARP) are spared, since only Ethernet's own check would tell, and so are frames with a partial checksum.
    pub corrupt_ppm: u32,
    /// What waits to be sent.
    pub queue: Queue,
}

/// What happened on one direction so far, in frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Taken from the sender.
    pub sent: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Given to a receiver's queue, twins counted.
    pub delivered: u64,
    /// Lost by chance.
    pub lost: u64,
    /// Lost because a filter said so.
    pub filtered: u64,
    /// Delivered twice.
    pub duplicated: u64,
    /// Delivered with a wrong bit.
    pub corrupted: u64,
    /// Held up.
    pub reordered: u64,
    /// Lost because the queue was full.
    pub dropped: u64,
    /// Not taken: the queue or the link's memory was full.
    pub refused: u64,
    /// Lost because they are larger than the MTU.
    pub oversized: u64,
}

/// What chance has in store for a frame. All of it is drawn for each frame, whatever the settings.
pub(crate) struct Fate {
    pub(crate) lost: bool,
    pub(crate) twin: bool,
    pub(crate) held_up: bool,
    pub(crate) jitter: Duration,
    /// Set if a bit is flipped: a number to choose it by.
    pub(crate) flip: Option<u64>,
}

impl Fate {
    pub(crate) fn draw(path: &Path, random: &mut Random) -> Self {
        let lost = random.happens(path.loss_ppm);
        let twin = random.happens(path.duplicate_ppm);
        let held_up = random.happens(path.reorder_ppm);
        let most = u64::try_from(path.jitter.as_micros()).unwrap_or(u64::MAX);
        let jitter = Duration::from_micros(random.below(most.saturating_add(1)));
        let flips = random.happens(path.corrupt_ppm);
        let place = random.bits();
        Self {
            lost,
            twin,
            held_up,
            jitter,
            flip: flips.then_some(place),
        }
    }
}

/// What is being sent on one direction.
///
/// Inside it time is in nanoseconds, because small frames take fractions of a microsecond.
#[derive(Debug, Default)]
pub(crate) struct Sender {
    /// When the last frame will have been sent.
    busy_until: u64,
    /// When the frames that wait will have been sent, and their bytes: oldest first.
    waiting: alloc::collections::VecDeque<(u64, usize)>,
    waiting_bytes: usize,
    /// When the last frame in order arrives.
    last_arrival: Instant,
}

impl Sender {
    /// Whether the queue has room for a frame of `size` bytes.
    pub(crate) fn has_room(&mut self, path: &Path, now: Instant, size: usize) -> bool {
        let now = now.micros().saturating_mul(1000);
        while let Some(&(sent, bytes)) = self.waiting.front() {
            if sent > now {
                break;
            }
            self.waiting.pop_front();
            self.waiting_bytes -= bytes;
        }
        // A bandwidth without a limit leaves nothing waiting.
        self.waiting.len() < path.queue.frames
            && self.waiting_bytes.saturating_add(size) <= path.queue.bytes.max(size)
    }

    /// Queue a frame of `size` bytes; return when it arrives.
    pub(crate) fn send(&mut self, path: &Path, now: Instant, size: usize, fate: &Fate) -> Instant {
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
        let arrival = Instant::from_micros(sent.div_ceil(1000)) + path.delay + fate.jitter;
        if fate.held_up {
            return arrival + path.reorder_by;
        }
        self.last_arrival = self.last_arrival.max(arrival);
        self.last_arrival
    }

    /// Make room for as many frames as may wait, at most `most`, so that none allocates later.
    pub(crate) fn reserve(&mut self, most: usize) {
        self.waiting
            .reserve(most.saturating_sub(self.waiting.len()));
    }
}
