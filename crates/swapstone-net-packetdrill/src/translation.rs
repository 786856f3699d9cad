// SPDX-License-Identifier: MIT OR Apache-2.0
//! IPv4 addresses of a script (`--local_ip`, `--remote_ip`) in frames that have those of the link.

use std::net::Ipv4Addr;

use swapstone_net_testkit::wire::fold;

/// The start of the IP header, and the places of its checksum and addresses.
const IP: usize = 14;
const CHECKSUM: usize = 10;
const SOURCE: usize = 12;
const ADDRESSES: usize = 8;
const PROTOCOL: usize = 9;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;

/// Replaces the addresses `from` of an IPv4 frame by those of `to`, also in the header that an ICMP
/// error quotes, and updates the checksums (RFC 1624). Other frames stay as they are.
pub fn translate(frame: &mut [u8], from: [Ipv4Addr; 2], to: [Ipv4Addr; 2]) {
    if frame.get(12..14) != Some(&[8, 0]) {
        return;
    }
    let Some(end) = header(frame, IP, from, to) else {
        return;
    };
    match frame[IP + PROTOCOL] {
        // The checksum of ICMP covers the quoted header, whose own checksum makes up for its change.
        ICMP => {
            header(frame, end + 8, from, to);
        }
        TCP => transport(frame, end + 16, from, to),
        UDP if frame.get(end + 6..end + 8) != Some(&[0, 0]) => transport(frame, end + 6, from, to),
        _ => {}
    }
}

/// Replaces the addresses of the header at `at`; returns its end, or `None` if it is no whole one of IPv4.
fn header(frame: &mut [u8], at: usize, from: [Ipv4Addr; 2], to: [Ipv4Addr; 2]) -> Option<usize> {
    let first = *frame.get(at)?;
    if first >> 4 != 4 || frame.len() < at + SOURCE + ADDRESSES {
        return None;
    }
    for side in [at + SOURCE, at + SOURCE + 4] {
        let old: [u8; 4] = frame[side..side + 4].try_into().expect("four bytes");
        if let Some(found) = from.iter().position(|each| each.octets() == old) {
            frame[side..side + 4].copy_from_slice(&to[found].octets());
            update(frame, at + CHECKSUM, old, to[found].octets());
        }
    }
    Some(at + usize::from(first & 15) * 4)
}

/// Updates a checksum whose pseudo-header has both addresses.
fn transport(frame: &mut [u8], at: usize, from: [Ipv4Addr; 2], to: [Ipv4Addr; 2]) {
    if frame.len() >= at + 2 {
        for (old, new) in from.iter().zip(to) {
            update(frame, at, old.octets(), new.octets());
        }
    }
}

fn update(frame: &mut [u8], at: usize, old: [u8; 4], new: [u8; 4]) {
    let half = |bytes: &[u8]| u64::from(u16::from_be_bytes([bytes[0], bytes[1]]));
    let before = 0xffff - half(&frame[at..at + 2]);
    let gone: u64 = old.chunks(2).map(|pair| 0xffff - half(pair)).sum();
    let added: u64 = new.chunks(2).map(half).sum();
    frame[at..at + 2].copy_from_slice(&(!fold(before + gone + added)).to_be_bytes());
}

#[cfg(test)]
mod tests {
    use swapstone_net_testkit::addresses::{PEER_V4, SUBJECT_V4};
    use swapstone_net_testkit::wire::{Packet, Tcp, Transport, Udp};

    use super::*;
    use crate::script::{Icmp, Version};
    use crate::wire;

    const LINK: [Ipv4Addr; 2] = [SUBJECT_V4, PEER_V4];
    const SCRIPT: [Ipv4Addr; 2] = [
        Ipv4Addr::new(192, 168, 255, 254),
        Ipv4Addr::new(10, 248, 0, 2),
    ];

    fn frames() -> [Vec<u8>; 3] {
        let tcp = Transport::Tcp(Tcp {
            source: 1,
            destination: 2,
            seq: 3,
            ack: 4,
            flags: 16,
            window: 5,
            options: vec![],
            payload: vec![6; 7],
        });
        let udp = Transport::Udp(Udp {
            source: 1,
            destination: 2,
            payload: vec![0xff; 9],
        });
        let icmp = Icmp {
            kind: 3,
            code: 4,
            mtu: Some(1400),
            id: None,
            quoted: None,
        };
        [
            wire::frame(Version::V4, 0, tcp),
            wire::frame(Version::V4, 0, udp),
            wire::icmp_quoting(Version::V4, &icmp, 6, &[1; 8], 28),
        ]
    }

    #[test]
    fn a_frame_with_other_addresses_has_valid_checksums_and_comes_back() {
        for frame in frames() {
            let mut changed = frame.clone();
            translate(&mut changed, LINK, SCRIPT);
            let parsed = Packet::parse(&changed, false).unwrap();
            let ip = parsed.ip().unwrap();
            assert_eq!(
                (ip.source, ip.destination),
                (SCRIPT[1].into(), SCRIPT[0].into())
            );
            translate(&mut changed, SCRIPT, LINK);
            assert_eq!(changed, frame);
        }
    }

    #[test]
    fn the_header_that_an_error_quotes_has_the_other_addresses() {
        let [_, _, mut frame] = frames();
        translate(&mut frame, LINK, SCRIPT);
        let quoted = &frame[IP + 28..][SOURCE..SOURCE + ADDRESSES];
        assert_eq!(quoted, [SCRIPT[0].octets(), SCRIPT[1].octets()].concat());
    }

    #[test]
    fn frames_that_are_cut_off_stay_within_their_bytes() {
        for frame in frames() {
            for end in 0..frame.len() {
                translate(&mut frame[..end].to_vec(), LINK, SCRIPT);
            }
        }
    }
}
