// SPDX-License-Identifier: MIT OR Apache-2.0
//! The virtual clock: time passes only while a socket waits.

use alloc::boxed::Box;

use swapstone_net::{Instant, Platform};

use crate::endpoint::{Endpoint, Endpoints};
use crate::link::Link;
use crate::path::PortId;

impl Link {
    /// Attaches an endpoint to `port`. It runs while sockets of other ports wait.
    ///
    /// Endpoints run in the order of their attachment. An endpoint that holds this link keeps it
    /// alive until [`Link::detach`].
    pub fn attach(&self, port: PortId, endpoint: impl Endpoint + 'static) {
        let mut endpoints = self.shared.endpoints.borrow_mut();
        endpoints.add(port, Box::new(endpoint));
    }

    /// Detaches and drops all endpoints of `port`.
    pub fn detach(&self, port: PortId) {
        let removed = self.shared.endpoints.borrow_mut().remove(port);
        // Dropped without a borrow: an endpoint may use the link while it is dropped.
        drop(removed);
    }

    /// Returns the clock for a stack on `port`: while its sockets wait, the endpoints of other ports
    /// run.
    pub fn time(&self, port: PortId) -> VirtualTime {
        VirtualTime {
            link: self.clone(),
            port,
        }
    }

    /// Runs all endpoints until `until`.
    pub fn run_until(&self, until: Instant) {
        self.pass(None, Some(until));
    }

    /// Returns the time of the next arrival at any port after the current time.
    pub fn next_arrival(&self) -> Option<Instant> {
        self.shared.wires.borrow().next_arrival(self.now())
    }

    /// Advances time to `until`, or until a frame has arrived at `port`, whose endpoints don't run.
    ///
    /// # Panics
    ///
    /// If no event is pending and `until` is `None`.
    pub(crate) fn pass(&self, port: Option<PortId>, until: Option<Instant>) {
        loop {
            let now = self.now();
            self.with_endpoints(|endpoints| endpoints.advance(port, now));
            let wires = self.shared.wires.borrow();
            if port.is_some_and(|port| wires.has_arrived(port, now))
                || until.is_some_and(|until| until <= now)
            {
                return;
            }
            let arrival = wires.next_arrival(now);
            drop(wires);
            let due = self.with_endpoints(|endpoints| endpoints.deadline(port, now));
            // An endpoint that is due again at once runs one microsecond later.
            let due = due.map(|due| due.max(Instant::from_micros(now.micros() + 1)));
            let next = [until, arrival, due].into_iter().flatten().min();
            let Some(next) = next else {
                panic!(
                    "deadlock: a socket waits without a timeout, and no event is pending on the link"
                );
            };
            self.shared.now.set(next);
        }
    }

    fn with_endpoints<T>(&self, what: impl FnOnce(&mut Endpoints) -> T) -> T {
        let endpoints = self.shared.endpoints.try_borrow_mut();
        what(&mut endpoints.expect("an endpoint of the link must not block"))
    }
}

/// The virtual clock of a [`Link`] for the stack on one of its ports.
#[derive(Clone, Debug)]
pub struct VirtualTime {
    link: Link,
    port: PortId,
}

impl Platform for VirtualTime {
    fn now(&mut self) -> Instant {
        self.link.now()
    }

    /// Advances time from event to event until a frame arrives or `until` is reached.
    ///
    /// # Panics
    ///
    /// If no event is pending and `until` is `None`, or if an endpoint calls it.
    fn wait(&mut self, until: Option<Instant>) {
        self.link.pass(Some(self.port), until);
    }
}
