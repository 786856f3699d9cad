// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs packetdrill scripts: against lwIP and smoltcp on a link in memory, exact in time, and
//! against the kernel over a TAP.
//!
//! The language is that of <https://github.com/google/packetdrill>. `docs/netstack-conform.md`
//! lists what this runner supports.

mod arguments;
pub mod assertions;
pub mod calls;
mod connection;
mod constants;
mod epoll;
pub mod errno;
pub mod harness;
mod icmp_names;
pub mod kernel_system;
pub mod parse;
mod parse_packet;
pub mod run;
pub mod scan;
pub mod script;
pub mod settings;
pub mod system;
pub mod text;
mod translation;
pub mod virtual_system;
mod wire;
