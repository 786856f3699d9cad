// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;
use crate::endpoint::Endpoint;
use crate::path::Queue;
use alloc::vec;
use core::time::Duration;
use swapstone_net::Platform;
use swapstone_net::device::{PartialChecksum, Segmentation};

const A: HardwareAddress = [2, 0, 0, 0, 0, 1];
const B: HardwareAddress = [2, 0, 0, 0, 0, 2];
const C: HardwareAddress = [2, 0, 0, 0, 0, 3];

fn plain<'a>(parts: &'a [&'a [u8]]) -> Outgoing<'a> {
    Outgoing {
        parts,
        partial: None,
        segmentation: None,
    }
}

fn pair(path: Path, seed: u64) -> (Link, Port, Port) {
    let link = Link::new(Options {
        seed,
        ..Options::default()
    });
    let (left, right) = (link.port(A), link.port(B));
    link.set_path(left.id(), path);
    (link, left, right)
}

/// An IP frame of `size` bytes that starts with `number`'s place in the payload.
fn numbered(number: u32, size: usize) -> Vec<u8> {
    let mut frame = vec![0; size];
    frame[12..14].copy_from_slice(&[0x08, 0x00]);
    frame[14..18].copy_from_slice(&number.to_be_bytes());
    frame
}

fn number(frame: &[u8]) -> u32 {
    u32::from_be_bytes(frame[14..18].try_into().unwrap())
}

/// Everything that arrives in the next second: when, and its bytes.
fn arrivals(link: &Link, port: &mut Port) -> Vec<(u64, Vec<u8>)> {
    let mut time = link.time(port.id());
    let end = link.now() + Duration::from_secs(1);
    let mut all = Vec::new();
    while link.now() < end {
        time.wait(Some(end));
        while let Some(frame) = port.receive() {
            all.push((link.now().micros(), frame.bytes.to_vec()));
        }
    }
    all
}

#[test]
fn a_perfect_wire_delivers_at_once_and_in_order() {
    let (_link, mut left, mut right) = pair(Path::default(), 1);
    for part in [b"1", b"2", b"3"] {
        left.transmit(plain(&[part, b"x"])).unwrap();
    }
    let got: Vec<_> = core::iter::from_fn(|| right.receive())
        .map(|frame| frame.bytes.to_vec())
        .collect();
    assert_eq!(got, [b"1x", b"2x", b"3x"]);
    assert!(left.receive().is_none());
}

#[test]
fn bandwidth_and_delay_add_up() {
    let path = Path {
        bandwidth: 1_000_000_000,
        delay: Duration::from_millis(5),
        ..Path::default()
    };
    let (link, mut left, mut right) = pair(path, 1);
    for count in 0..3 {
        left.transmit(plain(&[&numbered(count, 1514)])).unwrap();
    }
    let times: Vec<_> = arrivals(&link, &mut right)
        .iter()
        .map(|(when, _)| *when)
        .collect();
    // 1514 bytes take 12.112 us.
    assert_eq!(times, [5013, 5025, 5037]);
}

#[test]
fn the_other_direction_is_its_own() {
    let path = Path {
        delay: Duration::from_millis(5),
        ..Path::default()
    };
    let (_, mut left, mut right) = pair(path, 1);
    right.transmit(plain(&[b"quick"])).unwrap();
    assert_eq!(&*left.receive().unwrap().bytes, b"quick");
}

#[test]
fn a_full_queue_drops_or_refuses() {
    let mut path = Path {
        bandwidth: 8_000_000,
        queue: Queue {
            frames: 2,
            ..Queue::default()
        },
        ..Path::default()
    };
    let (link, mut left, mut right) = pair(path, 1);
    for count in 0..3 {
        left.transmit(plain(&[&numbered(count, 100)])).unwrap();
    }
    assert_eq!(link.counters(0).dropped, 1);
    let got = arrivals(&link, &mut right);
    let got: Vec<_> = got
        .iter()
        .map(|(when, bytes)| (*when, number(bytes)))
        .collect();
    assert_eq!(got, [(100, 0), (200, 1)]);

    path.queue.when_full = WhenFull::Refuse;
    path.queue.frames = 10;
    path.queue.bytes = 250;
    link.set_path(0, path);
    let frame = numbered(0, 100);
    assert_eq!(left.transmit(plain(&[&frame])), Ok(()));
    assert_eq!(left.transmit(plain(&[&frame])), Ok(()));
    assert_eq!(left.transmit(plain(&[&frame])), Err(Full));
    assert_eq!(link.counters(0).refused, 1);
    link.run_until(link.now() + Duration::from_micros(100));
    assert_eq!(left.transmit(plain(&[&frame])), Ok(()));
}

#[test]
fn chance_strikes_as_often_as_told() {
    let path = Path {
        delay: Duration::from_millis(1),
        loss_ppm: 100_000,
        duplicate_ppm: 50_000,
        corrupt_ppm: 20_000,
        reorder_ppm: 30_000,
        reorder_by: Duration::from_millis(3),
        ..Path::default()
    };
    let (link, mut left, mut right) = pair(path, 7);
    let mut seen = 0;
    for count in 0..10_000 {
        left.transmit(plain(&[&numbered(count, 60)])).unwrap();
        link.run_until(link.now() + Duration::from_micros(10));
        while right.receive().is_some() {
            seen += 1;
        }
    }
    seen += arrivals(&link, &mut right).len() as u64;
    let counters = link.counters(0);
    assert_eq!(counters.sent, 10_000);
    assert_eq!(counters.bytes, 600_000);
    assert_eq!(counters.delivered, seen);
    assert_eq!(seen, 10_000 - counters.lost + counters.duplicated);
    assert!((900..1100).contains(&counters.lost), "{counters:?}");
    assert!((380..520).contains(&counters.duplicated), "{counters:?}");
    assert!((140..220).contains(&counters.corrupted), "{counters:?}");
    assert!((220..320).contains(&counters.reordered), "{counters:?}");
    assert_eq!(link.in_use(), 0);
}

#[test]
fn one_bit_is_flipped_and_only_of_ip_packets_with_checksums() {
    let path = Path {
        corrupt_ppm: 1_000_000,
        ..Path::default()
    };
    let (link, mut left, mut right) = pair(path, 3);
    let frame = numbered(0, 64);
    left.transmit(plain(&[&frame])).unwrap();
    let got = right.receive().unwrap().bytes;
    let pairs = got.iter().zip(&frame);
    let wrong: u32 = pairs.map(|(got, sent)| (got ^ sent).count_ones()).sum();
    assert_eq!(wrong, 1);
    assert_eq!(got[..14], frame[..14]);

    let mut arp = frame.clone();
    arp[13] = 0x06;
    left.transmit(plain(&[&arp])).unwrap();
    assert_eq!(*right.receive().unwrap().bytes, *arp);
    left.transmit_as(&frame, Checksum::Partial).unwrap();
    assert_eq!(*right.receive().unwrap().bytes, *frame);
    assert_eq!(link.counters(0).corrupted, 1);
}

#[test]
fn jitter_keeps_the_order_and_reordering_does_not() {
    let mut path = Path {
        delay: Duration::from_millis(1),
        jitter: Duration::from_millis(2),
        ..Path::default()
    };
    let (link, mut left, mut right) = pair(path, 5);
    let mut order = |path| {
        link.set_path(0, path);
        for count in 0..50 {
            left.transmit(plain(&[&numbered(count, 60)])).unwrap();
            link.run_until(link.now() + Duration::from_micros(100));
        }
        let got = arrivals(&link, &mut right);
        got.iter()
            .map(|(_, bytes)| number(bytes))
            .collect::<Vec<_>>()
    };
    let sorted: Vec<_> = (0..50).collect();
    assert_eq!(order(path), sorted);
    path.jitter = Duration::ZERO;
    path.reorder_ppm = 100_000;
    path.reorder_by = Duration::from_millis(1);
    let mut mixed = order(path);
    assert_ne!(mixed, sorted);
    mixed.sort_unstable();
    assert_eq!(mixed, sorted);
}

#[test]
fn the_digest_tells_runs_apart() {
    let run = |seed, size| {
        let path = Path {
            loss_ppm: 100_000,
            ..Path::default()
        };
        let (link, mut left, mut right) = pair(path, seed);
        for count in 0..100 {
            left.transmit(plain(&[&numbered(count, size)])).unwrap();
            // What is received decides what is sent, so that chance shows in the frames.
            while right.receive().is_some() {
                right.transmit(plain(&[b"seen"])).unwrap();
            }
            while left.receive().is_some() {}
        }
        link.digest()
    };
    assert_eq!(run(1, 60), run(1, 60));
    assert_ne!(run(1, 60), run(2, 60));
    assert_ne!(run(1, 60), run(1, 61));
}

#[test]
fn the_digest_has_the_time() {
    let run = |wait| {
        let (link, mut left, _right) = pair(Path::default(), 1);
        link.run_until(Instant::from_micros(wait));
        left.transmit(plain(&[b"x"])).unwrap();
        link.digest()
    };
    assert_ne!(run(1), run(2));
}

#[test]
fn filters_and_the_mtu_drop() {
    let (link, mut left, mut right) = pair(Path::default(), 1);
    link.set_filter(0, |_, bytes| match bytes {
        b"bad" => Verdict::Drop,
        _ => Verdict::Pass,
    });
    left.transmit(plain(&[b"bad"])).unwrap();
    left.transmit(plain(&[&[0; 1515]])).unwrap();
    left.transmit(plain(&[&[1; 1514]])).unwrap();
    assert_eq!(*right.receive().unwrap().bytes, [1; 1514]);
    assert!(right.receive().is_none());
    let counters = link.counters(0);
    assert_eq!((counters.filtered, counters.oversized), (1, 1));
}

#[test]
fn three_ports_are_a_switch() {
    let link = Link::new(Options::default());
    let (mut a, mut b, mut c) = (link.port(A), link.port(B), link.port(C));
    let mut frame = [0; 60];
    frame[..6].copy_from_slice(&C);
    a.transmit(plain(&[&frame])).unwrap();
    assert!(b.receive().is_none());
    assert_eq!(*c.receive().unwrap().bytes, frame);
    frame[..6].copy_from_slice(&[0xff; 6]);
    b.transmit(plain(&[&frame])).unwrap();
    assert_eq!(*a.receive().unwrap().bytes, frame);
    assert_eq!(*c.receive().unwrap().bytes, frame);
    assert!(b.receive().is_none());
    frame[..6].copy_from_slice(&B);
    b.transmit(plain(&[&frame])).unwrap();
    assert!(a.receive().is_none() && b.receive().is_none());
}

#[test]
fn offloads_arrive_marked() {
    let link = Link::new(Options {
        partial_checksums: true,
        segments: 60_000,
        ..Options::default()
    });
    let (mut left, mut right) = (link.port(A), link.port(B));
    let limits = left.limits();
    assert!(limits.checksum_offload);
    assert_eq!((limits.mtu, limits.largest_received), (1500, 60_000));
    let partial = Some(PartialChecksum {
        start: 34,
        offset: 16,
    });
    let outgoing = Outgoing {
        parts: &[&[7; 5000]],
        partial,
        segmentation: Some(Segmentation {
            size: 1460,
            headers: 54,
            ipv6: false,
        }),
    };
    left.transmit(outgoing).unwrap();
    let frame = right.receive().unwrap();
    assert_eq!((frame.bytes.len(), frame.segment), (5000, Some(1460)));
    assert_eq!(frame.checksum, Checksum::Partial);
}

#[test]
fn memory_is_bounded_and_comes_back() {
    let link = Link::new(Options {
        frames: 2,
        ..Options::default()
    });
    let (mut left, mut right) = (link.port(A), link.port(B));
    left.transmit(plain(&[b"1"])).unwrap();
    left.transmit(plain(&[b"2"])).unwrap();
    assert_eq!(left.transmit(plain(&[b"3"])), Err(Full));
    let held = right.receive();
    assert_eq!(left.transmit(plain(&[b"3"])), Err(Full));
    drop(held);
    assert_eq!(left.transmit(plain(&[b"3"])), Ok(()));
    assert_eq!(link.in_use(), 2);
}

#[test]
fn captures_are_pcap_files() {
    let (link, mut left, _right) = pair(Path::default(), 1);
    let file = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&file);
    link.capture(move |bytes| sink.borrow_mut().extend_from_slice(bytes));
    link.run_until(Instant::from_micros(1_000_002));
    left.transmit(plain(&[b"ab", b"c"])).unwrap();
    let file = file.borrow();
    assert_eq!(file[..24], pcap::HEADER);
    assert_eq!(
        file[24..40],
        [1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0]
    );
    assert_eq!(&file[40..], b"abc");
}

