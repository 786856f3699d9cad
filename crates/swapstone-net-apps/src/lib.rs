//! Servers over the sockets of swapstone-net that run anywhere: `no_std`, with `alloc`.
//!
//! `swapstone-net-bench` serves with them in a process, over any stack or the kernel's own sockets; `swapstone-net-guest` on bare metal. What is
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
