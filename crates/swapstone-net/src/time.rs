// SPDX-License-Identifier: MIT OR Apache-2.0
//! Points in time. They are always passed in: this crate reads no clock.

use core::ops::{Add, Sub};
use core::time::Duration;

/// A point in time: microseconds since an epoch that the clock chooses. It never decreases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Instant {
    micros: u64,
}

impl Instant {
    /// The epoch.
    pub const ZERO: Self = Self { micros: 0 };

    /// Returns the time `micros` microseconds after the epoch.
    pub const fn from_micros(micros: u64) -> Self {
        Self { micros }
    }

    /// Returns the microseconds since the epoch.
    pub const fn micros(self) -> u64 {
        self.micros
    }

    /// Returns the milliseconds since the epoch, rounded down.
    pub const fn millis(self) -> u64 {
        self.micros / 1000
    }

    /// Returns the duration since `earlier`, or zero if `earlier` is later.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(self.micros.saturating_sub(earlier.micros))
    }
}

impl Add<Duration> for Instant {
    type Output = Self;

    /// Rounds up to a microsecond, so that a wait is never too short. Saturates on overflow.
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
    fn a_difference_is_never_negative() {
        let (early, late) = (Instant::from_micros(5), Instant::from_micros(9));
        assert_eq!(late - early, Duration::from_micros(4));
        assert_eq!(early - late, Duration::ZERO);
        assert_eq!(Instant::from_micros(2999).millis(), 2);
    }
}
