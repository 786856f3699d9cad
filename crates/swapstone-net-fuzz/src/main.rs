//! Coverage-guided fuzzing of a stack through its device: `run` builds and starts it.
//!
//! An input is a script: frames (good ones of both IP versions with any field wrong, and arbitrary ones), time that passes, and what the
//! application does. The stack has a listener whose application sends back what it reads. After each step the stack's counts must be
//! within its limits; at the end, when all sockets are closed and their times are over, each buffer must be back in the device's pool.
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
