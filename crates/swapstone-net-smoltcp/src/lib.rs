//! smoltcp behind the contract of `swapstone-net`, with what smoltcp leaves to its user.
//!
//! [`Smoltcp`] is a [`swapstone_net::Stack`] over any [`swapstone_net::Device`]; several can live in one process. `no_std` with `alloc`; no
//! unsafe code.
//!
//! ```
//! use swapstone_net::{Cidr, Config, Net};
//! use swapstone_net_link::{Link, Options};
//! use swapstone_net_smoltcp::Smoltcp;
//!
//! // Two hosts on a link in memory; a real one is a device of another crate, and a clock that waits for it.
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
//! // Looked at where it lies in the receive buffer.
//! assert_eq!(peer.recv_with(|bytes| { assert_eq!(bytes, b"hello"); bytes.len() })?, 5);
//! assert_eq!(Some(address), socket.local_addr());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # How it works
//!
//! smoltcp looks at all sockets of a set for each frame and for each poll. Here each socket has a set of its own. A frame's addresses and
//! ports are read first, and a table with a keyed hash says whose it is; a socket is polled for output when something happened to it
//! or its
//! deadline has come. So the cost of a frame does not grow with the number of sockets (but for the memory that caches can't hold),
//! and that
//! of a deadline grows as its logarithm.
//!
//! - **Listening**: a SYN that a listener has room for gets a socket made for it; one that it has no room for is dropped, and comes
//!   again.
//!   Connections that are being made count against the backlog with those that wait.
//! - **Closing**: a socket that was given up goes on as an orphan. It is reset if bytes were not read or come later, if its linger
//!   time is
//!   over, or if for 60 seconds nothing is acknowledged or the peer's half stays open.
//! - **TIME-WAIT** is a record of some 100 bytes without buffers, for 60 seconds; at most as many as `Limits::tcp_sockets` or 4096,
//!   the oldest
//!   go first. A SYN with a higher sequence number opens the connection anew (RFC 6191), and a connect takes such a port if no
//!   other is left.
//! - **Time-outs**: a connection that does not come about is given up after 60 seconds, one whose peer acknowledges nothing after
//!   120, and with
//!   keep-alive one whose peer is silent for five intervals. A datagram whose neighbour does not answer is dropped after 3 seconds.
//! - **Sequence numbers** are a keyed hash of the connection and a clock (RFC 6528), and ports are chosen by RFC 6056, algorithm 4.
//!   smoltcp's
//!   own would be predictable: it draws them from a linear generator. It has no setting for them, but the generator's state can be
//!   chosen so
//!   that it draws the number that is wanted, from an interface made for that one segment. (A test compares what is sent.)
//! - **Checksums** are verified here, frame by frame, unless the device says that it did; those of TCP and UDP are written here or
//!   left to
//!   the device. If it cuts segments up, smoltcp writes large ones, and congestion is still controlled in segments of the real size.
//! - **Memory**: a socket's buffers are allocated when one is needed and there is no spare one, and kept for the next when it is over.
//!   `Limits::packet_memory` means nothing here: there is no common store of packets.
//!
//! # Statistics
//!
//! `retransmitted` counts frames; one that the device cuts is one frame, and repeated zero-window probes count. `malformed` does not have
//! what only smoltcp finds wrong, bad TCP options of an established connection for instance. `no_room` has fragments too.
//!
//! # Limits
//!
//! README.md of this crate tells what smoltcp lacks. IP fragments are dropped, and a datagram must fit into the MTU. There is no
//! loopback:
//! a stack can't connect to itself. At most 7 addresses besides the link-local one, 128 neighbours, 8 routes.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

mod conn;
mod discovery;
mod ip;
mod keys;
mod port;
mod slots;
mod stack;
mod tcp;
mod time_wait;
mod timers;
mod udp;
mod wire;

pub use stack::{NewError, Smoltcp};
