// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock, and waiting for a frame.

use std::io;
use std::os::fd::OwnedFd;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::time::{ClockId, clock_gettime};
use swapstone_net::{Instant, Platform};

use crate::tap::Tap;

/// The system's monotonic clock, and `ppoll` for a [`Tap`].
#[derive(Debug)]
pub struct TapPlatform {
    tap: OwnedFd,
}

impl TapPlatform {
    /// Creates a clock that waits for this device. The device may be passed to a stack afterwards.
    ///
    /// # Errors
    ///
    /// `dup` fails: the limit of open files is reached.
    pub fn new(tap: &Tap) -> io::Result<Self> {
        Ok(Self {
            tap: tap.descriptor().try_clone_to_owned()?,
        })
    }
}

impl Platform for TapPlatform {
    fn now(&mut self) -> Instant {
        let time = clock_gettime(ClockId::Monotonic);
        Instant::from_micros(time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1000)
    }

    fn wait(&mut self, until: Option<Instant>) {
        let left = until.map(|until| {
            let left = until - self.now();
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            }
        });
        let mut watched = [PollFd::new(&self.tap, PollFlags::IN)];
        // A signal ends the wait early, which the contract allows.
        let _ = rustix::event::poll(&mut watched, left.as_ref());
    }
}
