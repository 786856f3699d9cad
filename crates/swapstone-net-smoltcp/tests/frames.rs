// SPDX-License-Identifier: MIT OR Apache-2.0
//! Processing of single frames, valid and invalid.

mod common;

use std::net::{IpAddr, Ipv6Addr};
use std::time::Duration;

use common::*;
use swapstone_net::device::{Checksum, Outgoing};
use swapstone_net::error::{BindError, Limit, OpenError, Resource, UdpRecvError, UdpSendError};
use swapstone_net::{Config, Device, Instant, Limits, Net, Readiness, Stack};
use swapstone_net_link::{Link, Options, Port, Random, Verdict};
use swapstone_net_smoltcp::{NewError, Smoltcp};

fn sum(bytes: &[u8]) -> u32 {
    bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum()
}

fn checksum(sum: u32) -> [u8; 2] {
    let once = (sum & 0xffff) + (sum >> 16);
    (!(((once & 0xffff) + (once >> 16)) as u16)).to_be_bytes()
}

/// An IPv4 packet from the client to the server in an Ethernet frame, with valid TCP and UDP
/// checksums.
fn v4(protocol: u8, mut above: Vec<u8>) -> Vec<u8> {
    let mut frame = [&SERVER[..], &CLIENT, &[8, 0]].concat();
    let length = (20 + above.len()) as u16;
    let mut ip = [[0x45, 0], length.to_be_bytes(), [0, 0], [0x40, 0]].concat();
    ip.extend([64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
    let header = checksum(sum(&ip));
    ip[10..12].copy_from_slice(&header);
    let at = match protocol {
        6 => 16,
        17 => 6,
        _ => 2,
    };
    above[at..at + 2].fill(0);
    let pseudo = if protocol == 1 {
        0
    } else {
        sum(&ip[12..20]) + u32::from(protocol) + above.len() as u32
    };
    let whole = checksum(sum(&above) + pseudo);
    above[at..at + 2].copy_from_slice(&whole);
    frame.extend(ip);
    frame.extend(above);
    frame
}

fn udp(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let length = (8 + payload.len()) as u16;
    let ports = [
        from.to_be_bytes(),
        to.to_be_bytes(),
        length.to_be_bytes(),
        [0, 0],
    ];
    v4(17, [&ports.concat()[..], payload].concat())
}

fn tcp(from: u16, to: u16, seq: u32, ack: u32, flags: u8) -> Vec<u8> {
    let mut header = [from.to_be_bytes(), to.to_be_bytes()].concat();
    header.extend(seq.to_be_bytes());
    header.extend(ack.to_be_bytes());
    header.extend([0x50, flags, 0xff, 0xff, 0, 0, 0, 0]);
    v4(6, header)
}

/// A stack, and the other port of its link.
struct Bench {
    link: Link,
    stack: Net<Smoltcp<Port>>,
    wire: Port,
}

fn bench(config: &Config) -> Bench {
    let link = Link::new(Options::default());
    let wire = link.port(CLIENT);
    let stack = host(&link, SERVER, config);
    Bench { link, stack, wire }
}

impl Bench {
    fn put(&mut self, frame: &[u8], mark: Checksum) {
        self.wire.transmit_as(frame, mark).unwrap();
        self.stack.poll();
    }

    /// The frames that the stack has sent, except ARP and router solicitations.
    fn sent(&mut self) -> Vec<Vec<u8>> {
        self.link
            .run_until(self.link.now() + Duration::from_millis(1));
        let mut all = Vec::new();
        while let Some(frame) = self.wire.receive() {
            all.push(frame.bytes.to_vec());
        }
        all
    }

    /// Lets the stack resolve the peer's Ethernet address.
    fn introduce(&mut self) {
        let mut arp = [&[255; 6][..], &CLIENT, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 1]].concat();
        arp.extend(CLIENT);
        arp.extend([10, 0, 0, 1, 0, 0, 0, 0, 0, 0, 10, 0, 0, 2]);
        self.put(&arp, Checksum::Unknown);
        assert_eq!(self.sent().len(), 1);
    }
}

#[test]
fn only_unknown_checksums_are_verified() {
    let mut bench = bench(&config(2, Limits::default()));
    let socket = bench.stack.udp().unwrap();
    socket.bind(at("0.0.0.0:7")).unwrap();
    socket.set_nonblocking(true);
    let mut frame = udp(9, 7, b"payload");
    bench.put(&frame, Checksum::Unknown);
    assert_eq!(socket.recv_from(&mut [0; 9]), Ok((7, at("10.0.0.1:9"))));
    frame[42] ^= 1;
    bench.put(&frame, Checksum::Unknown);
    assert_eq!(socket.recv_from(&mut [0; 9]), Err(UdpRecvError::WouldBlock));
    assert_eq!(count(&bench.stack).malformed, 1);
    for mark in [Checksum::Verified, Checksum::Partial] {
        bench.put(&frame, mark);
        assert_eq!(socket.recv_from(&mut [0; 9]), Ok((7, at("10.0.0.1:9"))));
    }
    // The IPv4 header checksum is always verified.
    frame[22] ^= 1;
    bench.put(&frame, Checksum::Verified);
    assert_eq!(count(&bench.stack).malformed, 2);
}

#[test]
fn a_syn_with_a_wrong_checksum_is_dropped() {
    let mut bench = bench(&config(2, Limits::default()));
    bench.introduce();
    let socket = bench.stack.tcp().unwrap();
    socket.bind(at("0.0.0.0:80")).unwrap();
    socket.listen(1).unwrap();
    let good = tcp(9, 80, 100, 0, 2);
    let mut bad = good.clone();
    bad[51] ^= 0x40;
    bench.put(&bad, Checksum::Unknown);
    assert_eq!(bench.sent(), Vec::<Vec<u8>>::new());
    bench.put(&good, Checksum::Unknown);
    let answers = bench.sent();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0][47], 0x12);
    assert_eq!(answers[0][42..46], 101u32.to_be_bytes());
}

