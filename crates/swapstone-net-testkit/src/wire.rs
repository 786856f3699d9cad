// SPDX-License-Identifier: MIT OR Apache-2.0
//! Encoding and decoding of packets: enough of Ethernet, ARP, IPv4, IPv6, TCP, UDP and ICMP for a
//! peer.
//!
//! The decoder is strict, because it also validates what a stack sends.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An Ethernet address.
pub type Mac = [u8; 6];

/// The TCP flag FIN.
pub const FIN: u8 = 1;
/// The TCP flag SYN.
pub const SYN: u8 = 2;
/// The TCP flag RST.
pub const RST: u8 = 4;
/// The TCP flag PSH.
pub const PSH: u8 = 8;
/// The TCP flag ACK.
pub const ACK: u8 = 16;

/// The protocol number of ICMP.
pub const PROTOCOL_ICMP: u8 = 1;
/// The protocol number of TCP.
pub const PROTOCOL_TCP: u8 = 6;
/// The protocol number of UDP.
pub const PROTOCOL_UDP: u8 = 17;
/// The protocol number of ICMPv6.
pub const PROTOCOL_ICMPV6: u8 = 58;

/// A TCP segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// The source port.
    pub source: u16,
    /// The destination port.
    pub destination: u16,
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// The flags, [`FIN`] to [`ACK`].
    pub flags: u8,
    /// The window field.
    pub window: u16,
    /// The options, padded to a multiple of four bytes.
    pub options: Vec<u8>,
    /// The payload.
    pub payload: Vec<u8>,
}

impl Tcp {
    /// Returns whether all these flags are set.
    pub fn has(&self, flags: u8) -> bool {
        self.flags & flags == flags
    }

    /// Returns the value of the MSS option.
    pub fn mss(&self) -> Option<u16> {
        let mut rest = self.options.as_slice();
        loop {
            match rest {
                [] | [0, ..] => return None,
                [1, more @ ..] => rest = more,
                [2, 4, high, low, ..] => return Some(u16::from_be_bytes([*high, *low])),
                [_, length, ..] => rest = rest.get(usize::from(*length).max(2)..)?,
                [_] => return None,
            }
        }
    }

    /// Returns its length in sequence numbers.
    pub fn span(&self) -> u32 {
        let flags = u32::from(self.has(SYN)) + u32::from(self.has(FIN));
        flags + u32::try_from(self.payload.len()).expect("a segment is small")
    }
}

/// A UDP datagram.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Udp {
    /// The source port.
    pub source: u16,
    /// The destination port.
    pub destination: u16,
    /// The payload.
    pub payload: Vec<u8>,
}

/// An ICMP or ICMPv6 message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Icmp {
    /// The type.
    pub kind: u8,
    /// The code.
    pub code: u8,
    /// The bytes after the checksum.
    pub body: Vec<u8>,
}

/// The payload of an IP packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp(Tcp),
    /// UDP.
    Udp(Udp),
    /// ICMP or ICMPv6.
    Icmp(Icmp),
    /// Another protocol, or a fragment: its number and bytes.
    Other(u8, Vec<u8>),
}

/// An IPv4 or IPv6 packet without options.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ip {
    /// The source address.
    pub source: IpAddr,
    /// The destination address.
    pub destination: IpAddr,
    /// The time to live or hop limit.
    pub hops: u8,
    /// The payload.
    pub transport: Transport,
}

/// An ARP message for IPv4 over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    /// 1: request, 2: reply.
    pub operation: u16,
    /// The sender.
    pub sender: (Mac, Ipv4Addr),
    /// The target.
    pub target: (Mac, Ipv4Addr),
}

/// The payload of a frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// ARP.
    Arp(Arp),
    /// IPv4 or IPv6.
    Ip(Ip),
}

/// A frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The destination address.
    pub to: Mac,
    /// The source address.
    pub from: Mac,
    /// The payload.
    pub body: Body,
}

