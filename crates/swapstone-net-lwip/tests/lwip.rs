// SPDX-License-Identifier: MIT OR Apache-2.0
//! Tests of lwIP only. Those of all stacks are in `swapstone-net-testkit`.

mod hand;

use std::cell::RefCell;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use swapstone_net::device::{Checksum, Device, DeviceLimits, Frame, Full, Outgoing};
use swapstone_net::{Cidr, Config, Net, Shared, Stack, TcpStack as _};
use swapstone_net_link::{Link, Options};
use swapstone_net_lwip::{Lwip, NewError};
use swapstone_net_smoltcp::Smoltcp;

use hand::{ACK, FIN, Hand, PEER, SUBJECT, SYN};

/// A process can have one lwIP, and tests run as threads.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn config(address: [u8; 4]) -> Config {
    Config::new(&[Cidr::new(address.into(), 16)], [7; 32])
}

/// The frames that a device has sent.
#[derive(Default)]
struct Seen {
    shared: Range<usize>,
    from_shared: usize,
    largest: usize,
    cuts: Vec<(u16, u16)>,
    complete: usize,
}

struct Watch<D>(D, Rc<RefCell<Seen>>);

impl<D: Device> Device for Watch<D> {
    fn limits(&self) -> DeviceLimits {
        self.0.limits()
    }

    fn receive(&mut self) -> Option<Frame> {
        self.0.receive()
    }

    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
        let mut seen = self.1.borrow_mut();
        for part in frame.parts {
            if seen.shared.contains(&(part.as_ptr() as usize)) {
                seen.from_shared += part.len();
            }
        }
        seen.largest = seen.largest.max(frame.len());
        if let Some(cut) = frame.segmentation {
            seen.cuts.push((cut.size, cut.headers));
        }
        let tcp = frame.parts[0].len() > 23
            && frame.parts[0][12..14] == [8, 0]
            && frame.parts[0][23] == 6;
        seen.complete += usize::from(tcp && frame.partial.is_none());
        drop(seen);
        self.0.transmit(frame)
    }
}

type Both = (
    Net<Lwip<Watch<swapstone_net_link::Port>>>,
    Net<Smoltcp<swapstone_net_link::Port>>,
    Link,
    Rc<RefCell<Seen>>,
);

/// lwIP and smoltcp on a link.
fn both(options: Options) -> Both {
    let link = Link::new(options);
    let seen = Rc::new(RefCell::new(Seen::default()));
    let port = Watch(link.port([2, 0, 0, 0, 0, 1]), seen.clone());
    let mut here = config(SUBJECT);
    here.limits.send_buffer = 512 << 10;
    here.limits.receive_buffer = 256 << 10;
    let subject = Net::new(Lwip::new(port, &here).unwrap(), link.time(0));
    let mut there = config(PEER);
    there.limits = here.limits;
    let other = Smoltcp::new(link.port([2, 0, 0, 0, 0, 2]), &there).unwrap();
    let other = Net::new(other, link.time(1));
    link.attach(0, subject.clone());
    link.attach(1, other.clone());
    (subject, other, link, seen)
}

/// Sends `bytes` from lwIP to smoltcp or back, and checks that they arrive.
fn bulk(both: &Both, to_lwip: bool, bytes: &Shared) {
    let (subject, other, link, _) = both;
    let at = SocketAddr::from((if to_lwip { SUBJECT } else { PEER }, 80));
    let listener = if to_lwip {
        Err(subject.tcp().unwrap())
    } else {
        Ok(other.tcp().unwrap())
    };
    let mut received = Vec::new();
    let mut buffer = vec![0; 1 << 16];
    macro_rules! go {
        ($listener:expr, $sender:expr) => {{
            let listener = $listener;
            listener.bind(at).unwrap();
            listener.listen(1).unwrap();
            let sender = $sender.tcp().unwrap();
            sender.connect(at).unwrap();
            let (receiver, _) = listener.accept().unwrap();
            sender.set_nonblocking(true);
            receiver.set_nonblocking(true);
            let mut sent = 0;
            while received.len() < bytes.len() {
                if sent < bytes.len() {
                    sent += sender.send_shared(bytes, sent..bytes.len()).unwrap_or(0);
                }
                while let Ok(size) = receiver.recv(&mut buffer) {
                    assert!(size > 0);
                    received.extend_from_slice(&buffer[..size]);
                }
                link.run_until(link.now() + Duration::from_millis(1));
                assert!(
                    link.now().millis() < 100_000,
                    "{} of {} bytes",
                    received.len(),
                    bytes.len()
                );
            }
        }};
    }
    match listener {
        Err(listener) => go!(listener, other),
        Ok(listener) => go!(listener, subject),
    }
    assert!(received[..] == bytes[..]);
}

