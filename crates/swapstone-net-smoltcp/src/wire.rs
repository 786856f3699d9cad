// SPDX-License-Identifier: MIT OR Apache-2.0
//! Parsing and writing of frames. A received frame is parsed here first, to find its socket.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use swapstone_net::device::{Checksum, ETHERNET_HEADER, HardwareAddress};

use crate::discovery;
use crate::ip::{IPV6_HEADER, fold, pseudo, sum};

/// The flags of a TCP header.
pub(crate) const FIN: u8 = 1;
pub(crate) const SYN: u8 = 2;
pub(crate) const RST: u8 = 4;
pub(crate) const ACK: u8 = 16;

const TCP: u8 = 6;
const UDP: u8 = 17;
const IPV4_HEADER: usize = 20;
const TCP_HEADER: usize = 20;
/// The kinds of two TCP options, and the length of the second one with its padding.
const MSS: u8 = 2;
const TIMESTAMPS: u8 = 8;
pub(crate) const TIMESTAMPS_LENGTH: usize = 12;

/// A valid TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    pub(crate) window: u16,
    /// The length of the payload in bytes.
    pub(crate) payload: usize,
    /// The offset of the TCP header in the frame.
    pub(crate) at: usize,
}

/// A valid UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Datagram {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The length of the payload in bytes.
    pub(crate) payload: usize,
}

/// An ICMP error in response to a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unreachable {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) seq: u32,
    /// The error is "port unreachable".
    pub(crate) port: bool,
}

/// An ICMP error that a TCP segment was too large for its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooBig {
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) seq: u32,
    /// The MTU of the next hop in bytes.
    pub(crate) mtu: u32,
}

/// The kind of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Malformed,
    /// A fragment of an IP packet. Reassembly is not implemented.
    Fragment,
    Segment(Segment),
    Datagram(Datagram),
    Unreachable(Unreachable),
    TooBig(TooBig),
    /// ARP or neighbor discovery.
    Neighbor,
    /// Duplicate address detection of another host for this address (RFC 4862, section 5.4).
    AddressProbe(Ipv6Addr),
    Other,
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn v4(bytes: &[u8], at: usize) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from(u32_at(bytes, at)))
}

fn v6(bytes: &[u8], at: usize) -> IpAddr {
    let mut octets = [0; 16];
    octets.copy_from_slice(&bytes[at..at + 16]);
    IpAddr::V6(Ipv6Addr::from(octets))
}

/// Parses a received frame. Lengths, ports, flags and checksums are verified; addresses are not
/// compared with the local ones.
pub(crate) fn parse(frame: &[u8], checksum: Checksum) -> Kind {
    if frame.len() < ETHERNET_HEADER {
        return Kind::Malformed;
    }
    match u16_at(frame, 12) {
        0x0800 => parse_v4(frame, checksum),
        0x0806 if frame.len() < ETHERNET_HEADER + 28 => Kind::Malformed,
        0x0806 => Kind::Neighbor,
        0x86dd => parse_v6(frame, checksum),
        _ => Kind::Other,
    }
}

fn parse_v4(frame: &[u8], checksum: Checksum) -> Kind {
    let ip = &frame[ETHERNET_HEADER..];
    if ip.len() < IPV4_HEADER || ip[0] >> 4 != 4 {
        return Kind::Malformed;
    }
    let header = usize::from(ip[0] & 15) * 4;
    let total = usize::from(u16_at(ip, 2));
    if header < IPV4_HEADER || total < header || total > ip.len() {
        return Kind::Malformed;
    }
    if fold(sum(&ip[..header], 0)) != 0xffff {
        return Kind::Malformed;
    }
    if u16_at(ip, 6) & 0x3fff != 0 {
        return Kind::Fragment;
    }
    let (remote, local) = (v4(ip, 12), v4(ip, 16));
    let payload = Payload {
        frame,
        ip: ETHERNET_HEADER,
        at: ETHERNET_HEADER + header,
        end: ETHERNET_HEADER + total,
        local,
        remote,
        checksum,
    };
    match ip[9] {
        TCP => payload.tcp(),
        UDP => payload.udp(),
        1 => payload.icmp_v4(),
        _ => Kind::Other,
    }
}

