// SPDX-License-Identifier: MIT OR Apache-2.0
//! Unpredictable values from the seed: hashes, ports and initial sequence numbers.

use core::hash::{BuildHasher, Hash, Hasher};
use core::net::{IpAddr, SocketAddr};

use hashbrown::HashMap;
use siphasher::sip::SipHasher13;
use swapstone_net::backend::ephemeral_ports;

/// A key of the table: a connection, or the local port of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key([u8; 37]);

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(&self.0);
    }
}

/// The kind of a key. One table holds all kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Realm {
    /// A TCP connection.
    Connection = 1,
    /// A port that a TCP socket is bound to.
    TcpPort = 2,
    /// A port that a UDP socket is bound to.
    UdpPort = 3,
}

fn octets(address: IpAddr) -> [u8; 16] {
    match address {
        IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
        IpAddr::V6(address) => address.octets(),
    }
}

impl Key {
    pub(crate) fn connection(local: SocketAddr, remote: SocketAddr) -> Self {
        let mut key = Self::port(Realm::Connection, local.ip(), local.port());
        key.0[17..33].copy_from_slice(&octets(remote.ip()));
        key.0[35..].copy_from_slice(&remote.port().to_be_bytes());
        key
    }

    pub(crate) fn port(realm: Realm, address: IpAddr, port: u16) -> Self {
        let mut key = [0; 37];
        key[0] = realm as u8;
        key[1..17].copy_from_slice(&octets(address));
        key[33..35].copy_from_slice(&port.to_be_bytes());
        Self(key)
    }
}

/// A keyed hash, so that a peer can't cause collisions.
#[derive(Clone, Debug)]
pub(crate) struct Keyed {
    keys: (u64, u64),
}

impl BuildHasher for Keyed {
    type Hasher = SipHasher13;

    fn build_hasher(&self) -> SipHasher13 {
        SipHasher13::new_with_keys(self.keys.0, self.keys.1)
    }
}

/// The table of connections, TIME-WAIT records and ports.
pub(crate) type Table = HashMap<Key, u32, Keyed>;

/// Values that are derived from the seed.
#[derive(Clone, Debug)]
pub(crate) struct Secrets {
    table: Keyed,
    sequence: Keyed,
    ports: Keyed,
    counters: [u16; 16],
    drawn: u64,
}

impl Secrets {
    pub(crate) fn new(seed: &[u8; 32]) -> Self {
        let word = |at: usize| {
            let mut bytes = [0; 8];
            bytes.copy_from_slice(&seed[at..at + 8]);
            u64::from_le_bytes(bytes)
        };
        let root = Keyed {
            keys: (word(0), word(8)),
        };
        let (more, less) = (word(16), word(24));
        let derive = |name: u64| Keyed {
            keys: (
                root.hash_one((name, more, less, 0u8)),
                root.hash_one((name, more, less, 1u8)),
            ),
        };
        Self {
            table: derive(1),
            sequence: derive(2),
            ports: derive(3),
            counters: [0; 16],
            drawn: 0,
        }
    }

    pub(crate) fn table(&self) -> Table {
        Table::with_hasher(self.table.clone())
    }

    /// A seed for other random numbers of smoltcp than sequence numbers.
    pub(crate) fn number(&self) -> u64 {
        self.table.hash_one(0u8)
    }

    /// The initial sequence number of a connection (RFC 6528): a keyed hash plus a 4 us clock.
    pub(crate) fn sequence(&self, connection: &Key, micros: u64) -> u32 {
        (self.sequence.hash_one(connection) as u32).wrapping_add((micros / 4) as u32)
    }

    /// Returns the ephemeral ports for a connection in the order to try (RFC 6056, algorithm 4).
    pub(crate) fn ports(&mut self, peer: &Key) -> impl Iterator<Item = u16> + use<> {
        let hash = self.ports.hash_one(peer);
        let counter = &mut self.counters[(hash >> 60) as usize];
        let start = (hash as u32).wrapping_add(u32::from(*counter));
        *counter = counter.wrapping_add(1);
        ephemeral_ports(start)
    }

