//! Linux's own sockets behind the contract of `swapstone-net`, so that one application runs on the kernel's stack and on others.
//!
//! Sockets are non-blocking and watched by one `epoll`, edge-triggered. [`Kernel::new`] gives the stack and its clock:
//!
//! ```
//! use swapstone_net::{Limits, Net};
//! use swapstone_net_kernel::{Buffers, Kernel};
//!
//! let (kernel, platform) = Kernel::new(Limits::default(), Buffers::Kernels)?;
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
//! What differs from a stack of one's own:
//!
//! - Frames, retransmissions, orphans and malformed frames are the kernel's business: they are 0 in the statistics.
//! - Receiving copies once, from the kernel into one scratch buffer; so does sending. `tcp_send_shared` is an ordinary send.
//! - Of the limits, sockets are counted here (without those that wait to be accepted, which the kernel holds); buffers are the kernel's
//!   unless [`Buffers::Limits`] is asked for; packet memory is the kernel's.
//! - The unspecified address of IPv6 stands for both families, that of IPv4 for IPv4 alone.
//! - A connect that nobody answers ends after `net.ipv4.tcp_syn_retries` tries, two minutes by default.
//! - Addresses, routes, ports and initial sequence numbers are the kernel's, so there is no `Config`.
#![cfg(target_os = "linux")]
#![deny(missing_docs)]

mod address;
mod fault;
mod platform;
mod stack;
mod table;
mod tcp;
mod udp;

pub use platform::KernelPlatform;
pub use stack::{Buffers, Kernel};
