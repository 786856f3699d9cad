// SPDX-License-Identifier: MIT OR Apache-2.0
//! Frames of a peer: valid, except for the fields that the script changes.

use std::collections::HashMap;

pub const SUBJECT_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const SUBJECT_V4: [u8; 4] = [10, 0, 0, 1];
pub const PEER_V4: [u8; 4] = [10, 0, 0, 2];
pub const SUBJECT_V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub const PEER_V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

/// The stack's last segment of each connection, by IP version and both ports: the next sequence
/// numbers of both sides.
#[derive(Default)]
pub struct Heard {
    numbers: HashMap<(bool, u16, u16), (u32, u32)>,
    /// The last connection that the stack has started.
    pub begun: Option<(bool, u16, u16)>,
}

impl Heard {
    pub fn note(&mut self, frame: &[u8]) {
        let (v6, at) = match frame.get(12..14) {
            Some([8, 0]) if frame.get(23) == Some(&6) => (false, 34),
            Some([0x86, 0xdd]) if frame.get(20) == Some(&6) => (true, 54),
            _ => return,
        };
        let Some(tcp) = frame.get(at..at + 20) else {
            return;
        };
        let short = |from: usize| u16::from_be_bytes([tcp[from], tcp[from + 1]]);
        let long = |from: usize| u32::from_be_bytes(tcp[from..from + 4].try_into().expect("four"));
        let name = (v6, short(2), short(0));
        let length = (frame.len() - at).saturating_sub(usize::from(tcp[12] >> 4) * 4) as u32;
        let ends = u32::from(tcp[13] & 1 != 0) + u32::from(tcp[13] & 2 != 0);
        if tcp[13] & 0x12 == 2 {
            self.begun = Some(name);
        }
        let next = long(4).wrapping_add(length + ends);
        self.numbers.insert(name, (next, long(8)));
    }

    /// The next sequence numbers of the stack and of the peer.
    pub fn numbers(&self, name: (bool, u16, u16)) -> (u32, u32) {
        self.numbers.get(&name).copied().unwrap_or((0, 1000))
    }
}

fn add(sum: &mut u32, bytes: &[u8]) {
    for two in bytes.chunks(2) {
        *sum += u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0));
    }
}

fn fold(mut sum: u32) -> [u8; 2] {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    (!(sum as u16)).to_be_bytes()
}

/// Writes the checksum of a payload to the field of this protocol.
pub fn complete(v6: bool, protocol: u8, payload: &mut [u8]) {
    let at = match protocol {
        6 => 16,
        17 => 6,
        1 | 58 => 2,
        _ => return,
    };
    if payload.len() < at + 2 {
        return;
    }
    payload[at..at + 2].fill(0);
    let mut sum = 0;
    if protocol != 1 {
        if v6 {
            add(&mut sum, &PEER_V6);
            add(&mut sum, &SUBJECT_V6);
        } else {
            add(&mut sum, &PEER_V4);
            add(&mut sum, &SUBJECT_V4);
        }
        sum += u32::from(protocol) + payload.len() as u32;
    }
    add(&mut sum, payload);
    payload[at..at + 2].copy_from_slice(&fold(sum));
}

/// The variable fields of an IP header.
pub struct Header {
    /// IPv4: flags and fragment offset. IPv6: hop limit 64 if even, 255 if odd.
    pub middle: u16,
    pub protocol: u8,
}

/// A frame from the peer to the stack under test.
pub fn ip(v6: bool, header: &Header, payload: &[u8]) -> Vec<u8> {
    let mut frame = [SUBJECT_MAC, PEER_MAC].concat();
    let size = payload.len() as u16;
    if v6 {
        frame.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
        frame.extend(size.to_be_bytes());
        frame.extend([
            header.protocol,
            if header.middle & 1 == 0 { 64 } else { 255 },
        ]);
        frame.extend(PEER_V6);
        frame.extend(SUBJECT_V6);
    } else {
        frame.extend([8, 0, 0x45, 0]);
        frame.extend((size + 20).to_be_bytes());
        frame.extend([0, 7]);
        frame.extend(header.middle.to_be_bytes());
        frame.extend([64, header.protocol, 0, 0]);
        frame.extend(PEER_V4);
        frame.extend(SUBJECT_V4);
        let mut sum = 0;
        add(&mut sum, &frame[14..34]);
        frame[24..26].copy_from_slice(&fold(sum));
    }
    frame.extend(payload);
    frame
}

/// The reply to a request for the peer's address, also sent unsolicited.
pub fn greeting(v6: bool) -> Vec<u8> {
    if v6 {
        let mut body = vec![136, 0, 0, 0, 0x60, 0, 0, 0];
        body.extend(PEER_V6);
        body.extend([2, 1]);
        body.extend(PEER_MAC);
        complete(true, 58, &mut body);
        let header = Header {
            middle: 1,
            protocol: 58,
        };
        return ip(true, &header, &body);
    }
    let mut frame = [SUBJECT_MAC, PEER_MAC].concat();
    frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
    frame.extend(PEER_MAC);
    frame.extend(PEER_V4);
    frame.extend([0; 6]);
    frame.extend(SUBJECT_V4);
    frame
}