#[test]
fn an_echo_request_gets_a_reply() {
    let mut bench = bench(&config(2, Limits::default()));
    bench.introduce();
    let ping = v4(1, vec![8, 0, 0, 0, 1, 2, 3, 4, 5, 6]);
    bench.put(&ping, Checksum::Unknown);
    let answers = bench.sent();
    assert_eq!(answers.len(), 1);
    assert_eq!(answers[0][34], 0);
    assert_eq!(answers[0][38..44], ping[38..44]);
}

#[test]
fn closed_ports_respond_with_rst_and_icmp() {
    let mut bench = bench(&config(2, Limits::default()));
    bench.introduce();
    bench.put(&tcp(9, 81, 100, 0, 2), Checksum::Unknown);
    bench.put(&tcp(9, 81, 100, 77, 0x10), Checksum::Unknown);
    bench.put(&tcp(9, 81, 100, 0, 4), Checksum::Unknown);
    let answers = bench.sent();
    assert_eq!(
        answers.iter().map(|frame| frame[47]).collect::<Vec<_>>(),
        [0x14, 4]
    );
    assert_eq!(answers[1][38..42], 77u32.to_be_bytes());
    bench.put(&udp(9, 7, b"x"), Checksum::Unknown);
    let answers = bench.sent();
    assert_eq!(answers[0][34..36], [3, 3]);
}

#[test]
fn datagrams_are_peeked_at_and_filtered() {
    let world = world();
    let server = world.server.udp().unwrap();
    server.bind(at("0.0.0.0:7")).unwrap();
    let client = world.client.udp().unwrap();
    client.send_to(b"question", at("10.0.0.2:7")).unwrap();
    let mut buffer = [0; 4];
    let (size, sender) = server.peek_from(&mut buffer).unwrap();
    assert_eq!((size, &buffer), (8, b"ques"));
    assert_eq!(server.recv_from(&mut buffer).unwrap(), (size, sender));
    assert_eq!(sender.ip(), IpAddr::from([10, 0, 0, 1]));
    assert_eq!(sender.port(), client.local_addr().unwrap().port());

    let stranger = world.client.udp().unwrap();
    client.connect(at("10.0.0.2:7")).unwrap();
    client.set_nonblocking(true);
    server.send_to(b"answer", sender).unwrap();
    let other = world.server.udp().unwrap();
    other.bind(at("10.0.0.2:8")).unwrap();
    other.send_to(b"intruder", sender).unwrap();
    world.millis(10);
    assert_eq!(client.recv_from(&mut [0; 9]), Ok((6, at("10.0.0.2:7"))));
    assert_eq!(client.recv_from(&mut [0; 9]), Err(UdpRecvError::WouldBlock));
    assert_eq!(stranger.bind(at("9.9.9.9:1")), Err(BindError::NotLocal));
    assert_eq!(stranger.bind(sender), Err(BindError::InUse));
    assert_eq!(stranger.send(b"x"), Err(UdpSendError::NoPeer));
    assert_eq!(client.send_parts(&[b"a", b"bc"], None), Ok(()));
    assert_eq!(server.recv_from(&mut [0; 9]).unwrap().0, 3);
    assert_eq!(client.send(b""), Ok(()));
    assert_eq!(server.recv_from(&mut [0; 9]).unwrap().0, 0);
}

