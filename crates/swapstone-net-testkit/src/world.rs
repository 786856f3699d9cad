// SPDX-License-Identifier: MIT OR Apache-2.0
//! The stack under test and a peer that sends hand-made packets.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use swapstone_net::device::{Checksum, Device};
use swapstone_net::{Config, Instant, Net, Platform, Stack};
use swapstone_net_link::{Link, Options, Path, Port, VirtualTime};

pub use crate::addresses::{PEER_MAC, PEER_V4, PEER_V6, SUBJECT_MAC, SUBJECT_V4, SUBJECT_V6};
use crate::context::{Context, Family};
use crate::watched::{Seen, Watched, WatchedPort};
use crate::wire::{Arp, Body, Icmp, Ip, Packet, Tcp, Transport, Udp};

/// The propagation delay.
pub const DELAY: Duration = Duration::from_millis(1);
/// How long a test waits for a packet in virtual time.
pub const PATIENCE: Duration = Duration::from_secs(10);

/// The stack under test on one port of a link, and the hand-made peer on the other.
pub struct World {
    /// The link.
    pub link: Link,
    /// The stack under test.
    pub net: Net<Watched>,
    /// Observations of its device.
    pub seen: Rc<RefCell<Seen>>,
    /// The IP version.
    pub family: Family,
    /// Whether the peer responds to ARP requests and neighbor solicitations for all addresses
    /// except the subject's.
    pub resolves: bool,
    /// Addresses for which it never responds.
    pub absent: Vec<IpAddr>,
    /// Received packets that were not read yet. ARP and neighbor discovery are left out while
    /// `resolves` is set.
    pub inbox: VecDeque<Packet>,
    port: Port,
    time: VirtualTime,
}

impl std::fmt::Debug for World {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            out,
            "World({:?}, {} in the inbox)",
            self.net,
            self.inbox.len()
        )
    }
}

impl Context {
    /// Creates a stack with the default configuration, and a peer.
    pub fn world(&self) -> World {
        self.world_with(&self.config(), Options::default())
    }

    /// Creates a stack with this configuration on a link with these options, and a peer. Duplicate
    /// address detection has finished.
    pub fn world_with(&self, config: &Config, options: Options) -> World {
        let link = Link::new(options);
        let device = WatchedPort::new(link.port(SUBJECT_MAC));
        let port = link.port(PEER_MAC);
        link.set_paths(Path {
            delay: DELAY,
            ..Path::default()
        });
        let seen = device.seen();
        let stack = match (self.backend.make)(device, config, self.fixes) {
            Ok(stack) => stack,
            Err(reason) => self.unavailable(&reason),
        };
        let net = Net::new(Watched::new(stack, true), link.time(0));
        link.attach(0, net.clone());
        let mut world = World {
            time: link.time(port.id()),
            link,
            net,
            seen,
            family: self.family,
            resolves: true,
            absent: Vec::new(),
            inbox: VecDeque::new(),
            port,
        };
        // Duplicate address detection.
        world.run(Duration::from_secs(5));
        world.inbox.clear();
        world
    }
}

impl World {
    /// Returns the address of the stack under test.
    pub fn subject(&self) -> IpAddr {
        match self.family {
            Family::V4 => SUBJECT_V4.into(),
            Family::V6 => SUBJECT_V6.into(),
        }
    }

    /// Returns the peer's address.
    pub fn peer(&self) -> IpAddr {
        match self.family {
            Family::V4 => PEER_V4.into(),
            Family::V6 => PEER_V6.into(),
        }
    }

