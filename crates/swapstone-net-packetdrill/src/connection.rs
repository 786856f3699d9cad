// SPDX-License-Identifier: MIT OR Apache-2.0
//! The connection under test: ports, and the mapping between the script's numbers and the stack's.

use std::collections::HashMap;

use swapstone_net_testkit::wire::{self as packets, ACK, PSH, SYN};

use crate::script::{Tcp, TcpOption, Version};
use crate::wire;

/// The connection, or the listening or connecting socket.
#[derive(Debug)]
pub struct Connection {
    /// The port of the stack; 0 until it is known.
    pub local: u16,
    /// The port of the peer.
    pub remote: u16,
    /// It is a UDP socket.
    pub udp: bool,
    /// It listens: the next segment that arrives opens a connection.
    pub listening: bool,
    /// The sequence number of the script's SYN, in each direction. As in packetdrill, the numbers of a
    /// segment with SYN are absolute, and those of all others relative to these.
    remote_start: Option<u32>,
    local_start: u32,
    /// The sequence number of the stack's SYN.
    start: Option<u32>,
    /// The stack's timestamps by those of the script.
    timestamps: HashMap<u32, u32>,
    /// The end of what the stack has sent, in the script's numbers.
    sent_to: Option<u32>,
    /// The MSS option of the peer's SYN, or what a smaller MTU of the path permits.
    largest: Option<u16>,
}

impl Connection {
    fn new(local: u16, remote: u16) -> Self {
        Self {
            local,
            remote,
            udp: false,
            listening: false,
            remote_start: None,
            local_start: 0,
            start: None,
            timestamps: HashMap::new(),
            sent_to: None,
            largest: None,
        }
    }

    /// A listening socket.
    pub fn listener(local: u16) -> Self {
        Self {
            listening: true,
            ..Self::new(local, 0)
        }
    }

    /// A connection that the peer opens.
    pub fn passive(local: u16, remote: u16) -> Self {
        Self::new(local, remote)
    }

    /// A connection that the stack opens.
    pub fn active(remote: u16) -> Self {
        Self::new(0, remote)
    }

    /// A UDP socket.
    pub fn datagrams(local: u16, remote: u16) -> Self {
        Self {
            udp: true,
            ..Self::new(local, remote)
        }
    }

    /// Converts a segment of the script to the stack's numbers.
    ///
    /// # Errors
    ///
    /// It echoes a timestamp that the stack has not sent.
    pub fn live(&mut self, tcp: &Tcp) -> Result<packets::Tcp, String> {
        let syn = tcp.flags & SYN != 0;
        if syn {
            self.remote_start.get_or_insert(tcp.seq);
        }
        let remote_start = self.remote_start.unwrap_or(0);
        let mut options = Vec::new();
        for option in tcp.options.iter().flatten() {
            if let (true, TcpOption::Mss(mss)) = (syn, option) {
                self.largest = Some(*mss);
            }
            options.push(match option {
                TcpOption::Sack(blocks) => {
                    let start = self.start.unwrap_or(0);
                    let live = |edge: &u32| edge.wrapping_add(start);
                    let blocks = blocks.iter().map(|(left, right)| (live(left), live(right)));
                    TcpOption::Sack(blocks.collect())
                }
                TcpOption::Timestamp(value, echo) if tcp.flags & ACK != 0 => {
                    let Some(live) = self.timestamps.get(echo) else {
                        return Err(format!("the stack has sent no timestamp {echo}"));
                    };
                    TcpOption::Timestamp(*value, *live)
                }
                other => other.clone(),
            });
        }
        let (remote, local) = if syn {
            (0, self.local_start)
        } else {
            (remote_start, 0)
        };
        let seq = tcp.seq.wrapping_add(remote);
        let first = seq.wrapping_sub(remote_start);
        let first = first.wrapping_add(u32::from(syn));
        let start = self.start.unwrap_or(0).wrapping_sub(local);
        let ack = tcp.ack.map_or(0, |ack| ack.wrapping_add(start));
        Ok(packets::Tcp {
            source: self.remote,
            destination: self.local,
            seq,
            ack,
            flags: tcp.flags,
            window: tcp.window.unwrap_or(0),
            options: wire::encode_options(&options),
            payload: wire::stream(first, tcp.length.into()),
        })
    }

