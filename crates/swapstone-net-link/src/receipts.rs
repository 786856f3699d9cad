// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a port received: order and delay of its frames, as they were.

use core::time::Duration;

use swapstone_net::Instant;

/// Counters of the frames that a port received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Receipts {
    /// The number of frames.
    pub frames: u64,
    /// Frames that were received after a frame that was sent later.
    pub overtaken: u64,
    /// The shortest time from sending to receiving; zero without frames.
    pub shortest: Duration,
    /// The longest.
    pub longest: Duration,
    /// The sum of all.
    pub sum: Duration,
    latest: u64,
}

impl Receipts {
    /// Counts the frame with this number, which was sent at `sent`.
    pub(crate) fn note(&mut self, number: u64, sent: Instant, now: Instant) {
        let time = now - sent;
        self.shortest = if self.frames == 0 {
            time
        } else {
            self.shortest.min(time)
        };
        self.longest = self.longest.max(time);
        self.sum += time;
        self.frames += 1;
        self.overtaken += u64::from(number < self.latest);
        self.latest = self.latest.max(number);
    }

    /// Returns the mean time from sending to receiving.
    pub fn mean(&self) -> Duration {
        u32::try_from(self.frames.max(1)).map_or(Duration::ZERO, |frames| self.sum / frames)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_and_delay_are_counted() {
        let mut found = Receipts::default();
        assert_eq!(found.mean(), Duration::ZERO);
        let at = Instant::from_micros;
        found.note(1, at(10), at(15));
        found.note(3, at(12), at(15));
        found.note(2, at(11), at(20));
        assert_eq!((found.frames, found.overtaken), (3, 1));
        assert_eq!(found.shortest, Duration::from_micros(3));
        assert_eq!(found.longest, Duration::from_micros(9));
        assert_eq!(found.mean(), Duration::from_micros(17) / 3);
    }
}