#[test]
fn a_reached_limit_is_named() {
    let limits = Limits {
        tcp_sockets: 2,
        udp_sockets: 1,
        datagrams: 3,
        ..Limits::default()
    };
    let world = world_with(Options::default(), limits);
    let open = (world.client.tcp().unwrap(), world.client.tcp().unwrap());
    let limit = |of, most| Limit { of, most };
    let error = OpenError::Limit(limit(Resource::TcpSockets, 2));
    assert_eq!(world.client.tcp().unwrap_err(), error);
    drop(open);
    let udp = world.client.udp().unwrap();
    udp.set_nonblocking(true);
    let error = OpenError::Limit(limit(Resource::UdpSockets, 1));
    assert_eq!(world.client.udp().unwrap_err(), error);
    let large = UdpSendError::Limit(limit(Resource::DatagramBytes, 1472));
    assert_eq!(udp.send_to(&[0; 1473], at("10.0.0.2:7")), Err(large));
    let large = UdpSendError::Limit(limit(Resource::DatagramBytes, 1452));
    assert_eq!(udp.send_to(&[0; 1453], at("[fd00::2]:7")), Err(large));
    assert_eq!(
        udp.send_to(b"x", at("8.8.8.8:7")),
        Err(UdpSendError::Unreachable)
    );
    for _ in 0..3 {
        assert_eq!(udp.send_to(&[0; 1472], at("10.0.0.2:7")), Ok(()));
    }
    assert_eq!(
        udp.send_to(b"x", at("10.0.0.2:7")),
        Err(UdpSendError::WouldBlock)
    );
    assert!(!udp.readiness().contains(Readiness::WRITABLE));
    let server = world.server.udp().unwrap();
    server.bind(at("0.0.0.0:7")).unwrap();
    for _ in 0..3 {
        world.millis(20);
        let _ = udp.send_to(&[0; 1472], at("10.0.0.2:7"));
    }
    world.millis(20);
    assert_eq!(count(&world.server).no_room, 3);
    for _ in 0..3 {
        assert_eq!(server.recv_from(&mut [0; 2000]).unwrap().0, 1472);
    }
}

#[test]
fn a_datagram_to_an_unresolved_neighbor_is_dropped_in_time() {
    let world = world();
    let server = world.server.udp().unwrap();
    server.bind(at("[fd00::2]:7")).unwrap();
    server.set_nonblocking(true);
    let client = world.client.udp().unwrap();
    client.bind(at("[::]:5")).unwrap();
    client.send_to(b"lost", at("[fd00::9]:7")).unwrap();
    client.send_to(b"found", at("[fd00::2]:7")).unwrap();
    world.run(Duration::from_secs(6));
    let mut buffer = [0; 8];
    assert_eq!(server.recv_from(&mut buffer), Ok((5, at("[fd00::1]:5"))));
    client.send_to(b"lost", at("10.0.0.9:7")).unwrap();
    client.send_to(b"again", at("[fd00::2]:7")).unwrap();
    world.run(Duration::from_secs(6));
    assert_eq!(server.recv_from(&mut buffer), Ok((5, at("[fd00::1]:5"))));
}

