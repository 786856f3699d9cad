//! Time, which is always passed in: nothing here asks a clock.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A moment: microseconds since a start that its source chose, never going back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    micros: u64,
}

impl Instant {
    /// The start.
    pub const ZERO: Self = Self { micros: 0 };

    /// The moment that is `micros` microseconds after the start.
    pub const fn from_micros(micros: u64) -> Self {
        Self { micros }
    }

    /// Microseconds since the start.
    pub const fn micros(self) -> u64 {
        self.micros
    }

    /// Milliseconds since the start, rounded down.
    pub const fn millis(self) -> u64 {
        self.micros / 1000
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.micros.saturating_sub(earlier.micros))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Fractions of a microsecond are rounded up, so that a wait is never too short. The end of time is not passed.
    fn add(self, duration: Duration) -> Self {
        let micros = duration.as_nanos().div_ceil(1000);
        Self::from_micros(
            self.micros
                .saturating_add(u64::try_from(micros).unwrap_or(u64::MAX)),
        )
    }
}

impl Sub for Instant {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        self.since(earlier)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_rounds_up_and_never_overflows() {
        let start = Instant::from_micros(7);
        assert_eq!((start + Duration::from_nanos(1)).micros(), 8);
        assert_eq!((start + Duration::from_micros(3)).micros(), 10);
        assert_eq!((start + Duration::MAX).micros(), u64::MAX);
    }

    #[test]
    fn earlier_moments_are_no_time_ago() {
        let (early, late) = (Instant::from_micros(5), Instant::from_micros(9));
        assert_eq!(late - early, Duration::from_micros(4));
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!(Instant::from_micros(2999).millis(), 2);
    }
}
