// SPDX-License-Identifier: MIT OR Apache-2.0
//! Interpretation of an input.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use swapstone_net::device::Checksum;
use swapstone_net::{Cidr, Config, Instant, Limits, Shutdown, SocketId, Stack, TcpOption};

use crate::device::Wire;
use crate::frames::{self, Header, PEER_V4, PEER_V6, SUBJECT_V4, SUBJECT_V6};

const LIMITS: Limits = Limits {
    tcp_sockets: 8,
    udp_sockets: 3,
    receive_buffer: 4096,
    send_buffer: 4096,
    datagrams: 3,
    packet_memory: 256 << 10,
};
/// The maximum number of steps.
const STEPS: usize = 64;

/// The rest of an input.
struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> u8 {
        match self.0.split_first() {
            Some((first, rest)) => {
                self.0 = rest;
                *first
            }
            None => 0,
        }
    }

    fn short(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    fn bytes(&mut self, size: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(size.min(self.0.len()));
        self.0 = rest;
        taken
    }
}

struct Scene<S> {
    stack: S,
    wire: Wire,
    now: Instant,
    listeners: Vec<SocketId>,
    tcp: VecDeque<SocketId>,
    udp: VecDeque<SocketId>,
}

/// Runs a script on a new stack.
pub fn run<S: Stack>(bytes: &[u8], make: impl FnOnce(Wire, &Config) -> S) {
    let mut input = Input(bytes);
    let how = input.byte();
    let wire = Wire::new(how & 1 != 0);
    let addresses = [
        Cidr::new(SUBJECT_V4.into(), 24),
        Cidr::new(SUBJECT_V6.into(), 64),
    ];
    let mut config = Config::new(&addresses, [7; 32]);
    config.limits = LIMITS;
    config.slaac = how & 2 != 0;
    let mut scene = Scene {
        stack: make(wire.clone(), &config),
        wire,
        now: Instant::ZERO,
        listeners: Vec::new(),
        tcp: VecDeque::new(),
        udp: VecDeque::new(),
    };
    scene.begin();
    for _ in 0..STEPS {
        if input.0.is_empty() {
            break;
        }
        scene.step(&mut input);
        scene.check();
    }
    scene.end();
}

fn address(v6: bool, peer: bool) -> IpAddr {
    match (v6, peer) {
        (false, false) => SUBJECT_V4.into(),
        (false, true) => PEER_V4.into(),
        (true, false) => SUBJECT_V6.into(),
        (true, true) => PEER_V6.into(),
    }
}

impl<S: Stack> Scene<S> {
    fn begin(&mut self) {
        for v6 in [false, true] {
            let id = self.stack.tcp_open().expect("the first sockets");
            let here = SocketAddr::new(address(v6, false), 80);
            self.stack.tcp_bind(id, here).expect("its own address");
            self.stack.tcp_listen(id, 3).expect("a listener");
            self.listeners.push(id);
        }
        let id = self.stack.udp_open().expect("the first sockets");
        let any = SocketAddr::new(address(false, false), 53);
        self.stack.udp_bind(id, any).expect("its own address");
        self.udp.push_back(id);
        self.pass(Duration::from_secs(5));
        for v6 in [false, true] {
            self.wire.arrive(&frames::greeting(v6), Checksum::Unknown);
            self.poll();
        }
    }

    fn poll(&mut self) {
        for _ in 0..8 {
            if !self.stack.poll(self.now) {
                break;
            }
        }
        self.events();
    }

    fn pass(&mut self, time: Duration) {
        self.now = self.now + time;
        self.poll();
    }

    /// The application: accepts connections and echoes data; a `q` closes the connection.
    fn events(&mut self) {
        let mut left = 200;
        while let Some((id, _)) = self.stack.next_event() {
            left -= 1;
            assert!(left > 0, "events without end");
            if self.listeners.contains(&id) {
                while let Ok((id, _)) = self.stack.tcp_accept(id) {
                    self.tcp.push_back(id);
                }
            } else if self.tcp.contains(&id) {
                self.echo(id);
            }
        }
    }

    fn echo(&mut self, id: SocketId) {
        let mut answer = Vec::new();
        let read = self.stack.tcp_receive(id, &mut |seen| {
            answer.extend_from_slice(&seen[..seen.len().min(64)]);
            answer.len()
        });
        if !answer.is_empty() {
            let _ = self.stack.tcp_send(id, &[b"> ", &answer]);
        }
        if read == Ok(0) || answer.contains(&b'q') {
            self.close(id);
        }
    }

