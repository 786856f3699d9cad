// SPDX-License-Identifier: MIT OR Apache-2.0
//! The clock, and waiting with `epoll`.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};
use swapstone_net::{Instant, Platform};

/// The maximum number of events of one `epoll_wait`.
const BATCH: usize = 256;

/// An `epoll` instance that the stack and its clock share. The next poll processes the events of a
/// wait, so that both together need one system call.
pub struct Watch {
    pub epoll: OwnedFd,
    state: RefCell<State>,
}

struct State {
    events: Vec<epoll::Event>,
    /// `events` was not processed yet.
    fetched: bool,
}

impl fmt::Debug for Watch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "Watch({:?})", self.epoll)
    }
}

impl Watch {
    pub fn new() -> rustix::io::Result<Self> {
        Ok(Self {
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            state: RefCell::new(State {
                events: Vec::with_capacity(BATCH),
                fetched: false,
            }),
        })
    }

    fn wait(&self, timeout: Option<&Timespec>) {
        let mut state = self.state.borrow_mut();
        if state.fetched {
            return;
        }
        state.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut state.events);
        // A signal ends the wait early, which the contract allows.
        let _ = epoll::wait(&self.epoll, spare, timeout);
        state.fetched = true;
    }

    /// Calls `each` with the pending events. Returns `true` if more may be pending.
    pub fn take(&self, mut each: impl FnMut(epoll::Event)) -> bool {
        self.wait(Some(&Timespec::default()));
        let mut state = self.state.borrow_mut();
        state.fetched = false;
        let full = state.events.len() == BATCH;
        for event in state.events.drain(..) {
            each(event);
        }
        full
    }
}

/// The system's monotonic clock, and waiting for events of the sockets of [`crate::Kernel`].
#[derive(Debug)]
pub struct KernelPlatform {
    watch: Rc<Watch>,
}

impl KernelPlatform {
    pub(crate) fn new(watch: Rc<Watch>) -> Self {
        Self { watch }
    }
}

impl Platform for KernelPlatform {
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
        self.watch.wait(left.as_ref());
    }
}
