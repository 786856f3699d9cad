// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers over the sockets of `swapstone-net`: `no_std` with `alloc`.
//!
//! `swapstone-net-bench` runs them in a process over any stack; `swapstone-net-guest` runs them on
//! bare metal. So the same code is compared.
#![no_std]

extern crate alloc;
#[cfg(test)]
extern crate std;

pub mod http;
mod server;
mod sockets;

pub use server::{Counts, HttpServer, Receive, Send, Settings};
pub use sockets::{Listener, Sockets};
