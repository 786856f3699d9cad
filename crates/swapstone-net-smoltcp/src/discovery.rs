// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbor discovery (RFC 4861) that smoltcp does not validate or implement.

use core::net::Ipv6Addr;

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
    frame[6..12].copy_from_slice(&hardware);
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    let (ip, message) = frame[ETHERNET_HEADER..DEFENSE_FRAME].split_at_mut(IPV6_HEADER);
    ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, ADVERTISEMENT_LENGTH as u8, ICMP, 255]);
    ip[8..24].copy_from_slice(&address.octets());
    ip[24..].copy_from_slice(&all_nodes.octets());
    // The Override flag.
    message[..8].copy_from_slice(&[ADVERTISEMENT, 0, 0, 0, 0x20, 0, 0, 0]);
    message[8..24].copy_from_slice(&address.octets());
    message[24..26].copy_from_slice(&[2, 1]);
    message[26..].copy_from_slice(&hardware);
    let checksum = !fold(sum(message, pseudo(ip, ICMP, ADVERTISEMENT_LENGTH)));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
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
