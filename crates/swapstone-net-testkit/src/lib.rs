//! One conformance suite for all network stacks behind `swapstone-net`'s sockets.
//!
//! Every test runs on every backend, in a process of its own: a stack may be one per process, may panic, may hang. The harness prints a
//! table, test by backend. A peer is played by hand-made packets ([`wire`], [`world`]) or by a second stack ([`pair`]).
//!
//! To add a backend, add a line to [`backend::BACKENDS`]. To add a test, add a function and a line to the list of its module.
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