    fn close(&mut self, id: SocketId) {
        self.tcp.retain(|other| *other != id);
        self.stack.tcp_close(id);
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.byte();
        match what % 8 {
            0 | 1 => self.segment(input, what & 8 != 0),
            2 => {
                let size = usize::from(input.short() % 1600);
                let frame = input.bytes(size).to_vec();
                self.wire.arrive(&frame, mark(what));
            }
            3 => self.packet(input, what),
            4 => self.pass(Duration::from_millis(1 << (input.byte() % 20))),
            5 | 6 => self.operate(input),
            _ => {
                let full = what & 8 != 0;
                self.wire.0.borrow_mut().full = full;
            }
        }
        if what & 0x80 == 0 {
            self.pass(Duration::from_millis(1));
        }
    }

    /// A segment that fits the connection, except for two changes and the flags.
    fn segment(&mut self, input: &mut Input<'_>, v6: bool) {
        let names = input.byte();
        let begun = self.wire.0.borrow().heard.begun;
        let name = match begun {
            Some(begun) if names & 0x80 != 0 => begun,
            _ => (
                v6,
                5000 + u16::from(names & 7),
                if names & 8 == 0 { 80 } else { 81 },
            ),
        };
        let (theirs, ours) = self.wire.0.borrow().heard.numbers(name);
        let flags = input.byte();
        let shift =
            |by: u8| (i32::from(by as i8) * if names & 0x10 == 0 { 1 } else { 1000 }) as u32;
        let sequence = ours.wrapping_add(shift(input.byte()));
        let acknowledged = theirs.wrapping_add(shift(input.byte()));
        let window = input.short();
        let sizes = input.byte();
        let options = input.bytes(usize::from(sizes & 7) * 4);
        let mut tcp = Vec::new();
        tcp.extend(name.1.to_be_bytes());
        tcp.extend(name.2.to_be_bytes());
        tcp.extend(sequence.to_be_bytes());
        tcp.extend(acknowledged.to_be_bytes());
        tcp.extend([0x50 + (options.len() as u8).div_ceil(4) * 16, flags]);
        tcp.extend(window.to_be_bytes());
        tcp.extend([0; 4]);
        tcp.extend(options);
        tcp.resize(tcp.len().next_multiple_of(4), 0);
        let size = usize::from(sizes >> 3) * 40;
        let payload = input.bytes(size.min(8));
        tcp.extend(payload);
        tcp.resize(tcp.len() + size.saturating_sub(8), b'.');
        frames::complete(name.0, 6, &mut tcp);
        let header = Header {
            middle: 0x4000,
            protocol: 6,
        };
        let frame = frames::ip(name.0, &header, &tcp);
        self.wire.arrive(&frame, Checksum::Unknown);
    }

    /// Any protocol over IP, with a valid or invalid checksum.
    fn packet(&mut self, input: &mut Input<'_>, what: u8) {
        let v6 = what & 8 != 0;
        let choice = input.byte();
        let protocol = match choice % 8 {
            0 | 1 => 17,
            2 | 3 => [1, 58][usize::from(v6)],
            4 => [6, 44][usize::from(v6)],
            5 => [1, 0][usize::from(v6)],
            6 => 60,
            _ => choice,
        };
        let middle = input.short();
        let size = usize::from(input.byte());
        let mut payload = input.bytes(size).to_vec();
        if protocol == 17 && payload.len() >= 8 && choice & 8 == 0 {
            payload[2..4].copy_from_slice(&[0, 53]);
            let size = payload.len() as u16;
            payload[4..6].copy_from_slice(&size.to_be_bytes());
        }
        if what & 16 == 0 {
            frames::complete(v6, protocol, &mut payload);
        }
        let frame = frames::ip(v6, &Header { middle, protocol }, &payload);
        self.wire.arrive(&frame, mark(what));
    }

