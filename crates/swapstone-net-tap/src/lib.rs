//! A Linux TAP as a device of `swapstone-net`.
//!
//! [`Tap`] is the device, [`TapPlatform`] the clock and the wait for it. With offload (the default) each frame has a virtio-net header
//! before it: checksums are completed, and TCP segments larger than the MTU cut and merged, by the kernel on the other side, or by nobody
//! at all if the frame never leaves the machine.
//!
//! The interface must be given its addresses, and be up, by other means (`ip address add`, `ip link set up`). It takes the right
//! `CAP_NET_ADMIN` to make one; one that `ip tuntap add ... user NAME` made is open to that user.
//!
//! # One system call per frame
//!
//! The kernel has no call that reads or writes several frames of a TAP. What it has was tried or weighed:
//!
//! - *Segmentation offload* is the batch that pays: one call carries up to 64 KiB.
//! - *Several queues* serve several threads; a stack here has one.
//! - *vhost-net* hands batches over by shared rings, and wants a kernel thread (and a CPU) for each device.
//! - *io_uring* takes many `writev` in one call. Tried with frames of 66 and 1514 bytes, 8 to 64 at once, on Linux 6.18: the CPU time of a
//!   frame was the same within the spread of the runs, for nearly all of it is the kernel's network stack and not the call; and a batch
//!   took several times as long as its frames one by one. So it is not used.
#![cfg(target_os = "linux")]
#![deny(missing_docs)]

mod header;
mod interface;
mod platform;
mod tap;

pub use platform::TapPlatform;
pub use tap::{Counters, Settings, Tap};