fn pattern(size: usize) -> Shared {
    (0..size).map(|at| (at * 31 + at / 251) as u8).collect()
}

#[test]
fn a_process_has_one_instance_at_a_time() {
    let _alone = alone();
    for _ in 0..3 {
        let first = both(Options::default());
        let link = Link::new(Options::default());
        let second = Lwip::new(link.port([2, 0, 0, 0, 0, 9]), &config(SUBJECT));
        assert_eq!(second.err(), Some(NewError::Exists));
        assert!(NewError::Exists.to_string().contains("global variables"));
        bulk(&first, true, &pattern(50_000));
        // The endpoints hold the link, and it holds them.
        first.2.detach(0);
        first.2.detach(1);
    }
}

#[test]
fn unsupported_configurations_are_errors() {
    let _alone = alone();
    let link = Link::new(Options::default());
    let new = |config: &Config| Lwip::new(link.port([2, 0, 0, 0, 0, 9]), config).err();
    let mut two = config(SUBJECT);
    two.addresses.push(Cidr::new(PEER.into(), 16));
    assert_eq!(new(&two), Some(NewError::ManyIpv4));
    let mut odd = config(SUBJECT);
    odd.addresses
        .push(Cidr::new("2001:db8::1".parse().unwrap(), 60));
    assert_eq!(new(&odd), Some(NewError::Prefix));
    let mut none = config(SUBJECT);
    none.limits.tcp_sockets = 0;
    assert_eq!(new(&none), Some(NewError::Limits));
}

#[test]
fn large_segments_are_sent_to_the_device_without_a_copy() {
    let _alone = alone();
    let all = both(Options {
        partial_checksums: true,
        segments: 65_000,
        ..Options::default()
    });
    let bytes = pattern(2_000_000);
    let at = bytes.as_ptr() as usize;
    all.3.borrow_mut().shared = at..at + bytes.len();
    bulk(&all, false, &bytes);
    let seen = all.3.borrow();
    assert!(
        seen.largest > 10_000 && seen.largest <= 60_014,
        "{}",
        seen.largest
    );
    assert!(!seen.cuts.is_empty());
    assert!(
        seen.cuts.iter().all(|cut| *cut == (1448, 66)),
        "{:?}",
        seen.cuts
    );
    assert_eq!(
        seen.complete, 0,
        "every checksum of TCP is left to the device"
    );
    assert_eq!(
        seen.from_shared,
        bytes.len(),
        "each byte left once, from where it was"
    );
    drop(seen);
    assert_eq!(
        Rc::strong_count(&bytes),
        1 + usize::from(all.0.with(|stack| Stack::statistics(stack).orphans) > 0)
    );
    all.2.detach(0);
    all.2.detach(1);
}

#[test]
fn without_offload_frames_fit_the_mtu_and_have_checksums() {
    let _alone = alone();
    let all = both(Options::default());
    bulk(&all, false, &pattern(500_000));
    let seen = all.3.borrow();
    assert_eq!((seen.largest, seen.cuts.len()), (1514, 0));
    assert!(seen.complete > 300);
    drop(seen);
    all.2.detach(0);
    all.2.detach(1);
}

#[test]
fn large_segments_are_received() {
    let _alone = alone();
    let all = both(Options {
        partial_checksums: true,
        segments: 65_000,
        ..Options::default()
    });
    bulk(&all, true, &pattern(2_000_000));
    all.2.detach(0);
    all.2.detach(1);
}