    /// Converts a segment of the stack to the script's numbers. `None`: of another connection.
    pub fn script(
        &mut self,
        tcp: &packets::Tcp,
        like: Option<&Tcp>,
    ) -> Option<Result<Tcp, String>> {
        if self.local == 0 && tcp.has(SYN) && tcp.destination == self.remote {
            self.local = tcp.source;
        }
        if (tcp.source, tcp.destination) != (self.local, self.remote) || self.listening {
            return None;
        }
        if tcp.has(SYN) && self.start.is_none() {
            self.local_start = like.map_or(0, |like| like.seq);
            self.start = Some(tcp.seq);
        }
        let (remote, local) = if tcp.has(SYN) {
            (0, self.local_start)
        } else {
            (self.remote_start.unwrap_or(0), 0)
        };
        let start = self.start.unwrap_or(0).wrapping_sub(local);
        let Some(mut options) = wire::decode_options(&tcp.options) else {
            return Some(Err("the TCP options of the segment are malformed".into()));
        };
        for option in &mut options {
            if let TcpOption::Sack(blocks) = option {
                for edge in blocks.iter_mut().flat_map(|(left, right)| [left, right]) {
                    *edge = edge.wrapping_sub(remote);
                }
            }
        }
        let Ok(length) = u16::try_from(tcp.payload.len()) else {
            return Some(Err("the segment is longer than 65535 bytes".into()));
        };
        Some(Ok(Tcp {
            flags: tcp.flags,
            seq: tcp.seq.wrapping_sub(start),
            length,
            ack: tcp.has(ACK).then_some(tcp.ack.wrapping_sub(remote)),
            window: Some(tcp.window),
            urgent: None,
            options: Some(options),
        }))
    }

    /// Returns the first eight bytes of a segment or datagram of the stack, as ICMP errors quote
    /// them.
    pub fn quote(&self, seq: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(self.local.to_be_bytes());
        bytes.extend(self.remote.to_be_bytes());
        if self.udp {
            bytes.extend([0, 8, 0, 0]);
        } else {
            let live = seq.wrapping_add(self.start.unwrap_or(0));
            bytes.extend(live.to_be_bytes());
        }
        bytes
    }

    /// Takes an MTU of the path that an ICMP error has.
    pub fn limit(&mut self, mtu: u32, version: Version) {
        let headers = if version == Version::V4 { 40 } else { 60 };
        let most = u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX);
        self.largest = self.largest.map(|mss| mss.min(most));
    }

    /// Whether a script expects several segments as one: it is longer than the peer's MSS. packetdrill
    /// shows what the stack gives to a device that splits it.
    pub fn is_split(&self, expected: &Tcp) -> bool {
        self.largest.is_some_and(|mss| expected.length > mss)
    }

    /// Whether a segment has other bytes than the program wrote.
    pub fn has_other_bytes(&self, seen: &Tcp, frame: &[u8]) -> bool {
        let bytes = &frame[frame.len().saturating_sub(seen.length.into())..];
        let first = if seen.flags & SYN != 0 { 1 } else { seen.seq };
        seen.length > 0 && bytes != wire::stream(first, seen.length.into())
    }

    /// Returns what differs between the expected segment and the one that the stack sent.
    pub fn differs(&mut self, expected: &Tcp, seen: &Tcp) -> Option<String> {
        // A retransmitted segment may be cut in another way (RFC 9293, 3.8.1), and its PSH says nothing.
        let end = seen.seq.wrapping_add(seen.length.into());
        let ahead = |from: u32| i32::try_from(end.wrapping_sub(from)).is_ok_and(|ahead| ahead > 0);
        let again = seen.length > 0 && !self.sent_to.is_none_or(ahead);
        if self.sent_to.is_none_or(ahead) {
            self.sent_to = Some(end);
        }
        let ignored = if again { PSH } else { 0 };
        let differ = (expected.flags ^ seen.flags) & !ignored != 0;
        let fields = [
            ("the flags differ", differ),
            ("the sequence number differs", expected.seq != seen.seq),
            ("the length differs", expected.length != seen.length),
            (
                "the acknowledgement number differs",
                expected.ack.is_some() && expected.ack != seen.ack,
            ),
            (
                "the urgent pointer differs",
                expected.urgent.is_some() && expected.urgent != seen.urgent,
            ),
            (
                "the window differs",
                expected.window.is_some() && expected.window != seen.window,
            ),
        ];
        if let Some((text, _)) = fields.iter().find(|(_, differs)| *differs) {
            return Some((*text).into());
        }
        // Padding is the sender's choice (RFC 9293, 3.1): options may begin at any byte.
        let without_padding = |options: &[TcpOption]| -> Vec<TcpOption> {
            let padding = |option: &&TcpOption| matches!(option, TcpOption::Nop | TcpOption::Eol);
            options
                .iter()
                .filter(|each| !padding(each))
                .cloned()
                .collect()
        };
        let options = &without_padding(expected.options.as_ref()?);
        let sent = &without_padding(seen.options.as_ref()?);
        let same = options.len() == sent.len()
            && options.iter().zip(sent).all(|pair| match pair {
                // The script's clock is not the stack's.
                (TcpOption::Timestamp(_, echo), TcpOption::Timestamp(_, seen)) => echo == seen,
                (one, other) => one == other,
            });
        if !same {
            return Some("the TCP options differ".into());
        }
        for pair in options.iter().zip(sent) {
            if let (TcpOption::Timestamp(script, _), TcpOption::Timestamp(live, _)) = pair {
                self.timestamps.insert(*script, *live);
            }
        }
        None
    }
}
