// SPDX-License-Identifier: MIT OR Apache-2.0
//! An HTTP server on a machine without an operating system: QEMU's riscv64 `virt` with a virtio-net
//! device.
//!
//! The server is that of `swapstone-net-apps`; lwIP and smoltcp each have a program.
//! `benchmarks/netstack-guest` builds and boots them. They print a line of JSON when they are
//! ready, and one when they end, which is when they read a `q` from the serial line.
#![no_std]

extern crate alloc;

mod machine;
mod memory;
mod server;
mod uart;

pub use machine::Card;
pub use server::{serve, settings};

/// Defines the main function, with the stack that `$make` returns.
#[macro_export]
macro_rules! program {
    ($make:expr) => {
        /// Called by the entry code in assembly.
        #[unsafe(no_mangle)]
        extern "C" fn start() -> ! {
            $crate::serve($make)
        }
    };
}
