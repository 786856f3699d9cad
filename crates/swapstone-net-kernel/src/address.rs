//! Addresses, as the kernel's sockets of both families have them.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::SockaddrStorage;
use rustix::net::SocketAddrAny;
use swapstone_net::Cidr;

/// An address as a socket of this family takes it: a socket of IPv6 has IPv4 addresses mapped.
pub fn mapped(address: SocketAddr, ipv6: bool) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(v4) if ipv6 => SocketAddr::new(v4.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
}

/// What the kernel says, with mapped addresses as what they stand for.
pub fn plain(address: SocketAddrAny) -> Option<SocketAddr> {
    let address = SocketAddr::try_from(address).ok()?;
    Some(match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), address.port()),
        IpAddr::V6(_) => address, // with its scope
    })
}

/// The addresses of all interfaces of this network namespace.
pub fn all() -> Vec<Cidr> {
    let ip = |storage: SockaddrStorage| -> Option<IpAddr> {
        match (storage.as_sockaddr_in(), storage.as_sockaddr_in6()) {
            (Some(v4), _) => Some(v4.ip().into()),
            (_, Some(v6)) => Some(v6.ip().into()),
            _ => None,
        }
    };
    getifaddrs()
        .into_iter()
        .flatten()
        .filter_map(|interface| {
            let address = ip(interface.address?)?;
            let prefix = match ip(interface.netmask?)? {
                IpAddr::V4(mask) => mask.to_bits().count_ones(),
                IpAddr::V6(mask) => mask.to_bits().count_ones(),
            };
            Some(Cidr::new(address, prefix as u8))
        })
        .collect()
}

/// Whether an address stands for all of both families.
pub fn is_everything(address: &SocketAddr) -> bool {
    address.ip() == IpAddr::V6(Ipv6Addr::UNSPECIFIED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn mapping_and_back() {
        let v4: SocketAddr = "192.0.2.1:80".parse().unwrap();
        let v6: SocketAddr = "[2001:db8::1]:80".parse().unwrap();
        assert_eq!(mapped(v4, true), "[::ffff:192.0.2.1]:80".parse().unwrap());
        assert_eq!(mapped(v4, false), v4);
        assert_eq!(plain(mapped(v4, true).into()), Some(v4));
        assert_eq!(plain(v6.into()), Some(v6));
    }

    #[test]
    fn the_loopback_address_is_among_all() {
        let loopback = Cidr::new(Ipv4Addr::LOCALHOST.into(), 8);
        assert!(all().contains(&loopback), "{:?}", all());
    }
}