#[test]
fn a_merged_segment_of_64_kib_is_taken_whole_and_acknowledged_at_once() {
    let _alone = alone();
    let mut hand = Hand::new(&config(SUBJECT));
    let listener = hand.listen(80, 4);
    hand.segment(5000, 80, 1000, 0, SYN, &[]);
    let first = hand.sequence() + 1;
    hand.segment(5000, 80, 1001, first, ACK, &[]);
    let (id, _) = hand.stack.tcp_accept(listener).unwrap();
    let bytes = pattern(65_535 - 40);
    hand.wire.borrow_mut().sent.clear();
    hand.segment(5000, 80, 1001, first, ACK, &bytes);
    let taken = hand.stack.tcp_receive(id, &mut |seen| {
        assert_eq!(seen, &bytes[..]);
        seen.len()
    });
    assert_eq!(taken, Ok(bytes.len()));
    let sent = hand.wire.borrow();
    let acknowledged = sent
        .sent
        .iter()
        .any(|frame| frame[42..46] == (1001 + bytes.len() as u32).to_be_bytes());
    assert!(acknowledged, "{} frames", sent.sent.len());
}

#[test]
fn lookup_among_ten_thousand_connections_is_constant() {
    let _alone = alone();
    let mut config = config(SUBJECT);
    config.limits.tcp_sockets = 10_001;
    let mut hand = Hand::new(&config);
    let listener = hand.listen(80, 4);
    let mut sockets = Vec::new();
    let mut firsts = Vec::new();
    for port in 0..10_000_u16 {
        hand.segment(10_000 + port, 80, 1000, 0, SYN, &[]);
        let first = hand.sequence() + 1;
        hand.segment(10_000 + port, 80, 1001, first, ACK, &[]);
        sockets.push(hand.stack.tcp_accept(listener).unwrap().0);
        firsts.push(first);
        hand.wire.borrow_mut().sent.clear();
    }
    assert_eq!(hand.stack.statistics().tcp_sockets, 10_001);
    assert!(hand.stack.tcp_open().is_err());
    let before = hand.stack.counts().found_first;
    // In an order unrelated to that of their creation.
    for step in 0..10_000_usize {
        let which = step * 7919 % 10_000;
        hand.segment(10_000 + which as u16, 80, 1001, firsts[which], ACK, b"x");
        assert_eq!(
            hand.stack
                .tcp_receive(sockets[which], &mut |seen| seen.len()),
            Ok(1)
        );
        hand.wire.borrow_mut().sent.clear();
    }
    assert_eq!(hand.stack.counts().found_first - before, 10_000);
    for id in sockets {
        hand.stack.tcp_close(id);
    }
}

#[test]
fn a_response_and_the_fin_share_a_frame_of_the_next_poll() {
    let _alone = alone();
    let mut hand = Hand::new(&config(SUBJECT));
    let listener = hand.listen(80, 4);
    let mut sizes = Vec::new();
    for (port, close) in [(5000, true), (5001, false)] {
        hand.wire.borrow_mut().sent.clear();
        hand.segment(port, 80, 1000, 0, SYN, &[]);
        let first = hand.sequence() + 1;
        hand.segment(port, 80, 1001, first, ACK, b"request");
        let (id, _) = hand.stack.tcp_accept(listener).unwrap();
        assert_eq!(hand.stack.tcp_receive(id, &mut |seen| seen.len()), Ok(7));
        assert_eq!(hand.stack.tcp_send(id, &[b"ans"]), Ok(3));
        assert_eq!(hand.stack.tcp_send(id, &[b"wer"]), Ok(3));
        assert_eq!(hand.wire.borrow().sent.len(), 1, "the SYN's answer only");
        if close {
            hand.stack.tcp_close(id);
        } else {
            assert_eq!(hand.stack.deadline(hand.now), Some(hand.now));
            hand.stack.poll(hand.now);
            assert_ne!(hand.stack.deadline(hand.now), Some(hand.now));
        }
        let wire = hand.wire.borrow();
        sizes.push(wire.sent[1..].iter().map(Vec::len).collect::<Vec<_>>());
        let last = wire.sent.last().unwrap();
        assert_eq!(last[47] & FIN != 0, close);
        assert_eq!(&last[54..60], b"answer");
    }
    assert_eq!(sizes, [[60], [60]]);
}