    /// Returns the ephemeral ports, starting at a random one (RFC 6056, algorithm 1).
    pub(crate) fn any_port(&mut self) -> impl Iterator<Item = u16> + use<> {
        self.drawn += 1;
        ephemeral_ports(self.ports.hash_one(self.drawn) as u32)
    }
}

/// The multiplier and increment of smoltcp's random generator (`rand.rs`), and the inverse of the
/// multiplier modulo 2^64.
const MULTIPLIER: u64 = 0xbb2e_fcec_3c39_611d;
const INCREMENT: u64 = 0x7590_ef39;
const INVERSE: u64 = inverse(MULTIPLIER);

/// Newton's iteration: each step doubles the number of correct bits, initially 3.
const fn inverse(number: u64) -> u64 {
    let mut inverse = number;
    let mut step = 0;
    while step < 5 {
        inverse = inverse.wrapping_mul(2u64.wrapping_sub(number.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

fn before(state: u64) -> u64 {
    state.wrapping_sub(INCREMENT).wrapping_mul(INVERSE)
}

fn draw(state: u64) -> u32 {
    (state >> (29 - (state >> 61))) as u32
}

/// Returns the seed with which a new smoltcp interface generates `sequence` as its first initial
/// sequence number.
///
/// smoltcp uses a linear generator, whose output is predictable from a few values. Its state can be
/// selected: a new interface generates 16 bits (again while they are 0), then a sequence number.
pub(crate) fn seed_for(sequence: u32) -> u64 {
    for low in 0u64.. {
        let first = before(u64::from(sequence) << 29 | low);
        let identification = draw(first);
        if (identification ^ identification >> 16) as u16 != 0 {
            return before(first);
        }
    }
    unreachable!(
        "of the states that give a sequence number, most follow one that gives a number that is not 0"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use swapstone_net::backend::{EPHEMERAL_PORTS, FIRST_EPHEMERAL_PORT};

    #[test]
    fn the_generator_is_inverted() {
        assert_eq!(MULTIPLIER.wrapping_mul(INVERSE), 1);
        for sequence in [0, 1, 0x8000_0000, u32::MAX, 0xdead_beef] {
            let seed = seed_for(sequence);
            let next = |state: u64| state.wrapping_mul(MULTIPLIER).wrapping_add(INCREMENT);
            assert_eq!(draw(next(next(seed))), sequence);
        }
    }

    #[test]
    fn sequence_numbers_follow_the_clock_of_each_connection() {
        let secrets = Secrets::new(&[7; 32]);
        let key = |port| {
            Key::connection(
                "10.0.0.1:80".parse().unwrap(),
                SocketAddr::new("10.0.0.2".parse().unwrap(), port),
            )
        };
        let (one, other) = (secrets.sequence(&key(1), 0), secrets.sequence(&key(2), 0));
        assert_ne!(one, other);
        assert_eq!(secrets.sequence(&key(1), 4000), one.wrapping_add(1000));
        assert_ne!(Secrets::new(&[8; 32]).sequence(&key(1), 0), one);
        assert_eq!(Secrets::new(&[7; 32]).sequence(&key(1), 0), one);
    }

    #[test]
    fn every_port_is_tried_once() {
        let mut secrets = Secrets::new(&[3; 32]);
        let key = Key::port(Realm::TcpPort, "10.0.0.1".parse().unwrap(), 80);
        let mut seen = std::collections::BTreeSet::new();
        let first = secrets.ports(&key).next().unwrap();
        assert!(
            secrets
                .ports(&key)
                .all(|port| port >= FIRST_EPHEMERAL_PORT && seen.insert(port))
        );
        assert_eq!(seen.len(), EPHEMERAL_PORTS as usize);
        assert_ne!(secrets.ports(&key).next().unwrap(), first);
    }
}
