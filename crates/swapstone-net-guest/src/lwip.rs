// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server over lwIP.
#![no_std]
#![no_main]

swapstone_net_guest::program!(
    swapstone_net_lwip::Lwip::with_fixes,
    swapstone_net_guest::Tunable {
        stack: "lwip",
        fixes: swapstone_net_lwip::FIXES,
        compiled: swapstone_net_lwip::options().into(),
        at_start: &["buffers"],
    }
);
