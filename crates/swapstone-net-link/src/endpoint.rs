// SPDX-License-Identifier: MIT OR Apache-2.0
//! Endpoints that run while a socket of another port waits.

use alloc::boxed::Box;
use alloc::vec::Vec;

use swapstone_net::{Instant, Net, Stack};

use crate::path::PortId;

/// An endpoint driven by the virtual clock: a stack, or a program with non-blocking sockets. It must
/// not block.
pub trait Endpoint {
    /// Does the pending work. Returns `true` if more work may be pending.
    fn advance(&mut self, now: Instant) -> bool;

    /// Returns the latest time for the next [`Endpoint::advance`] if no frame arrives; `None` without
    /// a timer.
    fn deadline(&mut self, now: Instant) -> Option<Instant>;
}

/// A stack without a program: established connections continue, and closing ones close.
impl<S: Stack> Endpoint for Net<S> {
    fn advance(&mut self, now: Instant) -> bool {
        self.with(|stack| stack.poll(now))
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        self.with(|stack| stack.deadline(now))
    }
}

#[derive(Default)]
pub(crate) struct Endpoints {
    list: Vec<(PortId, Box<dyn Endpoint>)>,
}

impl Endpoints {
    pub(crate) fn add(&mut self, port: PortId, endpoint: Box<dyn Endpoint>) {
        self.list.push((port, endpoint));
    }

    /// Removes and returns the endpoints of a port.
    pub(crate) fn remove(&mut self, port: PortId) -> Vec<Box<dyn Endpoint>> {
        let removed = self.list.extract_if(.., |(of, _)| *of == port);
        removed.map(|(_, endpoint)| endpoint).collect()
    }

    /// Advances all endpoints, except those of the port `except`, until they have no more work.
    pub(crate) fn advance(&mut self, except: Option<PortId>, now: Instant) {
        for (port, endpoint) in &mut self.list {
            if Some(*port) != except {
                while endpoint.advance(now) {}
            }
        }
    }

    pub(crate) fn deadline(&mut self, except: Option<PortId>, now: Instant) -> Option<Instant> {
        let others = self
            .list
            .iter_mut()
            .filter(|(port, _)| Some(*port) != except);
        let deadlines = others.filter_map(|(_, endpoint)| endpoint.deadline(now));
        deadlines.min()
    }
}
