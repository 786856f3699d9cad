// SPDX-License-Identifier: MIT OR Apache-2.0
//! The Internet checksum (RFC 1071).

/// The length of an IPv6 header in bytes.
pub(crate) const IPV6_HEADER: usize = 40;

/// Adds the one's complement sum of `bytes` (RFC 1071) to `sum`: in native byte order, not folded.
pub(crate) fn sum(bytes: &[u8], mut sum: u64) -> u64 {
    let mut words = bytes.chunks_exact(4);
    for word in &mut words {
        sum += u64::from(u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
    }
    let rest = words.remainder();
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        sum += u64::from(u32::from_ne_bytes(last));
    }
    sum
}

/// Folds a sum to 16 bits in network byte order.
pub(crate) fn fold(mut sum: u64) -> u16 {
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    u16::from_be(sum as u16)
}

/// Returns the sum of the pseudo-header for a complete IP header `ip` and `length` bytes of
/// `protocol`.
pub(crate) fn pseudo(ip: &[u8], protocol: u8, length: usize) -> u64 {
    let length = (length as u32).to_be_bytes();
    let tail = [
        length[0], length[1], length[2], length[3], 0, 0, 0, protocol,
    ];
    let addresses = if ip[0] >> 4 == 4 {
        &ip[12..20]
    } else {
        &ip[8..40]
    };
    sum(addresses, sum(&tail, 0))
}
