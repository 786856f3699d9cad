//! smoltcp behind the contract of `netstack`.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(any(test, feature = "std"))]
extern crate std;

mod api;
mod conn;
mod keys;
mod port;
mod slots;
mod stack;
mod tcp;
mod timers;
mod udp;
mod waiting;
mod wire;

pub use stack::{MakeError, Smoltcp};
