//! One socket API over interchangeable network stacks.
//!
//! This crate is the API and nothing else: sockets ([`TcpSocket`], [`UdpSocket`]) over a [`Stack`], which is a backend's contract, over a
//! [`Device`], which a driver implements. It has no stack and no driver; `no_std`, with `alloc`. Time is passed in.
//!
//! A socket blocks, with or without a time-out, or says `WouldBlock`; an event loop takes [`Net::next_event`]s. No style needs a thread
//! for each socket.
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