fn parse_v6(frame: &[u8], checksum: Checksum) -> Kind {
    let ip = &frame[ETHERNET_HEADER..];
    if ip.len() < IPV6_HEADER || ip[0] >> 4 != 6 {
        return Kind::Malformed;
    }
    let end = IPV6_HEADER + usize::from(u16_at(ip, 4));
    if end > ip.len() {
        return Kind::Malformed;
    }
    let (mut next, mut header) = (ip[6], IPV6_HEADER);
    if next == 0 {
        if end < header + 8 {
            return Kind::Malformed;
        }
        next = ip[header];
        header += 8 + usize::from(ip[header + 1]) * 8;
        if header > end {
            return Kind::Malformed;
        }
    }
    let payload = Payload {
        frame,
        ip: ETHERNET_HEADER,
        at: ETHERNET_HEADER + header,
        end: ETHERNET_HEADER + end,
        local: v6(ip, 24),
        remote: v6(ip, 8),
        checksum,
    };
    match next {
        TCP => payload.tcp(),
        UDP => payload.udp(),
        44 => Kind::Fragment,
        58 => payload.icmp_v6(),
        _ => Kind::Other,
    }
}

/// The payload of an IP packet.
struct Payload<'a> {
    frame: &'a [u8],
    ip: usize,
    at: usize,
    end: usize,
    local: IpAddr,
    remote: IpAddr,
    checksum: Checksum,
}

impl Payload<'_> {
    fn bytes(&self) -> &[u8] {
        &self.frame[self.at..self.end]
    }

    fn checksum_is_valid(&self, protocol: u8) -> bool {
        let bytes = self.bytes();
        let pseudo = pseudo(&self.frame[self.ip..], protocol, bytes.len());
        fold(sum(bytes, pseudo)) == 0xffff
    }

    fn tcp(&self) -> Kind {
        let bytes = self.bytes();
        if bytes.len() < TCP_HEADER {
            return Kind::Malformed;
        }
        let header = usize::from(bytes[12] >> 4) * 4;
        if header < TCP_HEADER || header > bytes.len() {
            return Kind::Malformed;
        }
        let flags = bytes[13];
        let (remote, local) = (u16_at(bytes, 0), u16_at(bytes, 2));
        let controls = (flags & (SYN | FIN | RST)).count_ones();
        if remote == 0 || local == 0 || controls > 1 {
            return Kind::Malformed;
        }
        if self.checksum == Checksum::Unknown && !self.checksum_is_valid(TCP) {
            return Kind::Malformed;
        }
        Kind::Segment(Segment {
            local: SocketAddr::new(self.local, local),
            remote: SocketAddr::new(self.remote, remote),
            flags,
            seq: u32_at(bytes, 4),
            ack: u32_at(bytes, 8),
            window: u16::from_be_bytes([bytes[14], bytes[15]]),
            payload: bytes.len() - header,
            at: self.at,
        })
    }

    fn udp(&self) -> Kind {
        let bytes = self.bytes();
        if bytes.len() < 8 {
            return Kind::Malformed;
        }
        let length = usize::from(u16_at(bytes, 4));
        let (remote, local) = (u16_at(bytes, 0), u16_at(bytes, 2));
        if length < 8 || length > bytes.len() || local == 0 {
            return Kind::Malformed;
        }
        if self.checksum == Checksum::Unknown {
            let whole = Payload {
                end: self.at + length,
                ..*self
            };
            let absent = u16_at(bytes, 6) == 0;
            if (absent && self.local.is_ipv6()) || (!absent && !whole.checksum_is_valid(UDP)) {
                return Kind::Malformed;
            }
        }
        Kind::Datagram(Datagram {
            local: SocketAddr::new(self.local, local),
            remote: SocketAddr::new(self.remote, remote),
            payload: length - 8,
        })
    }

    fn icmp_v4(&self) -> Kind {
        let bytes = self.bytes();
        if bytes.len() < 8 || fold(sum(bytes, 0)) != 0xffff {
            return Kind::Malformed;
        }
        let inner = &bytes[8..];
        // Destination unreachable.
        if bytes[0] != 3 || inner.len() < IPV4_HEADER {
            return Kind::Other;
        }
        let header = usize::from(inner[0] & 15) * 4;
        if inner[0] >> 4 != 4 || inner[9] != TCP || inner.len() < header + 8 || header < IPV4_HEADER
        {
            return Kind::Other;
        }
        let (tcp, local, remote) = (&inner[header..], v4(inner, 12), v4(inner, 16));
        match bytes[1] {
            4 => too_big(tcp, local, remote, u32::from(u16_at(bytes, 6))),
            code => unreachable(tcp, local, remote, code == 3),
        }
    }

    fn icmp_v6(&self) -> Kind {
        let bytes = self.bytes();
        if bytes.len() < 4 || !self.checksum_is_valid(58) {
            return Kind::Malformed;
        }
        if (133..=137).contains(&bytes[0]) {
            let unspecified = self.remote.is_unspecified();
            if !discovery::is_valid(bytes, unspecified) {
                return Kind::Malformed;
            }
            let hops = self.frame[self.ip + 7];
            return match discovery::solicited_target(bytes, hops) {
                Some(address) if unspecified => Kind::AddressProbe(address),
                _ => Kind::Neighbor,
            };
        }
        if !matches!(bytes[0], 1 | 2) || bytes.len() < 8 + IPV6_HEADER + 8 || bytes[8 + 6] != TCP {
            return Kind::Other;
        }
        let inner = &bytes[8..];
        let (tcp, local, remote) = (&inner[IPV6_HEADER..], v6(inner, 8), v6(inner, 24));
        match bytes[0] {
            2 => too_big(tcp, local, remote, u32_at(bytes, 4)),
            _ => unreachable(tcp, local, remote, bytes[1] == 4),
        }
    }
}

