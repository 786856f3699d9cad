// SPDX-License-Identifier: MIT OR Apache-2.0
//! Coverage-guided fuzzing of a stack through its device. The script `run` builds and starts it.
//!
//! An input is a script of frames (valid ones of both IP versions with changed fields, and
//! arbitrary ones), time steps and operations of the application. The stack has a listener whose
//! application echoes data. After each step the counters must be within the limits. At the end,
//! when all sockets are closed and timed out, all buffers must be returned to the pool.
#![no_main]

mod device;
mod frames;
mod script;

use libfuzzer_sys::fuzz_target;
use swapstone_net::Config;

use crate::device::Wire;

#[cfg(feature = "lwip")]
fn stack(wire: Wire, config: &Config) -> swapstone_net_lwip::Lwip<Wire> {
    swapstone_net_lwip::Lwip::new(wire, config).expect("lwIP starts")
}

#[cfg(all(feature = "smoltcp", not(feature = "lwip")))]
fn stack(wire: Wire, config: &Config) -> swapstone_net_smoltcp::Smoltcp<Wire> {
    swapstone_net_smoltcp::Smoltcp::new(wire, config).expect("smoltcp starts")
}

#[cfg(not(any(feature = "lwip", feature = "smoltcp")))]
compile_error!("one stack: --features lwip, or smoltcp");

fuzz_target!(|bytes: &[u8]| script::run(bytes, stack));
