// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Linux kernel's sockets as a `swapstone_net::Stack`, so that one application runs on the
//! kernel's network stack and on others.
//!
//! Sockets are non-blocking and registered with one edge-triggered `epoll` instance.
//! [`Kernel::new`] returns the stack and its clock:
//!
//! ```
//! use swapstone_net::{Limits, Net};
//! use swapstone_net_kernel::{Buffers, Kernel};
//!
//! let (kernel, platform) = Kernel::new(Limits::default(), Buffers::Automatic)?;
//! let net = Net::new(kernel, platform);
//! let server = net.tcp()?;
//! server.bind("127.0.0.1:0".parse()?)?;
//! server.listen(16)?;
//! let client = net.tcp()?;
//! client.connect(server.local_addr().unwrap())?;
//! let (serving, peer) = server.accept()?;
//! assert_eq!(Some(peer), client.local_addr());
//! client.send_all(b"hello")?;
//! let mut buffer = [0; 16];
//! let size = serving.recv(&mut buffer)?;
//! assert_eq!(&buffer[..size], b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Differences from a stack in the process:
//!
//! - The statistics of frames, retransmissions, orphans and malformed frames are 0.
//! - Receiving copies once, from the kernel into a scratch buffer; sending copies once, too.
//!   `tcp_send_shared` is an ordinary send.
//! - The numbers of sockets are limited, without those in accept queues. Buffers are sized by the
//!   kernel, or fixed with [`Buffers::Limits`]. There is no limit of packet memory.
//! - The IPv6 unspecified address matches IPv4, too; the IPv4 one matches IPv4 only.
//! - `connect` times out after `net.ipv4.tcp_syn_retries` retransmissions: about two minutes.
//! - Addresses, routes, ports and initial sequence numbers are the kernel's, so there is no
//!   `Config`.
#![cfg(target_os = "linux")]
#![deny(missing_docs)]

mod address;
mod errno;
mod platform;
mod socket;
mod stack;
mod tcp;
mod udp;

pub use platform::KernelPlatform;
pub use stack::{Buffers, Kernel};