fn unreachable(tcp: &[u8], local: IpAddr, remote: IpAddr, port: bool) -> Kind {
    Kind::Unreachable(Unreachable {
        local: SocketAddr::new(local, u16_at(tcp, 0)),
        remote: SocketAddr::new(remote, u16_at(tcp, 2)),
        seq: u32_at(tcp, 4),
        port,
    })
}

fn too_big(tcp: &[u8], local: IpAddr, remote: IpAddr, mtu: u32) -> Kind {
    Kind::TooBig(TooBig {
        local: SocketAddr::new(local, u16_at(tcp, 0)),
        remote: SocketAddr::new(remote, u16_at(tcp, 2)),
        seq: u32_at(tcp, 4),
        mtu,
    })
}

/// Returns whether the options of an extension header, whose first two bytes are left out, are complete
/// and can all be skipped if they are unknown (RFC 8200, section 4.2).
fn can_skip(mut options: &[u8]) -> bool {
    loop {
        match *options {
            [] => return true,
            [0, ref rest @ ..] => options = rest,
            [kind, length, ref rest @ ..] if kind >> 6 == 0 && rest.len() >= length.into() => {
                options = &rest[length.into()..];
            }
            _ => return false,
        }
    }
}

/// Removes IPv6 extension headers before TCP and UDP: options that need no action, a routing header
/// without segments left, and the fragment header of a packet that is not fragmented (RFC 6946).
/// Returns the new length of the frame, `None` if it was not changed.
pub(crate) fn remove_extension_headers(frame: &mut [u8]) -> Option<usize> {
    const FIRST: usize = ETHERNET_HEADER + IPV6_HEADER;
    let ip = frame.get(ETHERNET_HEADER..)?;
    if ip.len() < IPV6_HEADER || u16_at(frame, 12) != 0x86dd || ip[0] >> 4 != 6 {
        return None;
    }
    let end = FIRST + usize::from(u16_at(ip, 4));
    let (mut next, mut at) = (ip[6], FIRST);
    while !matches!(next, TCP | UDP) {
        let header = frame.get(at..end)?;
        let options = matches!(next, 0 | 60);
        let size = match next {
            44 => 8,
            0 | 43 | 60 => 8 + 8 * usize::from(*header.get(1)?),
            _ => return None,
        };
        let header = header.get(..size)?;
        let fits = match next {
            44 => u16_at(header, 2) & 0xfff9 == 0,
            43 => header[3] == 0,
            // Hop-by-hop options follow the IPv6 header only.
            _ => options && can_skip(&header[2..]) && (next == 60 || at == FIRST),
        };
        if !fits {
            return None;
        }
        next = header[0];
        at += size;
    }
    if at == FIRST || end > frame.len() {
        return None;
    }
    frame[ETHERNET_HEADER + 6] = next;
    frame[ETHERNET_HEADER + 4..ETHERNET_HEADER + 6]
        .copy_from_slice(&((end - at) as u16).to_be_bytes());
    frame.copy_within(at..end, FIRST);
    Some(FIRST + end - at)
}

