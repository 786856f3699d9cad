// SPDX-License-Identifier: MIT OR Apache-2.0
//! The conformance suite of the network stacks of `swapstone-net`.
//!
//! Each test runs on each backend in a separate process, because a process can have one lwIP, and a
//! stack may panic or hang. The harness prints a table of tests and backends. The peer sends
//! hand-made packets ([`wire`], [`world`]) or is a second stack ([`pair`]).
//!
//! To add a backend, add a line to [`backend::BACKENDS`]. To add a test, add a function and a line
//! to the list of its module.
#![allow(
    clippy::missing_panics_doc,
    reason = "a test's way to fail is to panic"
)]

pub mod addresses;
pub mod backend;
pub mod conn;
pub mod context;
pub mod farm;
pub mod harness;
pub mod memory;
pub mod pair;

mod tests;
pub mod watched;
pub mod wire;
pub mod world;
