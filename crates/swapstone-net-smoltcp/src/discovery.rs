//! Neighbour discovery that smoltcp believes or leaves undone (RFC 4861).

use core::net::Ipv6Addr;

use swapstone_net::device::{ETHERNET_HEADER, HardwareAddress};

use crate::wire::{IPV6_HEADER, fold, pseudo, sum};

const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
const ICMP: u8 = 58;
/// A neighbour advertisement with the link's address.
const DEFENCE: usize = 32;
/// The length of a frame of [`defend`].
pub(crate) const DEFENCE_FRAME: usize = ETHERNET_HEADER + IPV6_HEADER + DEFENCE;

/// Whether a message, of a kind from 133 to 137, is whole: its header, and options that all have a length and are there. Who has no
/// address yet (`nobody`) must not say where it is on the link (4.3).
pub(crate) fn fits(message: &[u8], nobody: bool) -> bool {
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
        if length == 0 || (nobody && kind == 1) {
            return false;
        }
        options = rest;
    }
    options.is_empty()
}

/// The address that somebody who has none wants to have, if that is what a message, which is whole, asks.
pub(crate) fn wanted(message: &[u8], hops: u8) -> Option<Ipv6Addr> {
    let target = message.get(8..24)?.first_chunk::<16>()?;
    (message[..2] == [SOLICITATION, 0] && hops == 255).then(|| Ipv6Addr::from(*target))
}

/// Write the frame that tells all nodes that `address` is taken (RFC 4862, 5.4.3, and RFC 4861, 7.2.4): `DEFENCE_FRAME` bytes.
pub(crate) fn defend(frame: &mut [u8], address: Ipv6Addr, hardware: HardwareAddress) {
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]);
    frame[6..12].copy_from_slice(&hardware);
    frame[12..14].copy_from_slice(&[0x86, 0xdd]);
    let (ip, message) = frame[ETHERNET_HEADER..DEFENCE_FRAME].split_at_mut(IPV6_HEADER);
    ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, DEFENCE as u8, ICMP, 255]);
    ip[8..24].copy_from_slice(&address.octets());
    ip[24..].copy_from_slice(&all_nodes.octets());
    // Override, and not solicited.
    message[..8].copy_from_slice(&[ADVERTISEMENT, 0, 0, 0, 0x20, 0, 0, 0]);
    message[8..24].copy_from_slice(&address.octets());
    message[24..26].copy_from_slice(&[2, 1]);
    message[26..].copy_from_slice(&hardware);
    let checksum = !fold(sum(message, pseudo(ip, ICMP, DEFENCE)));
    message[2..4].copy_from_slice(&checksum.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A solicitation with these options.
    fn message(options: &[u8]) -> alloc::vec::Vec<u8> {
        let mut message = alloc::vec![SOLICITATION, 0, 0, 0, 0, 0, 0, 0];
        message.extend([0xfd; 16]);
        message.extend(options);
        message
    }

    #[test]
    fn options_have_a_length_and_are_there() {
        let whole = [1, 1, 2, 0, 0, 0, 0, 9];
        assert!(fits(&message(&[]), false));
        assert!(fits(&message(&whole), false));
        assert!(fits(&message(&[whole, whole].concat()), false));
        assert!(!fits(&message(&whole), true));
        assert!(fits(&message(&[14, 1, 2, 0, 0, 0, 0, 9]), true));
        for at in 1..whole.len() {
            assert!(!fits(&message(&whole[..at]), false), "{at}");
        }
        assert!(!fits(&message(&[1, 0, 2, 0, 0, 0, 0, 9]), false));
        for at in 1..24 {
            assert!(!fits(&message(&[])[..at], false), "{at}");
        }
    }

    #[test]
    fn only_a_solicitation_from_the_link_wants_an_address() {
        let mut message = message(&[]);
        assert_eq!(wanted(&message, 255), Some(Ipv6Addr::from([0xfd; 16])));
        assert_eq!(wanted(&message, 254), None);
        message[1] = 1;
        assert_eq!(wanted(&message, 255), None);
    }
}