/// Sets acknowledgement number and window field of a segment. Checksums are not updated.
pub(crate) fn set_ack(frame: &mut [u8], tcp: usize, (ack, window): (u32, u16)) {
    frame[tcp + 8..tcp + 12].copy_from_slice(&ack.to_be_bytes());
    frame[tcp + 14..tcp + 16].copy_from_slice(&window.to_be_bytes());
}

/// Returns whether a frame to send is an ICMP error.
pub(crate) fn is_icmp_error(frame: &[u8]) -> bool {
    let Some(ip) = frame.get(ETHERNET_HEADER..) else {
        return false;
    };
    match u16_at(frame, 12) {
        0x0800 if ip.len() > IPV4_HEADER => ip[9] == 1 && matches!(ip[20], 3 | 11 | 12),
        0x86dd if ip.len() > IPV6_HEADER => ip[6] == 58 && ip[40] < 128,
        _ => false,
    }
}

/// Writes the headers of a part of a TCP segment: lengths, sequence number, flags and the IPv4 checksum.
/// `offset` is the place of its payload in the segment, `last` marks the last part.
pub(crate) fn cut(frame: &mut [u8], transport: Transport, offset: u32, last: bool) {
    let (length, ip) = (frame.len() - ETHERNET_HEADER, ETHERNET_HEADER);
    let at = transport.at;
    let seq = u32_at(frame, at + 4).wrapping_add(offset);
    frame[at + 4..at + 8].copy_from_slice(&seq.to_be_bytes());
    if !last {
        // FIN and PSH belong to the last byte.
        frame[at + 13] &= !(FIN | 8);
    }
    if transport.v6 {
        let length = (length - IPV6_HEADER) as u16;
        frame[ip + 4..ip + 6].copy_from_slice(&length.to_be_bytes());
        return;
    }
    frame[ip + 2..ip + 4].copy_from_slice(&(length as u16).to_be_bytes());
    complete_v4(frame, at);
}

/// Returns the offset of the value of a TCP option in the frame: of the first one of this kind, whose
/// value must have `size` bytes. `tcp` is the offset of the TCP header.
fn option_at(frame: &[u8], tcp: usize, kind: u8, size: usize) -> Option<usize> {
    let end = (tcp + usize::from(frame.get(tcp + 12)? >> 4) * 4).min(frame.len());
    let mut at = tcp + TCP_HEADER;
    while at < end {
        match frame[at] {
            0 => return None,
            1 => at += 1,
            found if found == kind && at + 2 + size <= end && frame[at + 1] == 2 + size as u8 => {
                return Some(at + 2);
            }
            _ if at + 1 < end && frame[at + 1] >= 2 => at += usize::from(frame[at + 1]),
            _ => return None,
        }
    }
    None
}

/// Reduces the MSS option of a SYN to at most `most` and returns its value. In the frame it is smaller by
/// `options`, the length of the options in each segment (RFC 6691). The checksum is not updated.
pub(crate) fn lower_mss(frame: &mut [u8], tcp: usize, most: u16, options: u16) -> Option<u16> {
    let at = option_at(frame, tcp, MSS, 2)?;
    let offered = u16_at(frame, at).min(most);
    let left = match options {
        0 => offered,
        _ => offered.saturating_sub(options).max(1),
    };
    frame[at..at + 2].copy_from_slice(&left.to_be_bytes());
    Some(offered)
}

