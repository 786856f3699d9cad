//! A machine without an operating system that serves a page: QEMU's `virt` of riscv64 with a virtio-net card.
//!
//! The server is swapstone-net-apps', the stack lwIP or smoltcp, each in a program of its own. `benchmarks/netstack-guest` builds and boots
//! them. It prints a line of JSON when it is ready, and one when it ends, which it does when it reads a `q` from its serial line.
#![no_std]

extern crate alloc;

mod machine;
mod memory;
mod server;
mod uart;

pub use machine::Card;
pub use server::{serve, settings};

/// Declares where the machine goes after its entry, with the stack that `$make` returns.
#[macro_export]
macro_rules! program {
    ($make:expr) => {
        /// Called by the entry in assembly.
        #[unsafe(no_mangle)]
        extern "C" fn start() -> ! {
            $crate::serve($make)
        }
    };
}