/// Up to ten thousand connections, one of which has a request in each millisecond.
fn requests_among(connections: u16) -> (Duration, u64) {
    let mut config = config(SUBJECT);
    config.limits.tcp_sockets = 10_001;
    let mut hand = Hand::new(&config);
    let listener = hand.listen(80, 4);
    let mut all = Vec::new();
    for port in 0..connections {
        hand.segment(10_000 + port, 80, 1000, 0, SYN, &[]);
        let first = hand.sequence() + 1;
        hand.segment(10_000 + port, 80, 1001, first, ACK, &[]);
        all.push((hand.stack.tcp_accept(listener).unwrap().0, 1001, first));
        hand.wire.borrow_mut().sent.clear();
    }
    hand.now = hand.now + Duration::from_secs(1);
    hand.stack.poll(hand.now);
    let (begun, before) = (
        std::time::Instant::now(),
        hand.stack.counts().timers_visited,
    );
    for step in 0..20_000 {
        let at = step * 7919 % all.len();
        let (id, theirs, ours) = all[at];
        let port = 10_000 + at as u16;
        hand.segment(port, 80, theirs, ours, ACK, b"request");
        assert_eq!(hand.stack.tcp_receive(id, &mut |seen| seen.len()), Ok(7));
        assert_eq!(hand.stack.tcp_send(id, &[b"answer"]), Ok(6));
        hand.stack.poll(hand.now);
        hand.segment(port, 80, theirs + 7, ours + 6, ACK, &[]);
        all[at] = (id, theirs + 7, ours + 6);
        hand.wire.borrow_mut().sent.clear();
        hand.now = hand.now + Duration::from_millis(1);
    }
    (begun.elapsed(), hand.stack.counts().timers_visited - before)
}

#[test]
fn timers_examine_busy_connections_only() {
    let _alone = alone();
    let (few, visited_few) = requests_among(100);
    let (many, visited_many) = requests_among(10_000);
    println!("{few:?} among 100, {many:?} among 10 000; visited {visited_few} and {visited_many}");
    // 400 ticks in 20 s, with the 50 connections that were used since the last tick.
    assert!(
        visited_few > 400 && visited_few <= 400 * 101,
        "{visited_few}"
    );
    assert!(
        visited_many > 400 && visited_many <= 400 * 101,
        "{visited_many}"
    );
}

#[test]
fn time_wait_and_memory_stay_bounded() {
    let _alone = alone();
    let mut config = config(SUBJECT);
    config.limits.tcp_sockets = 16;
    let mut hand = Hand::new(&config);
    let listener = hand.listen(80, 4);
    // Memory in use rises and falls as TIME_WAIT grows and is limited. Allocated memory does so
    // only in a build that frees each block at once.
    let mut most = 0;
    for round in 0..3000_u32 {
        let port = 2000 + round as u16;
        hand.segment(port, 80, 1000, 0, SYN, &[]);
        let first = hand.sequence() + 1;
        hand.segment(port, 80, 1001, first, ACK, b"request");
        let (id, _) = hand.stack.tcp_accept(listener).unwrap();
        assert_eq!(hand.stack.tcp_receive(id, &mut |seen| seen.len()), Ok(7));
        assert_eq!(hand.stack.tcp_send(id, &[b"answer"]), Ok(6));
        hand.stack.tcp_close(id);
        hand.segment(port, 80, 1008, first + 7, ACK | FIN, &[]);
        let counts = hand.stack.counts();
        assert_eq!((counts.tcp, counts.orphans), (1, 0), "round {round}");
        assert!((1..=16).contains(&counts.waiting));
        hand.wire.borrow_mut().sent.clear();
        if round <= 100 {
            most = most.max(counts.memory_taken);
        }
        assert!(
            counts.memory_taken <= most,
            "round {round}: {} bytes, never more than {most} before",
            counts.memory_taken
        );
    }
    if !cfg!(feature = "address-sanitizer") {
        assert_eq!(hand.stack.counts().memory_taken, most);
    }
}

#[test]
fn truncated_headers_are_counted_and_not_read() {
    let _alone = alone();
    let mut hand = Hand::new(&config(SUBJECT));
    let mut short = 0;
    // Of each kind, all lengths up to that of a header. Each frame ends at the end of its buffer,
    // so that AddressSanitizer detects reads beyond it.
    for (kind, header) in [([8, 0], 20), ([8, 6], 28), ([0x86, 0xdd], 40)] {
        for first in [0x45, 0x4f, 0x60, 0] {
            for length in 0..14 + header {
                let mut frame = vec![0; length];
                for (at, byte) in [2, 0, 0, 0, 0, 1].into_iter().enumerate() {
                    frame.get_mut(at).into_iter().for_each(|to| *to = byte);
                }
                for (at, byte) in kind.into_iter().chain([first]).enumerate() {
                    frame.get_mut(12 + at).into_iter().for_each(|to| *to = byte);
                }
                hand.give(&frame, Checksum::Unknown);
                short += 1;
                assert_eq!(
                    hand.stack.statistics().malformed,
                    short,
                    "{kind:?}, {length} bytes"
                );
            }
        }
    }
    assert_eq!(hand.stack.counts().held, 0);
}

