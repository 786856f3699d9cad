// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stacks under test.

use std::fmt::Display;

use swapstone_net::fixes::{Fix, Fixes};
use swapstone_net::{Config, Stack};

use crate::watched::WatchedPort;

/// A new stack, or why it is unavailable.
pub type Made = Result<Box<dyn Stack>, String>;

/// A stack under test.
pub struct Backend {
    /// Its name on the command line and in the table.
    pub name: &'static str,
    /// Creates a stack. An error gives the reason why it is unavailable; its tests are then reported as
    /// unavailable.
    pub make: fn(WatchedPort, &Config, Fixes) -> Made,
    /// The fixes of the stack.
    pub fixes: &'static [Fix],
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Backend({})", self.name)
    }
}

/// All backends in the order of the table.
pub const BACKENDS: &[Backend] = &[
    Backend {
        name: "smoltcp",
        make: |device, config, fixes| {
            made(swapstone_net_smoltcp::Smoltcp::with_fixes(
                device, config, fixes,
            ))
        },
        fixes: swapstone_net_smoltcp::FIXES,
    },
    Backend {
        name: "lwip",
        make: |device, config, fixes| {
            made(swapstone_net_lwip::Lwip::with_fixes(device, config, fixes))
        },
        fixes: swapstone_net_lwip::FIXES,
    },
];

/// Converts the result of a backend's constructor.
fn made<S: Stack + 'static, E: Display>(result: Result<S, E>) -> Made {
    match result {
        Ok(stack) => Ok(Box::new(stack)),
        Err(error) => Err(error.to_string()),
    }
}

/// The backend of the peer in tests with two stacks; it must support several instances.
pub const PEER: &str = "smoltcp";

/// Finds a backend by name.
pub fn named(name: &str) -> Option<&'static Backend> {
    BACKENDS.iter().find(|backend| backend.name == name)
}
