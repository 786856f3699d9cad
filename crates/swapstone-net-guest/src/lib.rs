// SPDX-License-Identifier: MIT OR Apache-2.0
//! An HTTP server on a machine without an operating system: QEMU's riscv64 `virt` with a virtio-net
//! device.
//!
//! The server is that of `swapstone-net-apps`; lwIP and smoltcp each have a program.
//! `swapstone compare --target bare-riscv64` builds and boots them.
//! They print a line of JSON when they are ready. A `b` on the serial line begins the count of
//! instructions and is answered by a line. A `q` ends the machine, after a line with the counters.
//!
//! `-append stack=lwip:shipped` selects fixes and options of the stack; without it, all fixes are on.
#![no_std]

extern crate alloc;

mod command_line;
mod machine;
mod memory;
mod server;
mod tuning;
mod uart;

pub use machine::Card;
pub use server::serve;
pub use tuning::Tunable;

/// Defines the main function, with the stack that `$make` returns, and what can be selected of it.
#[macro_export]
macro_rules! program {
    ($make:expr, $tunable:expr) => {
        /// Called by the entry code in assembly.
        #[unsafe(no_mangle)]
        extern "C" fn start(tree: usize) -> ! {
            $crate::serve(tree, $make, || $tunable)
        }
    };
}
