// SPDX-License-Identifier: MIT OR Apache-2.0
//! An in-memory Ethernet with a virtual clock and seeded faults, for tests and exact measurements of
//! network stacks.
//!
//! A [`Link`] connects two or more [`Port`]s, each a [`swapstone_net::Device`]. Each direction has a
//! [`Path`]: bandwidth, delay, jitter, reordering, loss, duplication, corruption and a queue. All
//! random outcomes follow from one seed, so the same run sends the same frames at the same
//! microseconds on every machine. [`Link::digest`] shows whether it did.
//!
//! All stacks run on one thread. While a socket blocks on a [`VirtualTime`], the stacks of other
//! ports run as [`Endpoint`]s (see [`Link::attach`]), and the clock jumps from event to event.
//!
//! ```
//! use swapstone_net::Device;
//! use swapstone_net::device::Outgoing;
//! use swapstone_net_link::{Link, Options};
//!
//! let link = Link::new(Options::default());
//! let mut left = link.port([2, 0, 0, 0, 0, 1]);
//! let mut right = link.port([2, 0, 0, 0, 0, 2]);
//! let frame = Outgoing { parts: &[b"to right", b", from left"], partial: None, segmentation: None };
//! left.transmit(frame).unwrap();
//! assert_eq!(&*right.receive().unwrap().bytes, b"to right, from left");
//! ```
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod digest;
mod endpoint;
mod link;
mod path;
pub mod pcap;
mod random;
mod receipts;
mod time;

pub use endpoint::Endpoint;
pub use link::{Link, Options, Port, Verdict};
pub use path::{Counters, Path, PortId, Queue, WhenFull};
pub use random::Random;
pub use receipts::Receipts;
pub use time::VirtualTime;
