//! The clock, and the wait for events.

use std::cell::RefCell;
use std::fmt;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use rustix::event::{Timespec, epoll};
use rustix::time::{ClockId, clock_gettime};
use swapstone_net::{Instant, Platform};

/// Events that one call takes from the kernel.
const BATCH: usize = 256;

/// An `epoll` that the stack and its clock share: what a wait has brought the next poll takes, so that both together cost one call.
pub struct Watch {
    pub epoll: OwnedFd,
    state: RefCell<State>,
}

struct State {
    events: Vec<epoll::Event>,
    brought: bool,
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
                brought: false,
            }),
        })
    }

    fn wait(&self, timeout: Option<&Timespec>) {
        let mut state = self.state.borrow_mut();
        if state.brought {
            return; // what was brought has not been taken yet
        }
        state.events.clear();
        let spare = rustix::buffer::spare_capacity(&mut state.events);
        // A signal ends the wait early, as the contract allows.
        let _ = epoll::wait(&self.epoll, spare, timeout);
        state.brought = true;
    }

    /// Give out the events that are there; `true` if there may be more at once.
    pub fn take(&self, mut each: impl FnMut(epoll::Event)) -> bool {
        self.wait(Some(&Timespec::default()));
        let mut state = self.state.borrow_mut();
        state.brought = false;
        let full = state.events.len() == BATCH;
        for event in state.events.drain(..) {
            each(event);
        }
        full
    }
}

/// The monotonic clock of the machine, and the wait for a socket of [`crate::Kernel`].
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