#[test]
fn addresses_are_configured_by_advertisements() {
    let mut config = Config::new(&[], [9; 32]);
    config.slaac = true;
    let mut bench = bench(&config);
    bench.stack.poll();
    let asked = bench.sent();
    assert!(
        asked
            .iter()
            .any(|frame| frame[20] == 58 && frame[54] == 133)
    );
    let router: Ipv6Addr = "fe80::1".parse().unwrap();
    let all: Ipv6Addr = "ff02::1".parse().unwrap();
    let mut icmp = vec![134, 0, 0, 0, 64, 0, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0];
    icmp.extend([3, 4, 64, 0xc0, 0, 0, 14, 16, 0, 0, 7, 8, 0, 0, 0, 0]);
    icmp.extend("2001:db8::".parse::<Ipv6Addr>().unwrap().octets());
    let pseudo = sum(&router.octets()) + sum(&all.octets()) + icmp.len() as u32 + 58;
    let whole = checksum(sum(&icmp) + pseudo);
    icmp[2..4].copy_from_slice(&whole);
    let mut frame = [
        &[0x33, 0x33, 0, 0, 0, 1][..],
        &CLIENT,
        &[0x86, 0xdd, 0x60, 0, 0, 0],
    ]
    .concat();
    frame.extend((icmp.len() as u16).to_be_bytes());
    frame.extend([58, 255]);
    frame.extend(router.octets());
    frame.extend(all.octets());
    frame.extend(icmp);
    bench.put(&frame, Checksum::Unknown);
    bench.stack.poll();
    let has = |bench: &Bench| {
        let list = bench.stack.with(|stack| stack.addresses());
        list.iter()
            .any(|own| own.address == "2001:db8::ff:fe00:2".parse::<IpAddr>().unwrap())
    };
    assert!(has(&bench));
    // Deadlines of connections are independent of the router's, and there is a default route.
    let socket = bench.stack.tcp().unwrap();
    socket.set_nonblocking(true);
    let _ = socket.connect(at("[2001:db8:1::1]:80"));
    bench.stack.poll();
    let due = bench
        .stack
        .with(|stack| stack.deadline(Instant::ZERO))
        .unwrap();
    assert!(
        due.since(bench.link.now()) <= Duration::from_secs(1),
        "{due:?}"
    );
    bench
        .link
        .run_until(bench.link.now() + Duration::from_secs(3601));
    bench.stack.poll();
    assert!(!has(&bench));
}

#[test]
fn unsupported_configurations_are_errors() {
    let make =
        |config: &Config| Smoltcp::new(Link::new(Options::default()).port(CLIENT), config).err();
    let cidr = |last: u8| swapstone_net::Cidr::new([10, 0, 0, last].into(), 24);
    let many: Vec<_> = (1..9).map(cidr).collect();
    assert_eq!(make(&Config::new(&many[..7], [0; 32])), None);
    assert_eq!(
        make(&Config::new(&many, [0; 32])),
        Some(NewError::TooManyAddresses(7))
    );
    let multicast = swapstone_net::Cidr::new([224, 0, 0, 1].into(), 24);
    assert_eq!(
        make(&Config::new(&[multicast], [0; 32])),
        Some(NewError::NotUnicast)
    );
    let mut config = Config::new(&[], [0; 32]);
    config.limits.send_buffer = 0;
    assert_eq!(make(&config), Some(NewError::Buffers(1 << 30)));
}

#[test]
fn sequence_numbers_and_ports_depend_on_the_seed() {
    let first_syn = |seed: u8| {
        let link = Link::new(Options::default());
        let mut own = config(1, Limits::default());
        own.seed = [seed; 32];
        let client = host(&link, CLIENT, &own);
        let _server = host(&link, SERVER, &config(2, Limits::default()));
        let syns = std::rc::Rc::new(std::cell::RefCell::new(Vec::new()));
        let list = std::rc::Rc::clone(&syns);
        link.set_filter(0, move |_, frame| {
            if frame[12..14] == [8, 0] && frame[23] == 6 {
                list.borrow_mut().push(frame[34..42].to_vec());
            }
            Verdict::Pass
        });
        for _ in 0..3 {
            let socket = client.tcp().unwrap();
            socket.connect(at("10.0.0.2:80")).unwrap_err();
        }
        syns.take()
    };
    let (one, same, other) = (first_syn(1), first_syn(1), first_syn(2));
    assert_eq!(one.len(), 3);
    assert_eq!(one, same);
    assert!(
        one.iter()
            .zip(&other)
            .all(|(one, other)| one[..2] != other[..2] && one[4..] != other[4..])
    );
}

