// SPDX-License-Identifier: MIT OR Apache-2.0
//! Network namespaces of this thread, and their devices by ip(8).

use std::error::Error;
use std::fs::File;
use std::os::fd::AsFd;

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space, unshare_unsafe};
use swapstone_net_tap::ip;

/// Moves this thread to a new network namespace, whose loopback device is up.
pub fn create() -> Result<(), Box<dyn Error>> {
    // SAFETY: without CLONE_FILES, no descriptor changes its owner.
    unsafe { unshare_unsafe(UnshareFlags::NEWNET) }
        .map_err(|error| format!("no network namespace can be made: {error}"))?;
    ip(&["link", "set", "lo", "up"])
}

/// Returns the network namespace of this thread.
pub fn current() -> std::io::Result<File> {
    File::open("/proc/thread-self/ns/net")
}

/// Moves this thread to a network namespace.
pub fn enter(namespace: &File) -> rustix::io::Result<()> {
    move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))
}

/// Gives a device an address and sets it up.
pub fn set_up(link: &str, address: &str) -> Result<(), Box<dyn Error>> {
    ip(&["address", "add", &format!("{address}/24"), "dev", link])?;
    ip(&["link", "set", link, "up"])
}
