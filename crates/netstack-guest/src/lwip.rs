//! The server over lwip.
#![no_std]
#![no_main]

netstack_guest::program!(netstack_lwip::Lwip::new);