    /// Returns an address and port of the stack under test.
    pub fn at_subject(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.subject(), port)
    }

    /// Returns an address and port of the peer.
    pub fn at_peer(&self, port: u16) -> SocketAddr {
        SocketAddr::new(self.peer(), port)
    }

    /// Returns the current time.
    pub fn now(&self) -> Instant {
        self.link.now()
    }

    /// Encodes a frame from peer to subject.
    pub fn frame(&self, transport: Transport) -> Vec<u8> {
        self.packet(transport).bytes()
    }

    /// Returns a packet from peer to subject.
    pub fn packet(&self, transport: Transport) -> Packet {
        Packet {
            to: SUBJECT_MAC,
            from: PEER_MAC,
            body: Body::Ip(Ip {
                source: self.peer(),
                destination: self.subject(),
                hops: 64,
                transport,
            }),
        }
    }

    /// Sends a frame.
    pub fn inject(&mut self, frame: &[u8]) {
        self.inject_as(frame, Checksum::Unknown);
    }

    /// Sends a frame that arrives with this checksum state.
    pub fn inject_as(&mut self, frame: &[u8], mark: Checksum) {
        let sent = self.port.transmit_as(frame, mark);
        sent.expect("the link has room");
    }

    /// Sends a TCP segment from peer to subject.
    pub fn send_tcp(&mut self, tcp: Tcp) {
        let frame = self.frame(Transport::Tcp(tcp));
        self.inject(&frame);
    }

    /// Sends a UDP datagram from peer to subject.
    pub fn send_udp(&mut self, source: u16, destination: u16, payload: &[u8]) {
        let frame = self.frame(Transport::Udp(Udp {
            source,
            destination,
            payload: payload.into(),
        }));
        self.inject(&frame);
    }

    /// Advances time while the peer receives.
    pub fn run(&mut self, duration: Duration) {
        let until = self.now() + duration;
        while self.now() < until {
            self.turn(until);
        }
    }

    /// Advances time until a frame arrives at the peer, at most to `until`.
    fn turn(&mut self, until: Instant) {
        self.time.wait(Some(until));
        while let Some(frame) = self.port.receive() {
            let partial = frame.checksum != Checksum::Unknown;
            match Packet::parse(&frame.bytes, partial) {
                Ok(packet) => self.sort(packet),
                Err(wrong) => panic!(
                    "the stack sent a wrong frame: {wrong}: {:02x?}",
                    &*frame.bytes
                ),
            }
        }
    }

    fn sort(&mut self, packet: Packet) {
        if self.resolves {
            let wanted = wanted(&packet);
            if wanted.is_some_and(|address| self.absent.contains(&address)) {
                return;
            }
            if let Some(answer) = resolve(&packet) {
                self.inject(&answer.bytes());
                return;
            }
            if is_discovery(&packet) {
                return;
            }
        }
        self.inbox.push_back(packet);
    }

    /// Returns the next packet that `pick` accepts; earlier packets are discarded.
    pub fn find<T>(
        &mut self,
        patience: Duration,
        mut pick: impl FnMut(&Packet) -> Option<T>,
    ) -> Option<T> {
        let until = self.now() + patience;
        loop {
            while let Some(packet) = self.inbox.pop_front() {
                if let Some(found) = pick(&packet) {
                    return Some(found);
                }
            }
            if self.now() >= until {
                return None;
            }
            self.turn(until);
        }
    }

    /// As [`World::find`], within the default time. Panics if no packet arrives.
    #[track_caller]
    pub fn expect<T>(&mut self, what: &str, pick: impl FnMut(&Packet) -> Option<T>) -> T {
        let found = self.find(PATIENCE, pick);
        match found {
            Some(found) => found,
            None => panic!("{what} did not come"),
        }
    }

    /// Returns the next TCP segment for which `like` is `true`.
    #[track_caller]
    pub fn expect_tcp(&mut self, what: &str, mut like: impl FnMut(&Tcp) -> bool) -> Tcp {
        self.expect(what, |packet| packet.tcp().filter(|tcp| like(tcp)).cloned())
    }

    /// Returns the next UDP datagram.
    #[track_caller]
    pub fn expect_udp(&mut self) -> Udp {
        self.expect("a datagram", |packet| packet.udp().cloned())
    }

    /// Advances time and panics if such a TCP segment arrives. All packets are discarded.
    #[track_caller]
    pub fn never_tcp(
        &mut self,
        duration: Duration,
        what: &str,
        mut like: impl FnMut(&Tcp) -> bool,
    ) {
        let found = self.find(duration, |packet| {
            packet.tcp().filter(|tcp| like(tcp)).cloned()
        });
        assert_eq!(found, None, "{what}");
    }

    /// Advances time until `attempt` returns a value, within the default time.
    #[track_caller]
    pub fn eventually<T>(&mut self, what: &str, mut attempt: impl FnMut() -> Option<T>) -> T {
        let until = self.now() + PATIENCE;
        loop {
            if let Some(result) = attempt() {
                return result;
            }
            assert!(self.now() < until, "{what}: not within {PATIENCE:?}");
            self.run(Duration::from_millis(1));
        }
    }

    /// Returns the counters of the stack.
    pub fn statistics(&self) -> swapstone_net::Statistics {
        self.net.with(|stack| stack.statistics())
    }
}

/// Returns the address that an ARP request or neighbor solicitation is for.
fn wanted(packet: &Packet) -> Option<IpAddr> {
    match &packet.body {
        Body::Arp(arp) => Some(arp.target.1.into()),
        Body::Ip(_) => {
            let icmp = packet.icmp().filter(|icmp| icmp.kind == 135)?;
            let target: [u8; 16] = icmp.body.get(4..20)?.try_into().ok()?;
            Some(target.into())
        }
    }
}

/// Responds to a request for an address of the peer, or of any host but the subject.
pub fn resolve(packet: &Packet) -> Option<Packet> {
    match &packet.body {
        Body::Arp(arp) if arp.operation == 1 && arp.target.1 != SUBJECT_V4 => Some(Packet {
            to: packet.from,
            from: PEER_MAC,
            body: Body::Arp(Arp {
                operation: 2,
                sender: (PEER_MAC, arp.target.1),
                target: arp.sender,
            }),
        }),
        Body::Ip(ip) => {
            let icmp = packet.icmp()?;
            // An unspecified source: duplicate address detection, without a duplicate.
            if icmp.kind != 135 || ip.source.is_unspecified() {
                return None;
            }
            let target: [u8; 16] = icmp.body.get(4..20)?.try_into().ok()?;
            let mut body = vec![0x60, 0, 0, 0];
            body.extend(target);
            body.extend([2, 1]);
            body.extend(PEER_MAC);
            Some(Packet {
                to: packet.from,
                from: PEER_MAC,
                body: Body::Ip(Ip {
                    source: Ipv6Addr::from(target).into(),
                    destination: ip.source,
                    hops: 255,
                    transport: Transport::Icmp(Icmp {
                        kind: 136,
                        code: 0,
                        body,
                    }),
                }),
            })
        }
        Body::Arp(_) => None,
    }
}

/// Returns whether a packet is ARP, neighbor or router discovery, or a multicast report.
pub fn is_discovery(packet: &Packet) -> bool {
    match &packet.body {
        Body::Arp(_) => true,
        Body::Ip(ip) => match &ip.transport {
            Transport::Icmp(icmp) => ip.source.is_ipv6() && matches!(icmp.kind, 130..=137 | 143),
            Transport::Other(protocol, _) => *protocol == 2,
            _ => false,
        },
    }
}
