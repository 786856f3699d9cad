// SPDX-License-Identifier: MIT OR Apache-2.0
//! The virtio-net header before each frame (virtio 1.2, 5.1.6), in native byte order as a TAP has
//! it.

use swapstone_net::device::{Checksum, Outgoing};

/// The length of the header in bytes.
pub const SIZE: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const DATA_VALID: u8 = 2;
const GSO_TCP_V4: u8 = 1;
const GSO_TCP_V6: u8 = 4;
/// Set in the type if a segment has the ECN bit.
const GSO_ECN: u8 = 0x80;

/// Returns the header of a sent frame.
pub fn of(frame: &Outgoing<'_>) -> [u8; SIZE] {
    let mut header = [0; SIZE];
    if let Some(partial) = frame.partial {
        header[0] = NEEDS_CHECKSUM;
        header[6..8].copy_from_slice(&partial.start.to_ne_bytes());
        header[8..10].copy_from_slice(&partial.offset.to_ne_bytes());
    }
    if let Some(cut) = frame.segmentation {
        header[1] = if cut.ipv6 { GSO_TCP_V6 } else { GSO_TCP_V4 };
        header[2..4].copy_from_slice(&cut.headers.to_ne_bytes());
        header[4..6].copy_from_slice(&cut.size.to_ne_bytes());
    }
    header
}

/// Returns checksum state and segment size from the header of a received frame.
pub fn meaning(header: &[u8; SIZE]) -> (Checksum, Option<u16>) {
    let checksum = if header[0] & NEEDS_CHECKSUM != 0 {
        Checksum::Partial
    } else if header[0] & DATA_VALID != 0 {
        Checksum::Verified
    } else {
        Checksum::Unknown
    };
    let segment = match header[1] & !GSO_ECN {
        GSO_TCP_V4 | GSO_TCP_V6 => Some(u16::from_ne_bytes([header[4], header[5]])),
        _ => None,
    };
    (checksum, segment)
}

#[cfg(test)]
mod tests {
    use super::*;
    use swapstone_net::device::{PartialChecksum, Segmentation};

    #[test]
    fn a_plain_frame_has_a_header_of_zeros() {
        let frame = Outgoing {
            parts: &[b"x"],
            partial: None,
            segmentation: None,
        };
        assert_eq!(of(&frame), [0; SIZE]);
        assert_eq!(meaning(&[0; SIZE]), (Checksum::Unknown, None));
    }

    #[test]
    fn a_large_segment_says_where_to_sum_and_how_to_cut() {
        let cut = |ipv6| Outgoing {
            parts: &[],
            partial: Some(PartialChecksum {
                start: 34,
                offset: 16,
            }),
            segmentation: Some(Segmentation {
                size: 1460,
                headers: 66,
                ipv6,
            }),
        };
        let mut expected = vec![1, 1];
        for field in [66u16, 1460, 34, 16] {
            expected.extend(field.to_ne_bytes());
        }
        assert_eq!(of(&cut(false)).to_vec(), expected);
        expected[1] = 4;
        assert_eq!(of(&cut(true)).to_vec(), expected);
        assert_eq!(meaning(&of(&cut(true))), (Checksum::Partial, Some(1460)));
    }

    #[test]
    fn flags_of_received_frames() {
        let mut header = [0; SIZE];
        header[0] = DATA_VALID;
        assert_eq!(meaning(&header), (Checksum::Verified, None));
        header[0] = NEEDS_CHECKSUM;
        header[1] = GSO_TCP_V4 | GSO_ECN;
        header[4..6].copy_from_slice(&536u16.to_ne_bytes());
        assert_eq!(meaning(&header), (Checksum::Partial, Some(536)));
        header[1] = 3; // a fragmented datagram (UFO), which was not enabled
        assert_eq!(meaning(&header), (Checksum::Partial, None));
    }
}