/// Sends every frame back, `pause` after it came.
struct Echo {
    port: Port,
    pause: Duration,
    held: Option<(Instant, Frame)>,
}

impl Endpoint for Echo {
    fn advance(&mut self, now: Instant) -> bool {
        if self.held.as_ref().is_some_and(|(due, _)| *due > now) {
            return false;
        }
        if let Some((_, frame)) = self.held.take() {
            self.port.transmit(plain(&[&frame.bytes])).unwrap();
        }
        self.held = self.port.receive().map(|frame| (now + self.pause, frame));
        self.held.is_some()
    }

    fn deadline(&mut self, _: Instant) -> Option<Instant> {
        self.held.as_ref().map(|(due, _)| *due)
    }
}

#[test]
fn others_act_while_one_waits() {
    let path = Path {
        delay: Duration::from_millis(10),
        ..Path::default()
    };
    let (link, mut left, right) = pair(path, 1);
    link.set_paths(path);
    let echo = Echo {
        port: right,
        pause: Duration::from_millis(3),
        held: None,
    };
    link.attach(1, echo);
    let mut time = link.time(0);
    left.transmit(plain(&[b"there and back"])).unwrap();
    time.wait(None);
    assert_eq!(time.now().micros(), 23_000);
    assert_eq!(&*left.receive().unwrap().bytes, b"there and back");
    time.wait(Some(Instant::from_micros(30_000)));
    assert_eq!(time.now().micros(), 30_000);
    link.detach(1);
    assert_eq!(Rc::strong_count(&link.shared), 3);
}

#[test]
#[should_panic(expected = "no event is pending")]
fn a_deadlock_panics() {
    let (link, _left, _right) = pair(Path::default(), 1);
    link.time(0).wait(None);
}