/// Returns the time of the sender in the timestamps option of a segment (RFC 7323).
pub(crate) fn timestamp(frame: &[u8], tcp: usize) -> Option<u32> {
    option_at(frame, tcp, TIMESTAMPS, 8).map(|at| u32_at(frame, at))
}

/// Inserts a timestamps option in a segment to send, which begins behind [`TIMESTAMPS_LENGTH`] free bytes:
/// before the other options, but behind the MSS. The payload stays where it is: the headers move to the
/// beginning. Returns whether it was inserted: resets, segments whose options have no room for it, and
/// other frames are not changed.
pub(crate) fn insert_timestamps(memory: &mut [u8], time: u32, echo: u32) -> bool {
    const ROOM: usize = TIMESTAMPS_LENGTH;
    const LONGEST: usize = 60;
    let Some(transport) = memory.get(ROOM..).and_then(Transport::of) else {
        return false;
    };
    let at = transport.at;
    let frame = &memory[ROOM..];
    if !transport.tcp || transport.tcp_header(frame) + ROOM > LONGEST || frame[at + 13] & RST != 0 {
        return false;
    }
    let mut option = at + TCP_HEADER;
    if option_at(frame, at, MSS, 2) == Some(option + 2) {
        option += 4;
    }
    // The usual lengths are constants: that needs no call of memmove, which the counts of copies would
    // contain.
    match option {
        54 => move_head::<54>(memory),
        58 => move_head::<58>(memory),
        74 => move_head::<74>(memory),
        78 => move_head::<78>(memory),
        _ => memory.copy_within(ROOM..ROOM + option, 0),
    }
    memory[option..option + 4].copy_from_slice(&[1, 1, TIMESTAMPS, 10]);
    memory[option + 4..option + 8].copy_from_slice(&time.to_be_bytes());
    memory[option + 8..option + 12].copy_from_slice(&echo.to_be_bytes());
    memory[at + 12] += (ROOM as u8 / 4) << 4;
    let length = ETHERNET_HEADER + if transport.v6 { 4 } else { 2 };
    let longer = u16_at(memory, length) + ROOM as u16;
    memory[length..length + 2].copy_from_slice(&longer.to_be_bytes());
    if !transport.v6 {
        complete_v4(memory, at);
    }
    true
}

/// Moves `N` bytes behind the free ones to the beginning.
fn move_head<const N: usize>(memory: &mut [u8]) {
    let head = memory[TIMESTAMPS_LENGTH..].first_chunk::<N>().copied();
    if let (Some(head), Some(to)) = (head, memory.first_chunk_mut::<N>()) {
        *to = head;
    }
}

