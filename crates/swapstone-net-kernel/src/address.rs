// SPDX-License-Identifier: MIT OR Apache-2.0
//! Conversions between IPv4 and IPv4-mapped IPv6 addresses, and the local addresses.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use if_addrs::{IfAddr, get_if_addrs};
use rustix::net::SocketAddrAny;
use swapstone_net::Cidr;

/// Converts an address for a socket of this family: IPv6 sockets need IPv4-mapped addresses.
pub fn mapped(address: SocketAddr, ipv6: bool) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(v4) if ipv6 => SocketAddr::new(v4.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
}

/// Converts an address from the kernel: IPv4-mapped addresses become IPv4.
pub fn plain(address: SocketAddrAny) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(address).ok()?;
    Some(match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), address.port()),
        IpAddr::V6(_) => address, // keeps the scope id
    })
}

/// Returns the addresses of all interfaces of this network namespace.
pub fn all() -> Vec<Cidr> {
    get_if_addrs()
        .into_iter()
        .flatten()
        .map(|interface| match interface.addr {
            IfAddr::V4(v4) => Cidr::new(v4.ip.into(), v4.prefixlen),
            IfAddr::V6(v6) => Cidr::new(v6.ip.into(), v6.prefixlen),
        })
        .collect()
}

/// Returns whether an address matches all local addresses of both families.
pub fn is_dual_stack_wildcard(address: &SocketAddr) -> bool {
    address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn ipv4_addresses_are_mapped_and_unmapped() {
        let v4: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let v6: SocketAddr = "[2001:db8::1]:80".parse().unwrap();
        assert_eq!(mapped(v4, true), "[::ffff:192.0.2.1]:80".parse().unwrap());
        assert_eq!(mapped(v4, false), v4);
        assert_eq!(plain(mapped(v4, true).into()), Some(v4));
        assert_eq!(plain(v6.into()), Some(v6));
    }

    #[test]
    fn the_loopback_address_is_listed() {
        let loopback = Cidr::new(Ipv4Addr::LOCALHOST.into(), 8);
        assert!(all().contains(&loopback), "{:?}", all());
    }
}
