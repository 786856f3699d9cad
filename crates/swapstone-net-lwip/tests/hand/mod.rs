// SPDX-License-Identifier: MIT OR Apache-2.0
//! A device and a peer made by hand: IPv4 over Ethernet, as plain as can be.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;

use swapstone_net::device::{Checksum, Device, DeviceLimits, Frame, Full, Outgoing};
use swapstone_net::{Buffer, Config, Instant, SocketId, Stack, TcpStack};
use swapstone_net_lwip::Lwip;

pub const SUBJECT: [u8; 4] = [10, 0, 0, 1];
pub const PEER: [u8; 4] = [10, 0, 0, 2];
pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const ACK: u8 = 16;
const HERE: [u8; 6] = [2, 0, 0, 0, 0, 1];
const THERE: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// What waits to be received, and what was sent.
#[derive(Default)]
pub struct Wire {
    pub inbox: VecDeque<Frame>,
    pub sent: Vec<Vec<u8>>,
}

pub struct Line(Rc<RefCell<Wire>>);

impl Device for Line {
    fn limits(&self) -> DeviceLimits {
        DeviceLimits {
            address: HERE,
            mtu: 1500,
            checksum_offload: false,
            segments: 0,
            largest_received: 65_535,
        }
    }

    fn receive(&mut self) -> Option<Frame> {
        self.0.borrow_mut().inbox.pop_front()
    }

    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
        self.0.borrow_mut().sent.push(frame.parts.concat());
        Ok(())
    }
}

/// lwIP with a peer that a test plays.
pub struct Hand {
    pub stack: Lwip<Line>,
    pub wire: Rc<RefCell<Wire>>,
    pub now: Instant,
}

fn sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|two| u32::from(two[0]) << 8 | u32::from(*two.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// A frame with a segment of TCP. Its IPv4 header is summed, its own sum is left to be marked as verified.
pub fn tcp(
    source: u16,
    destination: u16,
    sequence: u32,
    acknowledged: u32,
    flags: u8,
    payload: &[u8],
) -> Vec<u8> {
    let mut frame = [HERE, THERE].concat();
    frame.extend([8, 0, 0x45, 0]);
    frame.extend((40 + payload.len() as u16).to_be_bytes());
    frame.extend([0, 0, 0x40, 0, 64, 6, 0, 0]);
    frame.extend([PEER, SUBJECT].concat());
    let checksum = sum(&frame[14..34]);
    frame[24..26].copy_from_slice(&checksum.to_be_bytes());
    frame.extend(source.to_be_bytes());
    frame.extend(destination.to_be_bytes());
    frame.extend(sequence.to_be_bytes());
    frame.extend(acknowledged.to_be_bytes());
    frame.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

/// Numbers from a seed (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, most: usize) -> usize {
        (self.next() >> 16) as usize % most
    }
}

impl Hand {
    pub fn new(config: &Config) -> Self {
        let wire = Rc::new(RefCell::new(Wire::default()));
        let stack = Lwip::new(Line(wire.clone()), config).unwrap();
        let mut hand = Self {
            stack,
            wire,
            now: Instant::ZERO,
        };
        hand.greet();
        hand
    }

