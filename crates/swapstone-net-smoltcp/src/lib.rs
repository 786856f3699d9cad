// SPDX-License-Identifier: MIT OR Apache-2.0
//! smoltcp as a [`swapstone_net::Stack`], with the parts that smoltcp leaves to applications.
//!
//! [`Smoltcp`] runs over any [`swapstone_net::Device`]. A process can have several instances. `no_std`
//! with `alloc`; no unsafe code.
//!
//! ```
//! use swapstone_net::{Cidr, Config, Net};
//! use swapstone_net_link::{Link, Options};
//! use swapstone_net_smoltcp::Smoltcp;
//!
//! // Two hosts on an in-memory link. Other crates provide real devices and their clocks.
//! let link = Link::new(Options::default());
//! let host = |last: u8| {
//!   let port = link.port([2, 0, 0, 0, 0, last]);
//!   let id = port.id();
//!   let config = Config::new(&[Cidr::new([10, 0, 0, last].into(), 24)], [last; 32]);
//!   let net = Net::new(Smoltcp::new(port, &config)?, link.time(id));
//!   link.attach(id, net.clone());
//!   Ok::<_, swapstone_net_smoltcp::NewError>(net)
//! };
//! let (client, server) = (host(1)?, host(2)?);
//!
//! let listener = server.tcp()?;
//! listener.bind("10.0.0.2:80".parse()?)?;
//! listener.listen(16)?;
//! let socket = client.tcp()?;
//! socket.connect("10.0.0.2:80".parse()?)?;
//! let (peer, address) = listener.accept()?;
//! socket.send_all(b"hello")?;
//! // Data is shown in the receive buffer.
//! assert_eq!(peer.recv_with(|bytes| { assert_eq!(bytes, b"hello"); bytes.len() })?, 5);
//! assert_eq!(Some(address), socket.local_addr());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! smoltcp examines all sockets of a set for each frame and each poll. Here each socket has a set of
//! its own. The addresses and ports of a frame are parsed first, and a hash table with a keyed hash
//! finds its socket. A socket is polled for output after an event or at its deadline. So the cost of
//! a frame does not depend on the number of sockets (except for cache misses), and that of a
//! deadline grows logarithmically.
//!
//! - **Listening**: a SYN gets a socket if the backlog has room; otherwise it is dropped, and the
//!   peer retransmits it. Connections in SYN-RECEIVED count against the backlog.
//! - **Closing**: a closed socket continues without an owner. It is reset if data was unread or
//!   arrives later, if its linger time expires, or if for 60 seconds nothing is acknowledged or the
//!   peer sends no FIN.
//! - **TIME-WAIT** is a record of about 100 bytes without buffers, for 60 seconds; at most as many as
//!   `Limits::tcp_sockets` or 4096, the oldest are removed first. A SYN with a higher sequence number
//!   reopens the connection (RFC 6191), and `connect` reuses such a port if no other is free.
//! - **Timeouts**: a handshake fails after 60 seconds, and unacknowledged data after 120. With
//!   keep-alive, a connection fails after five intervals without a segment. A datagram is dropped
//!   after 3 seconds of neighbor discovery.
//! - **Sequence numbers** are a keyed hash of the connection plus a clock (RFC 6528), and ports follow
//!   RFC 6056, algorithm 4. smoltcp generates its own from a predictable linear generator, without a
//!   setting. So the state of the generator is selected such that it generates the wanted number,
//!   from an interface that is created for that segment. A test compares the sent numbers.
//! - **Checksums** are verified for each frame unless the device has done so. Those of TCP and UDP are
//!   set here or by the device. With segmentation offload smoltcp writes large segments, and
//!   congestion control still counts segments of the real size.
//! - **Memory**: the buffers of a socket are allocated when needed and reused. `Limits::packet_memory`
//!   has no effect: there is no shared packet memory.
//!
//! # Statistics
//!
//! `retransmitted` counts frames: a frame that the device splits counts once, and repeated
//! zero-window probes are included. `malformed` does not include what only smoltcp detects, such as
//! invalid TCP options of an established connection. `no_room` includes IP fragments.
//!
//! # Limits
//!
//! The README lists the limitations. IP fragments are dropped, and a datagram must fit into the MTU.
//! There is no loopback. At most 7 addresses besides the link-local one, 128 neighbors, 8 routes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

mod conn;
mod conn_states;
mod discovery;
mod fixes;
mod frame;
mod ip;
mod keys;
mod neighbors;
mod port;
mod segments;
mod slots;
mod stack;
mod tcp;
mod time_wait;
mod timers;
mod tuning;
mod udp;
mod wire;

pub use fixes::FIXES;
pub use stack::{NewError, Smoltcp};
pub use tuning::options;
