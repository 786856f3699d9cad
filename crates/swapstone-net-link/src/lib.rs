//! An Ethernet in memory, with a clock that only moves when everybody waits.
//!
//! [`Link`] joins two or more [`Port`]s, each a [`swapstone_net::Device`]. Every direction has a [`Path`]: bandwidth, delay, jitter,
//! reordering, loss, duplication, corruption, a queue. All chance comes from one seed, so the same run gives the same frames at the same
//! microseconds, on every machine: [`Link::digest`] tells whether it did.
//!
//! Several stacks live on one thread. The one whose socket blocks waits on a [`VirtualTime`]; meanwhile the others run, as the [`Actor`]s
//! that [`Link::attach`] was given, and the clock jumps from event to event.
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
mod link;
mod path;
pub mod pcap;
mod random;
mod time;

pub use link::{Link, Options, Port, PortId, Verdict};
pub use path::{Counters, Path, Queue, WhenFull};
pub use random::Random;
pub use time::{Actor, VirtualTime};
