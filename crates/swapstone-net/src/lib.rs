//! One socket API over interchangeable network stacks.
//!
//! This crate is the API and nothing else: sockets ([`TcpSocket`], [`UdpSocket`]) over a [`Stack`], which is a backend's contract, over a
//! [`Device`], which a driver implements. It has no stack and no driver; `no_std`, with `alloc`. Time is passed in.
//!
//! A socket blocks, with or without a time-out, or says `WouldBlock`; an event loop takes [`Net::next_event`]s. No style needs a thread
//! for each socket.
//!
//! # Examples
//!
//! All of them work over any stack; `swapstone-net-smoltcp` and `swapstone-net-lwip` show how one is made.
//!
//! A server that blocks, and gives back what it gets, where the stack has it:
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
//! A client that looks at what arrives without a copy, and doesn't wait for ever:
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
//! A server that makes its data where they are sent from, which is their only place with a stack that can ([`Capabilities::send_in_place`]):
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
//! An event loop over any number of sockets:
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
//! Datagrams, and names:
//!
//! ```
//! # use core::net::{IpAddr, SocketAddr};
//! # use swapstone_net::{Net, Stack, dns};
//! fn ask<S: Stack>(net: &Net<S>, server: SocketAddr, seed: [u8; 32]) -> Result<Vec<IpAddr>, Box<dyn std::error::Error>> {
//!     let socket = net.udp()?;
//!     socket.send_to(b"hello", server)?;
//!     let mut buffer = [0; 512];
//!     let (_size, _sender) = socket.recv_from(&mut buffer)?;
//!     let mut resolver = dns::Resolver::new(net, dns::Settings::new(&[server], seed));
//!     Ok(resolver.resolve("device.example", dns::Want::V4)?)
//! }
//! ```
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod buffer;
pub mod device;
pub mod dns;
pub mod error;
mod net;
pub mod stack;
mod tcp;
mod time;
mod udp;

pub use buffer::{Buffer, Pool};
pub use device::Device;
pub use net::{Net, Platform};
pub use stack::{
    Capabilities, Cidr, Config, Limits, Readiness, Shared, Shutdown, SocketId, Stack, Statistics,
    TcpOption,
};
pub use tcp::TcpSocket;
pub use time::Instant;
pub use udp::UdpSocket;
