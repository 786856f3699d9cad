// SPDX-License-Identifier: MIT OR Apache-2.0
//! Captures in the classic libpcap format (version 2.4, microseconds, little-endian) for Wireshark and
//! tcpdump.

use swapstone_net::Instant;

/// The header of a capture.
pub const HEADER: [u8; 24] = header();

const fn header() -> [u8; 24] {
    let mut header = [0; 24];
    let words: [u32; 6] = [0xa1b2_c3d4, 2 | 4 << 16, 0, 0, SNAPSHOT, ETHERNET];
    let mut at = 0;
    while at < words.len() {
        let bytes = words[at].to_le_bytes();
        let mut byte = 0;
        while byte < 4 {
            header[at * 4 + byte] = bytes[byte];
            byte += 1;
        }
        at += 1;
    }
    header
}

/// The maximum frame length (snaplen): 256 KiB, as tcpdump writes.
const SNAPSHOT: u32 = 262_144;
/// LINKTYPE_ETHERNET.
const ETHERNET: u32 = 1;

/// Returns the record header of a frame of `length` bytes that was sent at `when`. Seconds and length
/// are limited to 32 bits.
pub fn record(when: Instant, length: usize) -> [u8; 16] {
    let mut record = [0; 16];
    let words = [
        (when.micros() / 1_000_000) as u32,
        (when.micros() % 1_000_000) as u32,
        length as u32,
        length as u32,
    ];
    for (place, word) in record.chunks_exact_mut(4).zip(words) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    record
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_has_magic_version_and_link_type() {
        assert_eq!(HEADER[..8], [0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(
            HEADER[8..],
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0]
        );
    }

    #[test]
    fn a_record_has_time_and_length() {
        let record = record(Instant::from_micros(3_000_258), 60);
        assert_eq!(record, [3, 0, 0, 0, 2, 1, 0, 0, 60, 0, 0, 0, 60, 0, 0, 0]);
    }
}
