// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stack that several sockets share, and how sockets block.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::time::Duration;

use crate::stack::{Readiness, SocketId, Stack};
use crate::time::Instant;

/// A monotonic clock, and a way to wait for the device of a stack.
pub trait Platform {
    /// Returns the current time.
    fn now(&mut self) -> Instant;

    /// Blocks until a frame may have arrived or until `until`. It may return earlier. `None` waits
    /// for a frame without a time limit.
    fn wait(&mut self, until: Option<Instant>);
}

/// A stack and its clock. Clones refer to the same stack. It is confined to one thread.
///
/// [`Net::tcp`] and [`Net::udp`] open sockets.
pub struct Net<S> {
    inner: Rc<Inner<S>>,
}

struct Inner<S> {
    stack: RefCell<S>,
    platform: RefCell<Box<dyn Platform>>,
    /// The last poll has left work.
    more: Cell<bool>,
}

impl<S> Clone for Net<S> {
    fn clone(&self) -> Self {
        Self {
            inner: Rc::clone(&self.inner),
        }
    }
}

impl<S: Stack> Net<S> {
    /// Combines a stack and its clock.
    pub fn new(stack: S, platform: impl Platform + 'static) -> Self {
        Self {
            inner: Rc::new(Inner {
                stack: RefCell::new(stack),
                platform: RefCell::new(Box::new(platform)),
                more: Cell::new(true),
            }),
        }
    }

    /// Calls `what` with the stack.
    ///
    /// # Panics
    ///
    /// If it is called from inside another such call.
    pub fn with<T>(&self, what: impl FnOnce(&mut S) -> T) -> T {
        what(&mut self.inner.stack.borrow_mut())
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.inner.platform.borrow_mut().now()
    }

    /// Polls the stack once. Returns `true` if more work may be pending.
    pub fn poll(&self) -> bool {
        let now = self.now();
        let more = self.with(|stack| stack.poll(now));
        self.inner.more.set(more);
        more
    }

    /// Waits until work may be pending, at most until `until`, and polls once.
    ///
    /// It does not wait after the poll, so that the caller can handle the events first.
    pub fn turn(&self, until: Option<Instant>) {
        if !self.inner.more.get() {
            self.wait_for_work(until);
        }
        self.poll();
    }

    /// Waits for a frame, a timer of the stack or `until`.
    fn wait_for_work(&self, until: Option<Instant>) {
        let now = self.now();
        let due = self.with(|stack| stack.deadline(now));
        let until = match (due, until) {
            (Some(due), Some(until)) => Some(due.min(until)),
            (due, until) => due.or(until),
        };
        if until.is_none_or(|until| until > now) {
            self.inner.platform.borrow_mut().wait(until);
        }
    }

    /// Waits for the next event of any socket: the core of an event loop.
    ///
    /// Returns `None` at `until`. Without `until` it returns only with an event.
    pub fn next_event(&self, until: Option<Instant>) -> Option<(SocketId, Readiness)> {
        loop {
            if let Some(event) = self.with(Stack::next_event) {
                return Some(event);
            }
            if until.is_some_and(|until| self.now() >= until) {
                return None;
            }
            self.turn(until);
        }
    }

    /// Repeats `attempt` while it returns `would_block`; polls and waits in between.
    ///
    /// After `timeout` it returns `timed_out`. `None` waits without a limit. With a timeout of zero
    /// it tries once and returns the result.
    fn wait<T, E: PartialEq>(
        &self,
        timeout: Option<Duration>,
        would_block: E,
        timed_out: E,
        mut attempt: impl FnMut(&mut S) -> Result<T, E>,
    ) -> Result<T, E> {
        let first = self.with(&mut attempt);
        let blocked = |result: &Result<T, E>| matches!(result, Err(error) if *error == would_block);
        if timeout == Some(Duration::ZERO) || !blocked(&first) {
            return first;
        }
        let until = timeout.map(|timeout| self.now() + timeout);
        loop {
            self.turn(until);
            let result = self.with(&mut attempt);
            if !blocked(&result) {
                return result;
            }
            if until.is_some_and(|until| self.now() >= until) {
                return Err(timed_out);
            }
        }
    }
}

impl<S: Stack> fmt::Debug for Net<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inner.stack.try_borrow() {
            Ok(stack) => write!(out, "Net({})", stack.capabilities().name),
            Err(_) => write!(out, "Net(borrowed)"),
        }
    }
}

/// What TCP and UDP sockets have in common: an id in a stack, and whether calls block.
pub(crate) struct Handle<S> {
    pub(crate) net: Net<S>,
    pub(crate) id: SocketId,
    timeout: Cell<Option<Duration>>,
}

impl<S: Stack> Handle<S> {
    pub(crate) fn new(net: &Net<S>, id: SocketId) -> Self {
        Self {
            net: net.clone(),
            id,
            timeout: Cell::new(None),
        }
    }

    pub(crate) fn set_nonblocking(&self, nonblocking: bool) {
        self.timeout.set(nonblocking.then_some(Duration::ZERO));
    }

    /// Panics if the timeout is zero.
    pub(crate) fn set_timeout(&self, timeout: Option<Duration>) {
        assert!(
            timeout != Some(Duration::ZERO),
            "a timeout of zero is a non-blocking socket: use set_nonblocking"
        );
        self.timeout.set(timeout);
    }

    pub(crate) fn wait<T, E: PartialEq>(
        &self,
        would_block: E,
        timed_out: E,
        attempt: impl FnMut(&mut S) -> Result<T, E>,
    ) -> Result<T, E> {
        self.net
            .wait(self.timeout.get(), would_block, timed_out, attempt)
    }
}
