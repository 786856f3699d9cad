// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server over smoltcp.
#![no_std]
#![no_main]

swapstone_net_guest::program!(swapstone_net_smoltcp::Smoltcp::new);
