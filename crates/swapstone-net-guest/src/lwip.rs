// SPDX-License-Identifier: MIT OR Apache-2.0
//! The server over lwIP.
#![no_std]
#![no_main]

swapstone_net_guest::program!(swapstone_net_lwip::Lwip::new);
