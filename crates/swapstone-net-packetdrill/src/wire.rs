// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames on the wire: TCP options, ECN bits, and the frames of a script's packets.

use std::net::IpAddr;

use swapstone_net_testkit::addresses::{
    PEER_MAC, PEER_V4, PEER_V6, SUBJECT_MAC, SUBJECT_V4, SUBJECT_V6,
};
use swapstone_net_testkit::wire::{Body, Icmp, Ip, Packet, Transport, fold, sum};

use crate::script::{TcpOption, Version};

const ETHERNET: usize = 14;
/// The length of an IPv4 header without options, and of an IPv6 header.
const IPV4: usize = 20;
const IPV6: usize = 40;

/// Returns the address of the stack under test.
pub fn subject(version: Version) -> IpAddr {
    match version {
        Version::V4 => SUBJECT_V4.into(),
        Version::V6 => SUBJECT_V6.into(),
    }
}

/// Returns the address of the peer, which sends and expects a script's packets.
pub fn peer(version: Version) -> IpAddr {
    match version {
        Version::V4 => PEER_V4.into(),
        Version::V6 => PEER_V6.into(),
    }
}

/// Returns the size of an option in bytes.
pub fn option_size(option: &TcpOption) -> usize {
    match option {
        TcpOption::Eol | TcpOption::Nop => 1,
        TcpOption::Mss(_) => 4,
        TcpOption::WindowScale(_) => 3,
        TcpOption::SackPermitted => 2,
        TcpOption::Sack(blocks) => 2 + 8 * blocks.len(),
        TcpOption::Timestamp(..) => 10,
        TcpOption::Other(_, bytes) => 2 + bytes.len(),
    }
}

