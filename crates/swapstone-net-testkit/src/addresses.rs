// SPDX-License-Identifier: MIT OR Apache-2.0
//! The addresses of the stack under test and its peer.

use std::net::{Ipv4Addr, Ipv6Addr};

use swapstone_net::device::HardwareAddress;

/// The Ethernet address of the stack under test.
pub const SUBJECT_MAC: HardwareAddress = [2, 0, 0, 0, 0, 1];
/// The peer's Ethernet address.
pub const PEER_MAC: HardwareAddress = [2, 0, 0, 0, 0, 2];
/// The IPv4 address of the stack under test.
pub const SUBJECT_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
/// The IPv6 address of the stack under test.
pub const SUBJECT_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1);
/// The peer's IPv4 address.
pub const PEER_V4: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// The peer's IPv6 address.
pub const PEER_V6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