impl Packet {
    /// Returns the TCP segment.
    pub fn tcp(&self) -> Option<&Tcp> {
        match &self.body {
            Body::Ip(Ip {
                transport: Transport::Tcp(tcp),
                ..
            }) => Some(tcp),
            _ => None,
        }
    }

    /// Returns the UDP datagram.
    pub fn udp(&self) -> Option<&Udp> {
        match &self.body {
            Body::Ip(Ip {
                transport: Transport::Udp(udp),
                ..
            }) => Some(udp),
            _ => None,
        }
    }

    /// Returns the ICMP message.
    pub fn icmp(&self) -> Option<&Icmp> {
        match &self.body {
            Body::Ip(Ip {
                transport: Transport::Icmp(icmp),
                ..
            }) => Some(icmp),
            _ => None,
        }
    }

    /// Returns the IP packet.
    pub fn ip(&self) -> Option<&Ip> {
        match &self.body {
            Body::Ip(ip) => Some(ip),
            Body::Arp(_) => None,
        }
    }

    /// Encodes the frame with valid checksums.
    pub fn bytes(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.extend(self.to);
        frame.extend(self.from);
        match &self.body {
            Body::Arp(arp) => {
                frame.extend([0x08, 0x06]);
                frame.extend([0, 1, 8, 0, 6, 4]);
                frame.extend(arp.operation.to_be_bytes());
                for (mac, ip) in [arp.sender, arp.target] {
                    frame.extend(mac);
                    frame.extend(ip.octets());
                }
            }
            Body::Ip(ip) => {
                frame.extend(if ip.source.is_ipv4() {
                    [0x08, 0x00]
                } else {
                    [0x86, 0xdd]
                });
                frame.extend(ip.bytes());
            }
        }
        frame
    }

    /// Decodes and validates a frame; `partial`: the TCP or UDP checksum was offloaded.
    ///
    /// # Errors
    ///
    /// Names what is invalid.
    pub fn parse(frame: &[u8], partial: bool) -> Result<Self, &'static str> {
        let (header, rest) = frame
            .split_at_checked(14)
            .ok_or("shorter than an Ethernet header")?;
        let to = header[..6].try_into().expect("six bytes");
        let from = header[6..12].try_into().expect("six bytes");
        let body = match [header[12], header[13]] {
            [0x08, 0x06] => Body::Arp(parse_arp(rest)?),
            [0x08, 0x00] => Body::Ip(parse_v4(rest, partial)?),
            [0x86, 0xdd] => Body::Ip(parse_v6(rest, partial)?),
            _ => return Err("an unknown kind of frame"),
        };
        Ok(Self { to, from, body })
    }
}

impl Ip {
    /// Encodes the packet with valid checksums.
    pub fn bytes(&self) -> Vec<u8> {
        let (protocol, mut carried, field) = match &self.transport {
            Transport::Tcp(tcp) => (PROTOCOL_TCP, tcp.bytes(), Some(16)),
            Transport::Udp(udp) => (PROTOCOL_UDP, udp.bytes(), Some(6)),
            Transport::Icmp(icmp) if self.source.is_ipv4() => {
                (PROTOCOL_ICMP, icmp.bytes(), Some(2))
            }
            Transport::Icmp(icmp) => (PROTOCOL_ICMPV6, icmp.bytes(), Some(2)),
            Transport::Other(protocol, bytes) => (*protocol, bytes.clone(), None),
        };
        if let Some(field) = field {
            let sum = transport_sum(self.source, self.destination, protocol, &carried);
            // A checksum of 0 would mean that there is none.
            let sum = if sum == 0 && protocol == PROTOCOL_UDP {
                0xffff
            } else {
                sum
            };
            carried[field..field + 2].copy_from_slice(&sum.to_be_bytes());
        }
        let length = u16::try_from(carried.len()).expect("a packet is small");
        let mut bytes = Vec::new();
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => {
                bytes.extend([0x45, 0]);
                bytes.extend((length + 20).to_be_bytes());
                bytes.extend([0, 0, 0x40, 0, self.hops, protocol, 0, 0]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
                let sum = !fold(sum(&bytes));
                bytes[10..12].copy_from_slice(&sum.to_be_bytes());
            }
            (IpAddr::V6(source), IpAddr::V6(destination)) => {
                bytes.extend([0x60, 0, 0, 0]);
                bytes.extend(length.to_be_bytes());
                bytes.extend([protocol, self.hops]);
                bytes.extend(source.octets());
                bytes.extend(destination.octets());
            }
            _ => panic!("addresses of two versions in one packet"),
        }
        bytes.extend(carried);
        bytes
    }
}

