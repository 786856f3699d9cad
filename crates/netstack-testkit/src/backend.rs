//! The stacks that the suite runs on.

use netstack::{Config, Stack};

use crate::watched::WatchedPort;

/// A stack that can be tested.
pub struct Backend {
    /// Its name on the command line and in the table.
    pub name: &'static str,
    /// Make one. An error says why it can't be had here: its tests are then unavailable.
    pub make: fn(WatchedPort, &Config) -> Result<Box<dyn Stack>, String>,
}

impl std::fmt::Debug for Backend {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Backend({})", self.name)
    }
}

/// All backends, in the table's order.
pub const BACKENDS: &[Backend] = &[];

/// The backend that plays the peer where a whole one is needed; it must allow several stacks in a process.
pub const PEER: &str = "smoltcp";

/// Find a backend by name.
pub fn named(name: &str) -> Option<&'static Backend> {
    BACKENDS.iter().find(|backend| backend.name == name)
}
