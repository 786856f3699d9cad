// SPDX-License-Identifier: MIT OR Apache-2.0
//! A Linux TAP device for `swapstone-net`.
//!
//! [`Tap`] is the device, [`TapPlatform`] the clock that waits for it. With offload (the default)
//! each frame has a virtio-net header: the kernel completes checksums and splits or merges TCP
//! segments, unless the frame stays on this machine.
//!
//! Configure the interface with `ip address add` and `ip link set up`. Creating one needs
//! `CAP_NET_ADMIN`; a user can open one that `ip tuntap add ... user NAME` has created.
//!
//! # One system call per frame
//!
//! The kernel has no call that reads or writes several frames of a TAP. The alternatives:
//!
//! - *Segmentation offload* carries up to 64 KiB in one call, and is used.
//! - *Several queues* serve several threads; a stack here has one.
//! - *vhost-net* passes batches through shared rings; it needs a kernel thread and a CPU per
//!   device.
//! - *io_uring* submits many `writev` in one call. Measured with frames of 66 and 1514 bytes, 8 to
//!   64 at once, on Linux 6.18: the CPU time per frame did not differ beyond the spread, because
//!   nearly all of it is the kernel's network stack. A batch took several times as long as its frames
//!   one by one. So it is not used.
#![cfg(target_os = "linux")]
#![deny(missing_docs)]

mod header;
mod interface;
mod ip_command;
mod platform;
mod tap;

/// Opens the interface as [`Tap::open`] does, without offload, and returns its descriptor: each
/// non-blocking read or write is one Ethernet frame.
///
/// # Errors
///
/// See [`Tap::open`].
pub fn open_raw(name: &str) -> std::io::Result<std::os::fd::OwnedFd> {
    interface::open(name, false)
}

pub use ip_command::{SYSTEM_PATH, ip};
pub use platform::TapPlatform;
pub use tap::{Counters, Settings, Tap};