impl Tcp {
    fn bytes(&self) -> Vec<u8> {
        assert!(self.options.len().is_multiple_of(4) && self.options.len() <= 40);
        let words = u8::try_from(5 + self.options.len() / 4).expect("at most 15");
        let mut bytes = Vec::new();
        bytes.extend(self.source.to_be_bytes());
        bytes.extend(self.destination.to_be_bytes());
        bytes.extend(self.seq.to_be_bytes());
        bytes.extend(self.ack.to_be_bytes());
        bytes.extend([words << 4, self.flags]);
        bytes.extend(self.window.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&self.options);
        bytes.extend(&self.payload);
        bytes
    }
}

impl Udp {
    fn bytes(&self) -> Vec<u8> {
        let length = u16::try_from(8 + self.payload.len()).expect("a datagram is small");
        let mut bytes = Vec::new();
        bytes.extend(self.source.to_be_bytes());
        bytes.extend(self.destination.to_be_bytes());
        bytes.extend(length.to_be_bytes());
        bytes.extend([0; 2]);
        bytes.extend(&self.payload);
        bytes
    }
}

impl Icmp {
    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![self.kind, self.code, 0, 0];
        bytes.extend(&self.body);
        bytes
    }
}

/// The sum of 16-bit words (RFC 1071), not folded.
pub fn sum(bytes: &[u8]) -> u64 {
    let pairs = bytes.chunks(2);
    pairs
        .map(|pair| u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0)))
        .sum()
}

/// Folds a sum to 16 bits.
pub fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::try_from(sum).expect("it was folded")
}

/// The sum of the pseudo-header of TCP, UDP and ICMPv6.
pub fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: u8, length: usize) -> u64 {
    let of = |address| match address {
        IpAddr::V4(v4) => sum(&Ipv4Addr::octets(&v4)),
        IpAddr::V6(v6) => sum(&Ipv6Addr::octets(&v6)),
    };
    of(source) + of(destination) + u64::from(protocol) + length as u64
}

/// The checksum of an IP payload whose checksum field is 0. It is 0 if the field holds a valid
/// checksum.
pub fn transport_sum(source: IpAddr, destination: IpAddr, protocol: u8, bytes: &[u8]) -> u16 {
    let pseudo = match protocol {
        PROTOCOL_ICMP => 0,
        _ => pseudo_header(source, destination, protocol, bytes.len()),
    };
    !fold(pseudo + sum(bytes))
}

fn half(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn parse_arp(bytes: &[u8]) -> Result<Arp, &'static str> {
    if bytes.len() < 28 || bytes[..6] != [0, 1, 8, 0, 6, 4] {
        return Err("ARP, but not for IPv4 over Ethernet");
    }
    let pair = |at: usize| {
        let mac: Mac = bytes[at..at + 6].try_into().expect("six bytes");
        let ip: [u8; 4] = bytes[at + 6..at + 10].try_into().expect("four bytes");
        (mac, Ipv4Addr::from(ip))
    };
    Ok(Arp {
        operation: half(bytes, 6),
        sender: pair(8),
        target: pair(18),
    })
}

