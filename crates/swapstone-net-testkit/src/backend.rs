//! The stacks that the suite runs on.

use std::fmt::Display;

use swapstone_net::{Config, Stack};

use crate::watched::WatchedPort;

/// A new stack, or why it can't be had here.
pub type Made = Result<Box<dyn Stack>, String>;

/// A stack that can be tested.
pub struct Backend {
    /// Its name on the command line and in the table.
    pub name: &'static str,
    /// Make one. An error says why it can't be had here: its tests are then unavailable.
    pub make: fn(WatchedPort, &Config) -> Made,
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Backend({})", self.name)
    }
}

/// All backends, in the table's order.
pub const BACKENDS: &[Backend] = &[
    Backend {
        name: "smoltcp",
        make: |device, config| made(swapstone_net_smoltcp::Smoltcp::new(device, config)),
    },
    Backend {
        name: "lwip",
        make: |device, config| made(swapstone_net_lwip::Lwip::new(device, config)),
    },
];

/// What a backend's own way to make a stack gives, in the suite's terms.
fn made<S: Stack + 'static, E: Display>(result: Result<S, E>) -> Made {
    match result {
        Ok(stack) => Ok(Box::new(stack)),
        Err(error) => Err(error.to_string()),
    }
}

/// The backend that plays the peer where a whole one is needed; it must allow several stacks in a process.
pub const PEER: &str = "smoltcp";

/// Find a backend by name.
pub fn named(name: &str) -> Option<&'static Backend> {
    BACKENDS.iter().find(|backend| backend.name == name)
}
