// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server over smoltcp.
#![no_std]
#![no_main]

swapstone_net_guest::program!(
    swapstone_net_smoltcp::Smoltcp::with_fixes,
    swapstone_net_guest::Tunable {
        stack: "smoltcp",
        fixes: swapstone_net_smoltcp::FIXES,
        compiled: swapstone_net_smoltcp::options().into(),
        at_start: &["pools", "buffers"],
    }
);