#[test]
fn extension_headers_of_ipv6_that_end_too_early_are_counted_and_never_read() {
    let _alone = alone();
    let mut hand = Hand::new(&config(SUBJECT));
    let mut packet = |next: u8, rest: &[u8]| {
        let mut frame = vec![
            2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd, 0x60, 0, 0, 0,
        ];
        frame.extend((rest.len() as u16).to_be_bytes());
        frame.extend([
            next, 64, 0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2,
        ]);
        // The link-local address.
        frame.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1]);
        frame.extend(rest);
        let before = hand.stack.statistics().malformed;
        hand.give(&frame, Checksum::Unknown);
        hand.stack.statistics().malformed - before
    };
    let none = 59;
    for kind in [0, 60, 43, 44] {
        for length in 0..8 {
            assert_eq!(
                packet(kind, &[none; 8][..length]),
                1,
                "{kind}, {length} bytes"
            );
        }
    }
    for kind in [0, 60] {
        assert_eq!(packet(kind, &[none, 0, 1, 4, 0, 0, 0, 0]), 0);
        assert_eq!(
            packet(kind, &[none, 1, 1, 4, 0, 0, 0, 0]),
            1,
            "16 bytes of 8"
        );
        assert_eq!(packet(kind, &[none, 0, 1, 3, 0, 0, 0, 1]), 1, "no length");
        assert_eq!(
            packet(kind, &[none, 0, 1, 5, 0, 0, 0, 0]),
            1,
            "a byte too long"
        );
        // In the first of several fragments, and in a later one.
        let first = |more: &[u8]| [&[kind, 0, 0, 1, 0, 0, 0, 9], more].concat();
        assert_eq!(packet(44, &first(&[none, 0, 1, 4, 0, 0, 0, 0])), 0);
        assert_eq!(packet(44, &first(&[])), 1);
        assert_eq!(
            packet(44, &[kind, 0, 0, 8, 0, 0, 0, 9, 1]),
            0,
            "a later fragment"
        );
    }
}

#[test]
fn a_tcp_option_without_its_length_is_counted() {
    let _alone = alone();
    let mut hand = Hand::new(&config(SUBJECT));
    hand.listen(80, 4);
    for (options, malformed) in [([1, 1, 1, 2], 1), ([1, 1, 1, 1], 0), ([0, 0, 0, 2], 0)] {
        let mut frame = hand::tcp(5000, 80, 1000, 0, SYN, &options);
        frame[46] = 0x60;
        let before = hand.stack.statistics().malformed;
        hand.give(&frame, Checksum::Verified);
        assert_eq!(
            hand.stack.statistics().malformed - before,
            malformed,
            "{options:?}"
        );
    }
}

#[test]
fn two_hundred_thousand_random_frames() {
    let _alone = alone();
    let mut config = config(SUBJECT);
    config
        .addresses
        .push(Cidr::new("2001:db8::1".parse().unwrap(), 64));
    config.slaac = true;
    config.limits.tcp_sockets = 64;
    let mut hand = Hand::new(&config);
    let listener = hand.listen(80, 4);
    hand.fuzz(200_000, listener);
    hand.wire.borrow_mut().inbox.clear();
    // Its connections time out, and the stack works as before.
    hand.now = hand.now + Duration::from_secs(1000);
    hand.stack.poll(hand.now);
    while let Ok((id, _)) = hand.stack.tcp_accept(listener) {
        hand.stack.tcp_close(id);
    }
    hand.greet();
    hand.wire.borrow_mut().sent.clear();
    hand.segment(999, 80, 1000, 0, SYN, &[]);
    let first = hand.sequence() + 1;
    hand.segment(999, 80, 1001, first, ACK, b"hello");
    let (id, _) = hand.stack.tcp_accept(listener).unwrap();
    assert_eq!(hand.stack.tcp_receive(id, &mut |seen| seen.len()), Ok(5));
    assert!(hand.stack.counts().held < 1000);
}
