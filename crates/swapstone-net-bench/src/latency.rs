// SPDX-License-Identifier: MIT OR Apache-2.0
//! Latencies of requests.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

/// The largest recorded latency: an hour, in nanoseconds.
const LONGEST: u64 = 3_600_000_000_000;

/// All latencies of a run in nanoseconds, with three significant digits.
#[derive(Debug)]
pub struct Latency {
    histogram: Histogram<u64>,
}

/// The percentiles to print, in microseconds.
#[derive(Debug, PartialEq, Serialize)]
pub struct Percentiles {
    pub count: u64,
    pub mean: f64,
    pub min: f64,
    pub p50: f64,
    pub p75: f64,
    pub p90: f64,
    pub p99: f64,
    #[serde(rename = "p99.9")]
    pub p99_9: f64,
    #[serde(rename = "p99.99")]
    pub p99_99: f64,
    pub max: f64,
}

impl Latency {
    pub fn new() -> Self {
        Self {
            histogram: Histogram::new_with_bounds(1, LONGEST, 3)
                .expect("these bounds are in order"),
        }
    }

    /// Records a latency that began at `start`.
    pub fn since(&mut self, start: Instant) {
        self.note(start.elapsed());
    }

    fn note(&mut self, time: Duration) {
        let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.histogram.saturating_record(nanos.max(1));
    }

    /// Returns the percentiles; `None` without latencies.
    pub fn percentiles(&self) -> Option<Percentiles> {
        let of = |quantile| self.histogram.value_at_quantile(quantile) as f64 / 1000.0;
        (!self.histogram.is_empty()).then(|| Percentiles {
            count: self.histogram.len(),
            mean: self.histogram.mean() / 1000.0,
            min: self.histogram.min() as f64 / 1000.0,
            p50: of(0.5),
            p75: of(0.75),
            p90: of(0.9),
            p99: of(0.99),
            p99_9: of(0.999),
            p99_99: of(0.9999),
            max: self.histogram.max() as f64 / 1000.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_all_and_in_microseconds() {
        let mut latency = Latency::new();
        assert_eq!(latency.percentiles(), None);
        for micros in 1..=10_000 {
            latency.note(Duration::from_micros(micros));
        }
        let found = latency.percentiles().unwrap();
        assert_eq!(found.count, 10_000);
        for (value, expected) in [
            (found.min, 1.0),
            (found.mean, 5000.5),
            (found.p50, 5000.0),
            (found.p90, 9000.0),
            (found.p99_99, 9999.0),
            (found.max, 10_000.0),
        ] {
            assert!((value / expected - 1.0).abs() < 0.002, "{value} {expected}");
        }
    }
}
