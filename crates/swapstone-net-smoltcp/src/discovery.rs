// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbor discovery (RFC 4861) that smoltcp does not validate or implement.

use core::net::{IpAddr, Ipv6Addr};

use swapstone_net::device::{ETHERNET_HEADER, HardwareAddress};

use crate::ip::{IPV6_HEADER, fold, pseudo, sum};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const ICMP: u8 = 58;
/// The length of a neighbor advertisement with a link-layer address option.
const ADVERTISEMENT_LENGTH: usize = 32;
/// The length of the frame that [`defend`] writes.
pub(crate) const DEFENSE_FRAME: usize = ETHERNET_HEADER + IPV6_HEADER + ADVERTISEMENT_LENGTH;

/// Returns whether a message of type 133 to 137 is well-formed: its header is complete, and all
/// options are complete and have a length above 0. With an unspecified source it must not contain a
/// source link-layer address option (RFC 4861, section 4.3).
pub(crate) fn is_valid(message: &[u8], unspecified_source: bool) -> bool {
    let header = match message[0] {
        133 => 8,
        134 => 16,
        137 => 40,
        _ => 24,
    };
    let Some(mut options) = message.get(header..) else {
        return false;
    };
    while let [kind, length, ..] = *options {
        let Some(rest) = options.get(usize::from(length) * 8..) else {
            return false;
        };
        if length == 0 || (unspecified_source && kind == 1) {
            return false;
        }
        options = rest;
    }
    options.is_empty()
}

/// Returns the target of a well-formed neighbor solicitation from the link.
pub(crate) fn solicited_target(message: &[u8], hops: u8) -> Option<Ipv6Addr> {
    let target = message.get(8..24)?.first_chunk::<16>()?;
    (message[..2] == [SOLICITATION, 0] && hops == 255).then(|| Ipv6Addr::from(*target))
}

/// Writes a neighbor advertisement of `address` to all nodes, as the response to duplicate address
/// detection (RFC 4862, section 5.4.3; RFC 4861, section 7.2.4). Its length is `DEFENSE_FRAME`.
pub(crate) fn defend(frame: &mut [u8], address: Ipv6Addr, hardware: HardwareAddress) {
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    // The Override flag.
    let sender = (hardware, address);
    message(frame, (ADVERTISEMENT, 0x20, 2), sender, all_nodes, address);
}

/// The length of an ARP frame.
const ARP_FRAME: usize = ETHERNET_HEADER + 28;

/// Writes an ARP message (RFC 826) without the Ethernet header's addresses.
fn arp(
    frame: &mut [u8],
    operation: u8,
    sender: (HardwareAddress, [u8; 4]),
    target: (HardwareAddress, [u8; 4]),
) {
    frame[12..14].copy_from_slice(&[0x08, 0x06]);
    let message = &mut frame[ETHERNET_HEADER..ARP_FRAME];
    message[..8].copy_from_slice(&[0, 1, 8, 0, 6, 4, 0, operation]);
    message[8..14].copy_from_slice(&sender.0);
    message[14..18].copy_from_slice(&sender.1);
    message[18..24].copy_from_slice(&target.0);
    message[24..].copy_from_slice(&target.1);
}

/// Writes the IPv6 header of a message of neighbor discovery, and the message: its type, its flags, its
/// target and an option of type `option` with the sender's link-layer address.
fn message(
    frame: &mut [u8],
    (kind, flags, option): (u8, u8, u8),
    sender: (HardwareAddress, Ipv6Addr),
    to: Ipv6Addr,
    target: Ipv6Addr,
) {
    frame[6..12].copy_from_slice(&sender.0);
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    let (ip, message) = frame[ETHERNET_HEADER..DEFENSE_FRAME].split_at_mut(IPV6_HEADER);
    ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, ADVERTISEMENT_LENGTH as u8, ICMP, 255]);
    ip[8..24].copy_from_slice(&sender.1.octets());
    ip[24..].copy_from_slice(&to.octets());
    message[..8].copy_from_slice(&[kind, 0, 0, 0, flags, 0, 0, 0]);
    message[8..24].copy_from_slice(&target.octets());
    message[24..26].copy_from_slice(&[option, 1]);
    message[26..].copy_from_slice(&sender.0);
    let checksum = !fold(sum(message, pseudo(ip, ICMP, ADVERTISEMENT_LENGTH)));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

