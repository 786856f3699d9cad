//! A stack that several sockets share, and how they wait.

use alloc::boxed::Box;
use alloc::rc::Rc;
use core::cell::{Cell, RefCell};
use core::fmt;
use core::time::Duration;

use crate::error::OpenError;
use crate::stack::{Readiness, SocketId, Stack};
use crate::tcp::TcpSocket;
use crate::time::Instant;
use crate::udp::UdpSocket;

/// The clock that a stack runs by, and how to wait for its device.
pub trait Platform {
    /// What time it is.
    fn now(&mut self) -> Instant;

    /// Return when a frame may have arrived, or at `until`, or earlier. `None` waits for frames only.
    fn wait(&mut self, until: Option<Instant>);
}

/// A stack with its clock. Clones are the same stack; it lives on one thread.
pub struct Net<S> {
    inner: Rc<Inner<S>>,
}

struct Inner<S> {
    stack: RefCell<S>,
    platform: RefCell<Box<dyn Platform>>,
    /// Whether the last poll has left something to do.
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
    /// Join a stack and its clock.
    pub fn new(stack: S, platform: impl Platform + 'static) -> Self {
        Self {
            inner: Rc::new(Inner {
                stack: RefCell::new(stack),
                platform: RefCell::new(Box::new(platform)),
                more: Cell::new(true),
            }),
        }
    }

    /// Do something with the stack itself.
    ///
    /// # Panics
    ///
    /// If it is called from inside another such call.
    pub fn with<T>(&self, what: impl FnOnce(&mut S) -> T) -> T {
        what(&mut self.inner.stack.borrow_mut())
    }

    /// What time it is.
    pub fn now(&self) -> Instant {
        self.inner.platform.borrow_mut().now()
    }

    /// Open a TCP socket, which blocks.
    ///
    /// # Errors
    ///
    /// There are as many as there can be.
    pub fn tcp(&self) -> Result<TcpSocket<S>, OpenError> {
        let id = self.with(Stack::tcp_open)?;
        Ok(TcpSocket::new(self.clone(), id))
    }

    /// Open a UDP socket, which blocks.
    ///
    /// # Errors
    ///
    /// There are as many as there can be.
    pub fn udp(&self) -> Result<UdpSocket<S>, OpenError> {
        let id = self.with(Stack::udp_open)?;
        Ok(UdpSocket::new(self.clone(), id))
    }

    /// Poll the stack once, now; `true` if there may be more to do at once.
    pub fn poll(&self) -> bool {
        let now = self.now();
        let more = self.with(|stack| stack.poll(now));
        self.inner.more.set(more);
        more
    }

    /// Wait until there may be something to do, at most until `until`, and poll.
    ///
    /// Nothing is waited for after the poll: what it brought is the caller's to see first.
    pub fn turn(&self, until: Option<Instant>) {
        if !self.inner.more.get() {
            self.rest(until);
        }
        self.poll();
    }

    /// Wait until there may be something to do, at most until `until`.
    fn rest(&self, until: Option<Instant>) {
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

    /// The heart of an event loop: a socket that something changed for, or `None` at `until`.
    ///
    /// Without `until` it returns only with an event.
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

    /// Repeat `attempt` while it says `would_block`; poll and wait in between.
    ///
    /// `patience` is how long, then it is `timed_out`; `None` for as long as it takes; zero tries once and returns whatever comes.
    pub(crate) fn wait<T, E: PartialEq>(
        &self,
        patience: Option<Duration>,
        would_block: E,
        timed_out: E,
        mut attempt: impl FnMut(&mut S) -> Result<T, E>,
    ) -> Result<T, E> {
        let first = self.with(&mut attempt);
        let blocked = |result: &Result<T, E>| matches!(result, Err(error) if *error == would_block);
        if patience == Some(Duration::ZERO) || !blocked(&first) {
            return first;
        }
        let until = patience.map(|patience| self.now() + patience);
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
            Err(_) => write!(out, "Net(at work)"),
        }
    }
}