#[test]
fn mutated_frames_are_survived() {
    let mut bench = bench(&config(2, Limits::default()));
    bench.introduce();
    let listener = bench.stack.tcp().unwrap();
    listener.bind(at("0.0.0.0:80")).unwrap();
    listener.listen(4).unwrap();
    listener.set_nonblocking(true);
    let datagrams = bench.stack.udp().unwrap();
    datagrams.bind(at("0.0.0.0:7")).unwrap();
    let client = bench.stack.tcp().unwrap();
    client.set_nonblocking(true);
    let _ = client.connect(at("10.0.0.1:80"));
    let mut random = Random::new(2026);
    let mut pick = move |most: usize| random.bits() as usize % most;
    let mut accepted = Vec::new();
    let mut corpus = vec![
        udp(9, 7, b"payload"),
        v4(1, vec![8, 0, 0, 0, 1, 2, 3, 4, 5, 6]),
        v4(
            1,
            [&[3, 1, 0, 0, 0, 0, 0, 0][..], &tcp(80, 9, 5, 5, 2)[14..]].concat(),
        ),
        [
            &SERVER[..],
            &CLIENT,
            &[0x86, 0xdd, 0x60, 0, 0, 0, 0, 4, 58, 255],
            &[0; 40],
        ]
        .concat(),
        [&[255; 6][..], &CLIENT, &[8, 6], &[0; 28]].concat(),
    ];
    for round in 0..200_000u32 {
        // Mutated frames of the stack itself reach established connections.
        while let Some(frame) = bench.wire.receive() {
            if frame.bytes.len() >= 54 && frame.bytes[23] == 6 {
                let tcp = &frame.bytes[34..];
                let word = |at: usize| u32::from_be_bytes(tcp[at..at + 4].try_into().unwrap());
                let half = |at: usize| u16::from_be_bytes(tcp[at..at + 2].try_into().unwrap());
                let flags = [0x10, 0x11, 0x12, 0x14, 0x18][pick(5)];
                let next = self::tcp(half(2), half(0), word(8), word(4).wrapping_add(1), flags);
                if corpus.len() < 60 {
                    corpus.push(next);
                } else {
                    let at = 5 + pick(55);
                    corpus[at] = next;
                }
            }
        }
        let mut frame = match pick(10) {
            0 => (0..pick(200)).map(|_| pick(256) as u8).collect(),
            1 => tcp(pick(50) as u16 + 1, 80, pick(99) as u32, 0, 2),
            _ => corpus[pick(corpus.len())].clone(),
        };
        for _ in 0..pick(3) {
            match pick(3) {
                0 if !frame.is_empty() => {
                    let at = pick(frame.len());
                    frame[at] = pick(256) as u8;
                }
                1 => frame.truncate(pick(frame.len() + 1)),
                _ => frame.extend((0..pick(40)).map(|_| pick(256) as u8)),
            }
        }
        let parts = [&frame[..]];
        let outgoing = Outgoing {
            parts: &parts,
            partial: None,
            segmentation: None,
        };
        // Most would fail the checksum, so half of them are marked as verified.
        if pick(2) == 0 {
            let _ = bench.wire.transmit(outgoing);
        } else {
            let _ = bench.wire.transmit_as(&frame, Checksum::Verified);
        }
        bench.stack.poll();
        if let Ok((socket, _)) = listener.accept() {
            socket.set_nonblocking(true);
            accepted.push(socket);
        }
        if let Some(socket) = accepted.get(pick(9)) {
            let _ = socket.recv(&mut [0; 100]);
            let _ = socket.send(&[7; 100]);
        }
        if accepted.len() > 8 {
            accepted.swap_remove(pick(9));
        }
        if round % 64 == 0 {
            let later = bench.link.now() + Duration::from_millis(pick(2000) as u64);
            bench.link.run_until(later);
        }
    }
    let counts = count(&bench.stack);
    assert!(counts.malformed > 10_000, "{counts:?}");
    assert!(!accepted.is_empty());
    assert!(counts.tcp_sockets < 200, "{counts:?}");
    bench.put(
        &v4(1, vec![8, 0, 0, 0, 1, 2, 3, 4, 5, 6]),
        Checksum::Unknown,
    );
    assert!(bench.sent().iter().any(|frame| frame[23] == 1));
}