fn parse_v4(bytes: &[u8], partial: bool) -> Result<Ip, &'static str> {
    if bytes.len() < 20 || bytes[0] >> 4 != 4 {
        return Err("no IPv4 header");
    }
    let header = usize::from(bytes[0] & 15) * 4;
    let length = usize::from(half(bytes, 2));
    if header < 20 || length < header || length > bytes.len() {
        return Err("lengths of the IPv4 header are wrong");
    }
    if fold(sum(&bytes[..header])) != 0xffff {
        return Err("the checksum of the IPv4 header is wrong");
    }
    let address = |at: usize| {
        let octets: [u8; 4] = bytes[at..at + 4].try_into().expect("four bytes");
        IpAddr::from(octets)
    };
    let (source, destination) = (address(12), address(16));
    let carried = &bytes[header..length];
    let transport = if half(bytes, 6) & 0x3fff == 0 {
        parse_transport(source, destination, bytes[9], carried, partial)?
    } else {
        Transport::Other(bytes[9], carried.into())
    };
    Ok(Ip {
        source,
        destination,
        hops: bytes[8],
        transport,
    })
}

fn parse_v6(bytes: &[u8], partial: bool) -> Result<Ip, &'static str> {
    if bytes.len() < 40 || bytes[0] >> 4 != 6 {
        return Err("no IPv6 header");
    }
    let length = usize::from(half(bytes, 4));
    if length > bytes.len() - 40 {
        return Err("the length in the IPv6 header is wrong");
    }
    let address = |at: usize| {
        let octets: [u8; 16] = bytes[at..at + 16].try_into().expect("16 bytes");
        IpAddr::from(octets)
    };
    let (source, destination) = (address(8), address(24));
    let mut protocol = bytes[6];
    let mut carried = &bytes[40..40 + length];
    // Hop-by-hop options, as in multicast listener reports.
    if protocol == 0 {
        let size = 8 + usize::from(*carried.get(1).ok_or("an option header without length")?) * 8;
        protocol = carried[0];
        carried = carried
            .get(size..)
            .ok_or("options longer than the packet")?;
    }
    Ok(Ip {
        source,
        destination,
        hops: bytes[7],
        transport: parse_transport(source, destination, protocol, carried, partial)?,
    })
}

fn parse_transport(
    source: IpAddr,
    destination: IpAddr,
    protocol: u8,
    bytes: &[u8],
    partial: bool,
) -> Result<Transport, &'static str> {
    let right = || transport_sum(source, destination, protocol, bytes) == 0;
    match protocol {
        PROTOCOL_TCP => {
            let header = bytes.get(12).map_or(0, |byte| usize::from(byte >> 4) * 4);
            if header < 20 || header > bytes.len() {
                return Err("lengths of the TCP header are wrong");
            }
            if !partial && !right() {
                return Err("the checksum of TCP is wrong");
            }
            Ok(Transport::Tcp(Tcp {
                source: half(bytes, 0),
                destination: half(bytes, 2),
                seq: word(bytes, 4),
                ack: word(bytes, 8),
                flags: bytes[13],
                window: half(bytes, 14),
                options: bytes[20..header].into(),
                payload: bytes[header..].into(),
            }))
        }
        PROTOCOL_UDP => {
            if bytes.len() < 8 || usize::from(half(bytes, 4)) != bytes.len() {
                return Err("the length of UDP is wrong");
            }
            let none = half(bytes, 6) == 0;
            if none && source.is_ipv6() {
                return Err("UDP over IPv6 without a checksum");
            }
            if !none && !partial && !right() {
                return Err("the checksum of UDP is wrong");
            }
            Ok(Transport::Udp(Udp {
                source: half(bytes, 0),
                destination: half(bytes, 2),
                payload: bytes[8..].into(),
            }))
        }
        PROTOCOL_ICMP | PROTOCOL_ICMPV6 => {
            if bytes.len() < 4 {
                return Err("no ICMP header");
            }
            if !right() {
                return Err("the checksum of ICMP is wrong");
            }
            Ok(Transport::Icmp(Icmp {
                kind: bytes[0],
                code: bytes[1],
                body: bytes[4..].into(),
            }))
        }
        _ => Ok(Transport::Other(protocol, bytes.into())),
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
