//! The server over smoltcp.
#![no_std]
#![no_main]

netstack_guest::program!(netstack_smoltcp::Smoltcp::new);
