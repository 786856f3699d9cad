//! Servers over the sockets of netstack that run anywhere: `no_std`, with `alloc`.
//!
//! `netstack-bench` serves with them in a process, over any stack or the kernel's own sockets; `netstack-guest` on bare metal. What is
//! compared is the same code.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod http;
mod server;
mod sockets;

pub use server::{Counts, HttpServer, Receive, Send, Settings};
pub use sockets::{Listener, Sockets};