    fn operate(&mut self, input: &mut Input<'_>) {
        let what = input.byte();
        let which = usize::from(what >> 4);
        let v6 = which & 1 != 0;
        let size = usize::from(input.byte());
        let tcp = self.tcp.get(which % self.tcp.len().max(1)).copied();
        let udp = self.udp.get(which % self.udp.len().max(1)).copied();
        let block = [b'#'; 255];
        match (what % 16, tcp, udp) {
            (0, _, _) => {
                if let Ok(id) = self.stack.tcp_open() {
                    let to = SocketAddr::new(address(v6, true), 7);
                    let _ = self.stack.tcp_connect(id, to);
                    self.tcp.push_back(id);
                }
            }
            (1, Some(id), _) => self.close(id),
            (2, Some(id), _) => {
                let last = if size % 2 == 0 { size } else { 0 };
                let parts = [&block[..size], &block[..size / 2], &block[..last]];
                if let Ok(sent) = self.stack.tcp_send(id, &parts) {
                    assert!(sent <= 2 * size + size / 2);
                }
            }
            (3, Some(id), _) => {
                let shared: swapstone_net::Shared = vec![b'='; size * 8].into();
                let _ = self.stack.tcp_send_shared(id, &shared, size..size * 8);
            }
            (4, Some(id), _) => {
                let halves = [Shutdown::Read, Shutdown::Write, Shutdown::Both];
                let _ = self.stack.tcp_shutdown(id, halves[size % 3]);
            }
            (5, Some(id), _) => self.echo(id),
            (6, Some(id), _) => {
                let time = Duration::from_millis(size as u64 * 10);
                let option = match size % 4 {
                    0 => TcpOption::NoDelay(size & 4 != 0),
                    1 => TcpOption::KeepAlive((size & 4 != 0).then_some(time)),
                    2 => TcpOption::Linger(Some(time)),
                    _ => TcpOption::Linger(Some(Duration::ZERO)),
                };
                let _ = self.stack.tcp_set(id, option);
            }
            (7, _, _) => {
                if let Ok(id) = self.stack.udp_open() {
                    let port = 53 + (size % 3) as u16;
                    let _ = (self.stack).udp_bind(id, SocketAddr::new(address(v6, false), port));
                    self.udp.push_back(id);
                }
            }
            (8, _, Some(id)) => {
                let to = SocketAddr::new(address(v6, true), 53);
                let _ = self.stack.udp_send(id, &[&block[..size]; 7], Some(to));
            }
            (9, _, Some(id)) => {
                let _ = self.stack.udp_receive(id, &mut |seen, _| {
                    assert!(seen.len() <= 65_507);
                    size & 1 == 0
                });
            }
            (10, _, Some(id)) => {
                self.udp.retain(|other| *other != id);
                self.stack.udp_close(id);
            }
            (11, Some(id), _) => {
                assert!(self.stack.tcp_peer(id).is_none_or(|peer| peer.port() != 0));
                let _ = self.stack.tcp_local(id);
            }
            _ => {}
        }
    }

    /// The invariants of each step.
    fn check(&mut self) {
        let counts = self.stack.statistics();
        let line = self.wire.0.borrow();
        assert!(
            counts.tcp_sockets <= LIMITS.tcp_sockets as u64,
            "{counts:?}"
        );
        assert!(counts.orphans <= counts.tcp_sockets, "{counts:?}");
        assert!(
            counts.udp_sockets <= LIMITS.udp_sockets as u64,
            "{counts:?}"
        );
        assert_eq!(counts.frames_in, line.taken);
        assert_eq!(counts.frames_out, line.sent);
        let open = self.tcp.len() + self.listeners.len();
        assert!(open as u64 <= counts.tcp_sockets, "{open}, {counts:?}");
        assert_eq!(self.udp.len() as u64, counts.udp_sockets);
    }

    /// All sockets are closed and timed out: nothing is held.
    fn end(mut self) {
        self.wire.clear();
        self.wire.0.borrow_mut().full = false;
        for id in self.tcp.drain(..).chain(self.listeners.drain(..)) {
            self.stack.tcp_close(id);
        }
        for id in self.udp.drain(..) {
            self.stack.udp_close(id);
        }
        for _ in 0..12 {
            if self.stack.statistics().tcp_sockets == 0 && self.wire.0.borrow().pool.in_use() == 0 {
                break;
            }
            self.pass(Duration::from_secs(100));
        }
        let counts = self.stack.statistics();
        assert_eq!((counts.tcp_sockets, counts.orphans), (0, 0), "after 1200 s");
        assert_eq!(self.wire.0.borrow().pool.in_use(), 0, "buffers are held");
    }
}

fn mark(what: u8) -> Checksum {
    match what >> 5 & 3 {
        0 | 1 => Checksum::Unknown,
        2 => Checksum::Verified,
        _ => Checksum::Partial,
    }
}