/// Writes the checksum of the IPv4 header, which ends at `end`.
fn complete_v4(frame: &mut [u8], end: usize) {
    let place = ETHERNET_HEADER + 10;
    frame[place..place + 2].fill(0);
    let checksum = !fold(sum(&frame[ETHERNET_HEADER..end], 0));
    frame[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// Removes the payload of a segment, `length` bytes, so that only its FIN is left. Checksums are not
/// updated. Returns the new length of the frame.
pub(crate) fn drop_payload(frame: &mut [u8], tcp: usize, length: usize) -> usize {
    let size = tcp + 4 * usize::from(frame[tcp + 12] >> 4);
    let seq = u32::from_be_bytes([
        frame[tcp + 4],
        frame[tcp + 5],
        frame[tcp + 6],
        frame[tcp + 7],
    ]);
    frame[tcp + 4..tcp + 8].copy_from_slice(&seq.wrapping_add(length as u32).to_be_bytes());
    // IPv4 has the length of the packet, IPv6 that of its payload.
    let (place, before) = match frame[ETHERNET_HEADER] >> 4 {
        4 => (ETHERNET_HEADER + 2, ETHERNET_HEADER),
        _ => (ETHERNET_HEADER + 4, ETHERNET_HEADER + 40),
    };
    frame[place..place + 2].copy_from_slice(&((size - before) as u16).to_be_bytes());
    size
}

/// Keeps the first `length` bytes of the payload of a segment, and removes its FIN. Checksums are not
/// updated. Returns the new length of the frame.
pub(crate) fn keep_payload(frame: &mut [u8], tcp: usize, length: usize) -> usize {
    let headers = drop_payload(frame, tcp, 0);
    let (place, before) = match frame[ETHERNET_HEADER] >> 4 {
        4 => (ETHERNET_HEADER + 2, ETHERNET_HEADER),
        _ => (ETHERNET_HEADER + 4, ETHERNET_HEADER + IPV6_HEADER),
    };
    let size = headers + length;
    frame[place..place + 2].copy_from_slice(&((size - before) as u16).to_be_bytes());
    frame[tcp + 13] &= !FIN;
    size
}

/// Makes an ACK without data, at this sequence number, of a segment with its headers alone. Checksums
/// are not updated. Returns the length of the frame.
pub(crate) fn keep_ack(frame: &mut [u8], tcp: usize, seq: u32) -> usize {
    let size = drop_payload(frame, tcp, 0);
    frame[tcp + 4..tcp + 8].copy_from_slice(&seq.to_be_bytes());
    frame[tcp + 13] = ACK;
    size
}

/// The TCP or UDP header of a frame to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transport {
    /// The offset in the frame.
    pub(crate) at: usize,
    pub(crate) tcp: bool,
    pub(crate) v6: bool,
}

impl Transport {
    /// Finds the header in a frame of smoltcp, which has no IPv6 extension headers.
    pub(crate) fn of(frame: &[u8]) -> Option<Self> {
        let ip = frame.get(ETHERNET_HEADER..)?;
        let (at, protocol, v6) = match u16_at(frame, 12) {
            0x0800 if ip.len() >= IPV4_HEADER => (usize::from(ip[0] & 15) * 4, ip[9], false),
            0x86dd if ip.len() >= IPV6_HEADER => (IPV6_HEADER, ip[6], true),
            _ => return None,
        };
        let (tcp, least) = match protocol {
            TCP => (true, TCP_HEADER),
            UDP => (false, 8),
            _ => return None,
        };
        let at = ETHERNET_HEADER + at;
        (frame.len() >= at + least).then_some(Self { at, tcp, v6 })
    }

    fn field(self) -> usize {
        if self.tcp { 16 } else { 6 }
    }

    fn pseudo(self, frame: &[u8]) -> u64 {
        let protocol = if self.tcp { TCP } else { UDP };
        pseudo(&frame[ETHERNET_HEADER..], protocol, frame.len() - self.at)
    }

    /// Writes the sum of the pseudo-header to the checksum field; returns the offset of the field in
    /// the header.
    pub(crate) fn prepare_checksum(self, frame: &mut [u8]) -> u16 {
        let sum = fold(self.pseudo(frame));
        let at = self.at + self.field();
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        self.field() as u16
    }

    /// Computes and writes the checksum.
    pub(crate) fn fill_checksum(self, frame: &mut [u8]) {
        let at = self.at + self.field();
        frame[at..at + 2].copy_from_slice(&[0, 0]);
        let checksum = match !fold(sum(&frame[self.at..], self.pseudo(frame))) {
            0 if !self.tcp => 0xffff,
            checksum => checksum,
        };
        frame[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Returns the length of the TCP header.
    pub(crate) fn tcp_header(self, frame: &[u8]) -> usize {
        usize::from(frame[self.at + 12] >> 4) * 4
    }

    /// Returns the length of the TCP options.
    pub(crate) fn tcp_options(self, frame: &[u8]) -> usize {
        self.tcp_header(frame).saturating_sub(TCP_HEADER)
    }

    /// Returns the header fields of a segment and the length of its payload in bytes.
    pub(crate) fn segment(self, frame: &[u8]) -> (Answer, usize) {
        let tcp = &frame[self.at..];
        let fields = Answer {
            flags: tcp[13],
            seq: u32_at(tcp, 4),
            ack: u32_at(tcp, 8),
            window: u16_at(tcp, 14),
        };
        let payload = tcp.len().saturating_sub(self.tcp_header(frame));
        (fields, payload)
    }
}

/// The header fields of a segment without payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) flags: u8,
    pub(crate) seq: u32,
    pub(crate) ack: u32,
    /// The window field of the header.
    pub(crate) window: u16,
}

impl Answer {
    /// Returns the RST in response to a segment without a connection (RFC 9293, 3.10.7.1); `None` for
    /// a RST.
    pub(crate) fn reset(to: &Segment) -> Option<Self> {
        let controls = u32::from(to.flags & SYN != 0) + u32::from(to.flags & FIN != 0);
        let (flags, seq, ack) = match to.flags & (RST | ACK) {
            0 => (
                RST | ACK,
                0,
                to.seq.wrapping_add(to.payload as u32 + controls),
            ),
            ACK => (RST, to.ack, 0),
            _ => return None,
        };
        Some(Self {
            flags,
            seq,
            ack,
            window: 0,
        })
    }
}

/// The longest frame that [`segment`] writes.
const BARE_FRAME: usize = ETHERNET_HEADER + IPV6_HEADER + TCP_HEADER;

/// Writes a segment without payload from `remote` to `local`, which are on the same IP version. Returns the
/// frame and its length. The TCP checksum is not set.
pub(crate) fn segment(
    (sender, remote): (HardwareAddress, SocketAddr),
    (target, local): (HardwareAddress, SocketAddr),
    fields: Answer,
) -> ([u8; BARE_FRAME], usize) {
    // As if it answered a segment from `local`.
    let to = Segment {
        local: remote,
        remote: local,
        flags: 0,
        seq: 0,
        ack: 0,
        window: 0,
        payload: 0,
        at: 0,
    };
    let mut ethernet = [0; ETHERNET_HEADER];
    ethernet[6..12].copy_from_slice(&target);
    let kind: u16 = if local.is_ipv6() { 0x86dd } else { 0x0800 };
    ethernet[12..].copy_from_slice(&kind.to_be_bytes());
    let mut frame = [0; BARE_FRAME];
    answer(&mut frame, &ethernet, &to, sender, fields);
    (frame, answer_length(&to))
}

/// Returns the length of a frame that [`answer`] writes.
pub(crate) fn answer_length(to: &Segment) -> usize {
    let ip = if to.local.is_ipv6() {
        IPV6_HEADER
    } else {
        IPV4_HEADER
    };
    ETHERNET_HEADER + ip + TCP_HEADER
}

/// Writes the frame that responds to `frame`. The TCP checksum is not set.
pub(crate) fn answer(
    reply: &mut [u8],
    frame: &[u8],
    to: &Segment,
    from: HardwareAddress,
    answer: Answer,
) {
    reply[..6].copy_from_slice(&frame[6..12]);
    reply[6..12].copy_from_slice(&from);
    reply[12..14].copy_from_slice(&frame[12..14]);
    let ip = &mut reply[ETHERNET_HEADER..];
    let at = match (to.local.ip(), to.remote.ip()) {
        (IpAddr::V4(local), IpAddr::V4(remote)) => {
            ip[..12].copy_from_slice(&[0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, TCP, 0, 0]);
            ip[12..16].copy_from_slice(&local.octets());
            ip[16..20].copy_from_slice(&remote.octets());
            let checksum = !fold(sum(&ip[..20], 0));
            ip[10..12].copy_from_slice(&checksum.to_be_bytes());
            IPV4_HEADER
        }
        (IpAddr::V6(local), IpAddr::V6(remote)) => {
            ip[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 20, TCP, 64]);
            ip[8..24].copy_from_slice(&local.octets());
            ip[24..40].copy_from_slice(&remote.octets());
            IPV6_HEADER
        }
        _ => unreachable!("both addresses are from one header"),
    };
    let tcp = &mut ip[at..at + TCP_HEADER];
    tcp[..2].copy_from_slice(&to.local.port().to_be_bytes());
    tcp[2..4].copy_from_slice(&to.remote.port().to_be_bytes());
    tcp[4..8].copy_from_slice(&answer.seq.to_be_bytes());
    tcp[8..12].copy_from_slice(&answer.ack.to_be_bytes());
    tcp[12..14].copy_from_slice(&[0x50, answer.flags]);
    tcp[14..16].copy_from_slice(&answer.window.to_be_bytes());
    tcp[16..20].fill(0);
}
