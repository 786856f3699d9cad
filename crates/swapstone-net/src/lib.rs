// SPDX-License-Identifier: MIT OR Apache-2.0
//! One socket API over interchangeable network stacks.
//!
//! - [`Net`], [`TcpSocket`], [`UdpSocket`] and [`dns::Resolver`] are the API for applications.
//! - [`Stack`] is the contract of a network stack. [`backend`] has building blocks for it.
//! - [`Device`] is the contract of a network device.
//!
//! This crate contains no stack and no driver. It is `no_std` with `alloc`, has no dependencies and
//! reads no clock. Stacks: `swapstone-net-lwip`, `swapstone-net-smoltcp`, `swapstone-net-kernel`
//! (Linux). Devices: `swapstone-net-tap` (Linux), `swapstone-net-virtio` (bare metal) and
//! `swapstone-net-link` (in memory, for tests).
//!
//! A socket blocks with or without a timeout, or returns `WouldBlock`. An event loop uses
//! [`Net::next_event`]. No style needs a thread per socket.
//!
//! # Examples
//!
//! They work over any stack; the crates of the stacks show how to create one.
//!
//! A blocking echo server:
//!
//! ```
//! use core::net::SocketAddr;
//! use swapstone_net::{Net, Shutdown, Stack};
//!
//! fn echo<S: Stack>(net: &Net<S>, at: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
//!     let listener = net.tcp()?;
//!     listener.bind(at)?;
//!     listener.listen(16)?;
//!     let (socket, _peer) = listener.accept()?;
//!     let mut buffer = [0; 1500];
//!     loop {
//!         let size = socket.recv(&mut buffer)?;
//!         if size == 0 {
//!             socket.shutdown(Shutdown::Write)?;
//!             return Ok(());
//!         }
//!         socket.send_all(&buffer[..size])?;
//!     }
//! }
//! ```
//!
//! A client that reads in the stack's buffer, without a copy, and has a timeout:
//!
//! ```
//! # use core::net::SocketAddr;
//! # use core::time::Duration;
//! # use swapstone_net::{Net, Stack};
//! fn lines<S: Stack>(net: &Net<S>, server: SocketAddr) -> Result<usize, Box<dyn std::error::Error>> {
//!     let socket = net.tcp()?;
//!     socket.set_timeout(Some(Duration::from_secs(5)));
//!     socket.connect(server)?;
//!     socket.send_vectored(&[b"GET / HTTP/1.0\r\n", b"\r\n"])?;
//!     let mut lines = 0;
//!     while socket.recv_with(|bytes| {
//!         lines += bytes.iter().filter(|&&byte| byte == b'\n').count();
//!         bytes.len()
//!     })? > 0
//!     {}
//!     Ok(lines)
//! }
//! ```
//!
//! A server that writes its data into the stack's send buffer, without a copy on a stack with
//! [`Capabilities::send_in_place`]:
//!
//! ```
//! # use core::net::SocketAddr;
//! # use swapstone_net::{Net, Stack};
//! fn numbers<S: Stack>(net: &Net<S>, address: SocketAddr) -> Result<(), Box<dyn std::error::Error>> {
//!     let listener = net.tcp()?;
//!     listener.bind(address)?;
//!     listener.listen(16)?;
//!     let (socket, _peer) = listener.accept()?;
//!     let mut next = 0;
//!     while next < 1 << 20 {
//!         next += socket.send_with((1 << 20) - next, |room| {
//!             for (number, byte) in room.iter_mut().enumerate() {
//!                 *byte = (next + number) as u8;
//!             }
//!             room.len()
//!         })?;
//!     }
//!     Ok(())
//! }
//! ```
//!
//! An event loop for any number of sockets:
//!
//! ```
//! # use swapstone_net::{Net, Readiness, Stack, TcpSocket};
//! # use std::collections::HashMap;
//! fn serve<S: Stack>(net: &Net<S>, listener: &TcpSocket<S>) {
//!     listener.set_nonblocking(true);
//!     let mut open = HashMap::new();
//!     while let Some((id, ready)) = net.next_event(None) {
//!         if id == listener.id() {
//!             while let Ok((socket, _peer)) = listener.accept() {
//!                 socket.set_nonblocking(true);
//!                 open.insert(socket.id(), socket);
//!             }
//!         } else if ready.contains(Readiness::CLOSED) {
//!             open.remove(&id);
//!         } else if let Some(socket) = open.get(&id) {
//!             while socket.recv_with(<[u8]>::len).is_ok_and(|size| size > 0) {}
//!         }
//!     }
//! }
//! ```
//!
//! Datagrams and name resolution:
//!
//! ```
//! # use core::net::{IpAddr, SocketAddr};
//! # use swapstone_net::{Net, Stack, dns};
//! fn query<S: Stack>(net: &Net<S>, server: SocketAddr, seed: [u8; 32]) -> Result<Vec<IpAddr>, Box<dyn std::error::Error>> {
//!     let socket = net.udp()?;
//!     socket.send_to(b"hello", server)?;
//!     let mut buffer = [0; 512];
//!     let (_size, _sender) = socket.recv_from(&mut buffer)?;
//!     let mut resolver = dns::Resolver::new(net, dns::Settings::new(&[server], seed));
//!     Ok(resolver.resolve("device.example", dns::RecordType::A)?)
//! }
//! ```
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod backend;
pub mod buffer;
pub mod device;
pub mod dns;
pub mod error;
pub mod fixes;
mod net;
pub mod reordering;
pub mod stack;
mod tcp;
mod time;
mod udp;

pub use buffer::{Buffer, Pool};
pub use device::Device;
pub use net::{Net, Platform};
pub use stack::{
    Capabilities, Cidr, Config, Limits, Readiness, Shared, Shutdown, SocketId, Stack, Statistics,
    TcpOption, TcpQueues, TcpStack, UdpStack,
};
pub use tcp::TcpSocket;
pub use time::Instant;
pub use udp::UdpSocket;