    /// Sends an ARP request to the subject, so that it learns the peer's address.
    pub fn greet(&mut self) {
        let mut frame = [[255; 6], THERE].concat();
        frame.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, 1]);
        frame.extend(THERE);
        frame.extend(PEER);
        frame.extend([0; 6]);
        frame.extend(SUBJECT);
        self.give(&frame, Checksum::Unknown);
    }

    pub fn give(&mut self, frame: &[u8], checksum: Checksum) {
        self.wire.borrow_mut().inbox.push_back(Frame {
            bytes: Buffer::copied(frame),
            checksum,
            segment: None,
        });
        self.now = self.now + Duration::from_micros(10);
        self.stack.poll(self.now);
    }

    pub fn segment(
        &mut self,
        source: u16,
        destination: u16,
        sequence: u32,
        acknowledged: u32,
        flags: u8,
        payload: &[u8],
    ) {
        let frame = tcp(source, destination, sequence, acknowledged, flags, payload);
        self.give(&frame, Checksum::Verified);
    }

    /// The sequence number of the last segment that was sent.
    pub fn sequence(&self) -> u32 {
        let wire = self.wire.borrow();
        let last = wire.sent.last().expect("something was sent");
        u32::from_be_bytes([last[38], last[39], last[40], last[41]])
    }

    pub fn listen(&mut self, port: u16, backlog: usize) -> SocketId {
        let id = self.stack.tcp_open().unwrap();
        self.stack.tcp_bind(id, (SUBJECT, port).into()).unwrap();
        self.stack.tcp_listen(id, backlog).unwrap();
        id
    }

    /// Random frames, and valid frames (of both sides) with some bytes changed, cut or repeated.
    pub fn fuzz(&mut self, count: usize, listener: SocketId) {
        let mut random = Random(0x5eed_5eed_5eed_5eed);
        let mut pool: Vec<Vec<u8>> = vec![
            tcp(999, 80, 1000, 0, SYN, &[]),
            tcp(999, 80, 1001, 5, ACK, b"data"),
            tcp(998, 81, 1001, 5, ACK | FIN, &[]),
        ];
        for _ in 0..count {
            let mut frame = if random.below(8) == 0 {
                let mut frame: Vec<u8> = (0..random.below(200))
                    .map(|_| random.next() as u8)
                    .collect();
                if frame.len() > 14 {
                    frame[..6].copy_from_slice(&HERE);
                    frame[12..14].copy_from_slice(&[[8, 0], [8, 6], [0x86, 0xdd]][random.below(3)]);
                }
                frame
            } else {
                let at = random.below(pool.len());
                pool[at].clone()
            };
            for _ in 0..random.below(4) {
                if !frame.is_empty() {
                    let at = random.below(frame.len());
                    frame[at] = random.next() as u8;
                }
            }
            if random.below(10) == 0 {
                frame.truncate(random.below(frame.len() + 1));
            }
            if frame.len() > 34 && frame[12..14] == [8, 0] && random.below(2) == 0 {
                frame[24..26].fill(0);
                let checksum = sum(&frame[14..34]);
                frame[24..26].copy_from_slice(&checksum.to_be_bytes());
            }
            let mark = [Checksum::Unknown, Checksum::Verified, Checksum::Partial][random.below(3)];
            self.give(&frame, mark);
            if random.below(100) == 0 {
                self.now = self.now + Duration::from_millis(random.below(2000) as u64);
            }
            if let Ok((id, _)) = self.stack.tcp_accept(listener) {
                let _ = self.stack.tcp_receive(id, &mut |seen| seen.len());
                let _ = self.stack.tcp_send(id, &[b"answer"]);
                self.stack.tcp_close(id);
            }
            // A frame of the subject, with both directions swapped, is a seed for the next frames.
            for mut answer in self.wire.borrow_mut().sent.drain(..) {
                if answer.len() >= 34 && answer[12..14] == [8, 0] {
                    answer[..6].copy_from_slice(&HERE);
                    let (from, to) = answer[26..34].split_at_mut(4);
                    from.swap_with_slice(to);
                    if answer.len() >= 38 {
                        let (from, to) = answer[34..38].split_at_mut(2);
                        from.swap_with_slice(to);
                    }
                    if answer.len() >= 46 {
                        let (from, to) = answer[38..46].split_at_mut(4);
                        from.swap_with_slice(to);
                    }
                } else if answer.len() >= 6 {
                    answer[..6].copy_from_slice(&HERE);
                }
                if pool.len() < 200 {
                    pool.push(answer);
                } else {
                    let at = 3 + random.below(pool.len() - 3);
                    pool[at] = answer;
                }
            }
        }
    }
}