/// Returns the frame of an ARP reply or neighbor advertisement from `sender` to `target`, and its length.
/// The advertisement does not override an existing entry.
pub(crate) fn reply(
    sender: (HardwareAddress, IpAddr),
    target: (HardwareAddress, IpAddr),
) -> ([u8; DEFENSE_FRAME], usize) {
    let mut frame = [0; DEFENSE_FRAME];
    frame[..6].copy_from_slice(&target.0);
    frame[6..12].copy_from_slice(&sender.0);
    let length = match (sender.1, target.1) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            arp(
                &mut frame,
                2,
                (sender.0, from.octets()),
                (target.0, to.octets()),
            );
            ARP_FRAME
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            // The Solicited flag.
            message(
                &mut frame,
                (ADVERTISEMENT, 0x40, 2),
                (sender.0, from),
                to,
                from,
            );
            DEFENSE_FRAME
        }
        _ => unreachable!("both addresses are of one connection"),
    };
    (frame, length)
}

/// Returns the length of the frame that [`request`] writes.
pub(crate) fn request_length(address: IpAddr) -> usize {
    if address.is_ipv4() {
        ARP_FRAME
    } else {
        DEFENSE_FRAME
    }
}

/// Writes an ARP request or a neighbor solicitation for `address`.
pub(crate) fn request(frame: &mut [u8], sender: (HardwareAddress, IpAddr), address: IpAddr) {
    match (sender.1, address) {
        (IpAddr::V4(from), IpAddr::V4(wanted)) => {
            frame[..6].fill(0xff);
            frame[6..12].copy_from_slice(&sender.0);
            arp(
                frame,
                1,
                (sender.0, from.octets()),
                ([0; 6], wanted.octets()),
            );
        }
        (IpAddr::V6(from), IpAddr::V6(wanted)) => {
            // The solicited-node multicast address (RFC 4291, section 2.7.1) and its link-layer address.
            let low = &wanted.octets()[13..];
            let mut group = [0xff, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0, 0, 0];
            group[13..].copy_from_slice(low);
            frame[..3].copy_from_slice(&[0x33, 0x33, 0xff]);
            frame[3..6].copy_from_slice(low);
            let (sender, group) = ((sender.0, from), Ipv6Addr::from(group));
            message(frame, (SOLICITATION, 0, 1), sender, group, wanted);
        }
        _ => unreachable!("both addresses are of one connection"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A neighbor solicitation with these options.
    fn message(options: &[u8]) -> alloc::vec::Vec<u8> {
        let mut message = alloc::vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        message.extend([0xfd; 16]);
        message.extend(options);
        message
    }

    #[test]
    fn options_are_complete_and_have_a_length() {
        let whole = [1, 1, 2, 0, 0, 0, 0, 9];
        assert!(is_valid(&message(&[]), false));
        assert!(is_valid(&message(&whole), false));
        assert!(is_valid(&message(&[whole, whole].concat()), false));
        assert!(!is_valid(&message(&whole), true));
        assert!(is_valid(&message(&[14, 1, 2, 0, 0, 0, 0, 9]), true));
        for at in 1..whole.len() {
            assert!(!is_valid(&message(&whole[..at]), false), "{at}");
        }
        assert!(!is_valid(&message(&[1, 0, 2, 0, 0, 0, 0, 9]), false));
        for at in 1..24 {
            assert!(!is_valid(&message(&[])[..at], false), "{at}");
        }
    }

    #[test]
    fn only_a_solicitation_from_the_link_has_a_target() {
        let mut message = message(&[]);
        assert_eq!(
            solicited_target(&message, 255),
            Some(Ipv6Addr::from([0xfd; 16]))
        );
        assert_eq!(solicited_target(&message, 254), None);
        message[1] = 1;
        assert_eq!(solicited_target(&message, 255), None);
    }
}