/// Encodes options, padded with zeros to a multiple of four bytes.
pub fn encode_options(options: &[TcpOption]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for option in options {
        let size = u8::try_from(option_size(option)).expect("at most 40");
        match option {
            TcpOption::Eol => bytes.push(0),
            TcpOption::Nop => bytes.push(1),
            TcpOption::Mss(mss) => {
                bytes.extend([2, size]);
                bytes.extend(mss.to_be_bytes());
            }
            TcpOption::WindowScale(shift) => bytes.extend([3, size, *shift]),
            TcpOption::SackPermitted => bytes.extend([4, size]),
            TcpOption::Sack(blocks) => {
                bytes.extend([5, size]);
                for (left, right) in blocks {
                    bytes.extend(left.to_be_bytes());
                    bytes.extend(right.to_be_bytes());
                }
            }
            TcpOption::Timestamp(value, echo) => {
                bytes.extend([8, size]);
                bytes.extend(value.to_be_bytes());
                bytes.extend(echo.to_be_bytes());
            }
            TcpOption::Other(kind, rest) => {
                bytes.extend([*kind, size]);
                bytes.extend(rest);
            }
        }
    }
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Decodes the options of a segment. `None`: a length is wrong.
pub fn decode_options(mut bytes: &[u8]) -> Option<Vec<TcpOption>> {
    let mut options = Vec::new();
    loop {
        let (kind, rest) = match bytes {
            [] => return Some(options),
            [0, ..] => {
                // The rest is padding.
                options.push(TcpOption::Eol);
                return Some(options);
            }
            [1, rest @ ..] => {
                options.push(TcpOption::Nop);
                bytes = rest;
                continue;
            }
            [kind, size, ..] => {
                let size = usize::from(*size);
                let content = bytes.get(2..size)?;
                bytes = &bytes[size..];
                (*kind, content)
            }
            [_] => return None,
        };
        options.push(decode_option(kind, rest));
    }
}

fn decode_option(kind: u8, content: &[u8]) -> TcpOption {
    let word = |at: usize| {
        let four: [u8; 4] = content[at..at + 4].try_into().expect("four bytes");
        u32::from_be_bytes(four)
    };
    match (kind, content.len()) {
        (2, 2) => TcpOption::Mss(u16::from_be_bytes([content[0], content[1]])),
        (3, 1) => TcpOption::WindowScale(content[0]),
        (4, 0) => TcpOption::SackPermitted,
        (5, size) if size > 0 && size.is_multiple_of(8) => {
            let starts = (0..size).step_by(8);
            TcpOption::Sack(starts.map(|at| (word(at), word(at + 4))).collect())
        }
        (8, 8) => TcpOption::Timestamp(word(0), word(4)),
        _ => TcpOption::Other(kind, content.into()),
    }
}

/// Encodes a frame from the peer to the stack under test.
pub fn frame(version: Version, ecn: u8, transport: Transport) -> Vec<u8> {
    let packet = Packet {
        to: SUBJECT_MAC,
        from: PEER_MAC,
        body: Body::Ip(Ip {
            source: peer(version),
            destination: subject(version),
            hops: 255,
            transport,
        }),
    };
    let mut bytes = packet.bytes();
    match version {
        Version::V4 => {
            let header = &mut bytes[ETHERNET..ETHERNET + IPV4];
            header[1] = ecn;
            header[10..12].fill(0);
            let checksum = !fold(sum(header));
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
        }
        Version::V6 => bytes[ETHERNET + 1] |= ecn << 4,
    }
    bytes
}

/// Returns the ECN bits of a frame that [`Packet::parse`] accepted.
pub fn ecn_of(version: Version, frame: &[u8]) -> u8 {
    let byte = frame.get(ETHERNET + 1).copied().unwrap_or(0);
    match version {
        Version::V4 => byte & 3,
        Version::V6 => byte >> 4 & 3,
    }
}

/// Encodes an ICMP message that quotes a packet of the stack under test: its IP header with this
/// protocol, and `quoted`.
pub fn icmp_quoting(
    version: Version,
    icmp: &crate::script::Icmp,
    protocol: u8,
    quoted: &[u8],
    length: u16,
) -> Vec<u8> {
    let mut body = vec![0; 4];
    match (version, icmp.mtu) {
        // The MTU of RFC 1191 has two bytes, at the end of the word.
        (_, Some(mtu)) => body.copy_from_slice(&mtu.to_be_bytes()),
        (_, None) => {
            if let Some(id) = icmp.id {
                body[..2].copy_from_slice(&id.to_be_bytes());
            }
        }
    }
    if !quoted.is_empty() {
        body.extend(quoted_header(version, protocol, length));
        body.extend(quoted);
    }
    frame(
        version,
        0,
        Transport::Icmp(Icmp {
            kind: icmp.kind,
            code: icmp.code,
            body,
        }),
    )
}

/// The IP header of a packet from the stack to the peer with `length` bytes of payload.
fn quoted_header(version: Version, protocol: u8, length: u16) -> Vec<u8> {
    let sent = Ip {
        source: subject(version),
        destination: peer(version),
        hops: 64,
        transport: Transport::Other(protocol, vec![0; length.into()]),
    };
    let mut bytes = sent.bytes();
    bytes.truncate(match version {
        Version::V4 => IPV4,
        Version::V6 => IPV6,
    });
    bytes
}

/// The byte of a stream at a sequence number: a stack that mixes up bytes is noticed.
pub fn pattern(seq: u32) -> u8 {
    u8::try_from(seq % 251).expect("less than 256")
}

/// The bytes of a stream from a sequence number on.
pub fn stream(seq: u32, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| pattern(seq.wrapping_add(u32::try_from(at).expect("a small length"))))
        .collect()
}

/// The start of the TCP header in a frame.
fn tcp_at(version: Version, frame: &[u8]) -> usize {
    match version {
        Version::V4 => {
            ETHERNET + usize::from(frame.get(ETHERNET).copied().unwrap_or(0x45) & 15) * 4
        }
        Version::V6 => ETHERNET + IPV6,
    }
}

/// Sets the urgent pointer of a TCP segment, which was 0, and corrects the checksum.
pub fn set_urgent(version: Version, frame: &mut [u8], urgent: u16) {
    let tcp = tcp_at(version, frame);
    frame[tcp + 18..tcp + 20].copy_from_slice(&urgent.to_be_bytes());
    let old = u16::from_be_bytes([frame[tcp + 16], frame[tcp + 17]]);
    let sum = u32::from(!old) + u32::from(urgent);
    let folded = (sum & 0xffff) + (sum >> 16);
    let checksum = !u16::try_from(folded).expect("at most 16 bits");
    frame[tcp + 16..tcp + 18].copy_from_slice(&checksum.to_be_bytes());
}

/// Returns the urgent pointer of a TCP segment that [`Packet::parse`] accepted.
pub fn urgent_of(version: Version, frame: &[u8]) -> u16 {
    let tcp = tcp_at(version, frame);
    let bytes = frame.get(tcp + 18..tcp + 20);
    bytes.map_or(0, |bytes| u16::from_be_bytes([bytes[0], bytes[1]]))
}
