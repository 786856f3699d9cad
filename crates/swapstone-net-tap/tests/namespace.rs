// SPDX-License-Identifier: MIT OR Apache-2.0
//! Real TAPs, in a network namespace of the test's own thread. Two of them are ports of a bridge: what one sends the other receives.

use std::io::ErrorKind;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::thread::{UnshareFlags, unshare_unsafe};
use swapstone_net::Platform;
use swapstone_net::device::{
    Checksum, Device, Frame, Full, Outgoing, PartialChecksum, Segmentation,
};
use swapstone_net_tap::{Settings, Tap, TapPlatform};

const ETHERNET: usize = 14;
const IP: usize = 20;
const TCP: usize = 20;
const HEADERS: usize = ETHERNET + IP + TCP;

/// Move this thread to a new namespace; `false`, and why on standard error, if it may not.
fn alone() -> bool {
    // SAFETY: only this thread's network namespace changes; no open file is closed or shared otherwise.
    if let Err(error) = unsafe { unshare_unsafe(UnshareFlags::NEWNET) } {
        eprintln!("skipped: no network namespace of its own ({error}); this test has to be root");
        return false;
    }
    if !std::path::Path::new("/dev/net/tun").exists() {
        eprintln!("skipped: there is no /dev/net/tun");
        return false;
    }
    true
}

fn ip(arguments: &str) {
    let done = Command::new("ip").args(arguments.split(' ')).status();
    assert!(done.unwrap().success(), "ip {arguments}");
}

/// Open two TAPs whose interfaces are on one bridge.
fn bridged(left: bool, right: bool) -> (Tap, Tap) {
    // A new interface sends IPv6 frames at once, which the tests would mistake for their own.
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    ip("link add bridge0 type bridge");
    ip("link set bridge0 up");
    let [left, right] = [("left", left), ("right", right)].map(|(name, offload)| {
        let settings = Settings {
            offload,
            ..Settings::new(name)
        };
        let tap = Tap::open(&settings).unwrap();
        ip(&format!("link set {name} master bridge0"));
        ip(&format!("link set {name} up"));
        tap
    });
    (left, right)
}

/// How many frames the kernel has handed to a TAP's owner, multicast ones of its own among them.
fn handed_over(name: &str) -> u64 {
    let table = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    let row = table
        .lines()
        .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':'));
    // Eight columns of what the interface received, then packets sent is the second of the other eight.
    row.unwrap()
        .split_whitespace()
        .nth(9)
        .unwrap()
        .parse()
        .unwrap()
}

/// Receive as many frames as are expected, for a few seconds at most.
fn frames(tap: &mut Tap, count: usize) -> Vec<Frame> {
    let mut platform = TapPlatform::new(tap).unwrap();
    let end = Instant::now() + Duration::from_secs(5);
    let mut frames = Vec::new();
    while frames.len() < count && Instant::now() < end {
        match tap.receive() {
            // The kernel also sends IGMP and MLD on a bridge; no test uses it.
            Some(frame) if frame.bytes.first().is_some_and(|first| first & 1 == 1) => {}
            Some(frame) => frames.push(frame),
            None => {
                let until = platform.now() + Duration::from_millis(100);
                platform.wait(Some(until));
            }
        }
    }
    assert_eq!(frames.len(), count);
    frames
}

/// The Internet checksum's sum (RFC 1071), not complemented.
fn sum(bytes: &[u8], mut total: u32) -> u32 {
    for pair in bytes.chunks(2) {
        total += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
        total = (total & 0xffff) + (total >> 16);
    }
    total
}

fn pseudo(packet: &[u8]) -> u32 {
    sum(&packet[12..20], 6 + (packet.len() - IP) as u32)
}

/// Whether the TCP checksum of a whole frame is right.
fn is_right(frame: &[u8]) -> bool {
    let length = usize::from(u16::from_be_bytes([frame[16], frame[17]]));
    let packet = &frame[ETHERNET..ETHERNET + length];
    sum(&packet[IP..], pseudo(packet)) == 0xffff
}

/// A TCP segment of so many bytes of payload, with the pseudo-header's sum in its checksum.
fn segment(payload: usize) -> Vec<u8> {
    let mut frame = vec![0; HEADERS + payload];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 9]);
    frame[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 8]);
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&((IP + TCP + payload) as u16).to_be_bytes());
    frame[22] = 64;
    frame[23] = 6;
    frame[26..34].copy_from_slice(&[192, 0, 2, 1, 192, 0, 2, 2]);
    let header = !(sum(&frame[ETHERNET..ETHERNET + IP], 0) as u16);
    frame[24..26].copy_from_slice(&header.to_be_bytes());
    frame[34..38].copy_from_slice(&[0x30, 0x39, 0, 80]);
    frame[38..42].copy_from_slice(&1000u32.to_be_bytes());
    frame[46] = 5 << 4;
    frame[47] = 0x10;
    frame[48..50].copy_from_slice(&[1, 0]);
    for (index, byte) in frame[HEADERS..].iter_mut().enumerate() {
        *byte = (index % 251) as u8;
    }
    let partial = pseudo(&frame[ETHERNET..]) as u16;
    frame[50..52].copy_from_slice(&partial.to_be_bytes());
    frame
}

const PARTIAL: Option<PartialChecksum> = Some(PartialChecksum {
    start: 34,
    offset: 16,
});

fn large(parts: &[&[u8]]) -> Result<(usize, Option<u16>), Full> {
    // Sends from left to right, both with offload, and returns what arrived.
    let (mut left, mut right) = bridged(true, true);
    left.transmit(Outgoing {
        parts,
        partial: PARTIAL,
        segmentation: Some(Segmentation {
            size: 1460,
            headers: HEADERS as u16,
            ipv6: false,
        }),
    })?;
    let frame = frames(&mut right, 1).remove(0);
    assert_eq!(frame.checksum, Checksum::Partial);
    assert_eq!(&*frame.bytes, parts.concat());
    Ok((frame.bytes.len(), frame.segment))
}

#[test]
fn a_large_segment_crosses_whole_if_both_sides_have_offload() {
    if !alone() {
        return;
    }
    let whole = segment(60_000);
    let (head, body) = whole.split_at(HEADERS);
    assert_eq!(
        large(&[head, &body[..7], &body[7..]]),
        Ok((HEADERS + 60_000, Some(1460)))
    );
}

#[test]
fn many_parts_are_one_frame() {
    if !alone() {
        return;
    }
    let whole = segment(4000);
    let parts: Vec<&[u8]> = whole.chunks(40).collect();
    assert!(parts.len() > 64);
    assert_eq!(large(&parts), Ok((HEADERS + 4000, Some(1460))));
}

#[test]
fn the_kernel_cuts_and_completes_for_a_side_without_offload() {
    if !alone() {
        return;
    }
    let (mut left, mut right) = bridged(true, false);
    assert_eq!(right.limits().segments, 0);
    assert!(!right.limits().checksum_offload);
    let whole = segment(3000);
    left.transmit(Outgoing {
        parts: &[&whole],
        partial: PARTIAL,
        segmentation: Some(Segmentation {
            size: 1460,
            headers: HEADERS as u16,
            ipv6: false,
        }),
    })
    .unwrap();
    let arrived = frames(&mut right, 3);
    let sizes: Vec<usize> = arrived.iter().map(|frame| frame.bytes.len()).collect();
    assert_eq!(sizes, [HEADERS + 1460, HEADERS + 1460, HEADERS + 80]);
    let mut payload = Vec::new();
    for frame in &arrived {
        assert_eq!(frame.checksum, Checksum::Unknown);
        assert_eq!(frame.segment, None);
        assert!(is_right(&frame.bytes));
        payload.extend_from_slice(&frame.bytes[HEADERS..]);
    }
    assert_eq!(payload, &whole[HEADERS..]);
}

#[test]
fn without_offload_frames_pass_as_they_are() {
    if !alone() {
        return;
    }
    let (mut left, mut right) = bridged(false, true);
    let mut whole = segment(100);
    assert!(!is_right(&whole), "the checksum is not complete yet");
    whole[50..52].fill(0);
    let complete = !(sum(&whole[34..], pseudo(&whole[ETHERNET..])) as u16);
    whole[50..52].copy_from_slice(&complete.to_be_bytes());
    let plain = Outgoing {
        parts: &[&whole],
        partial: None,
        segmentation: None,
    };
    left.transmit(plain).unwrap();
    let frame = frames(&mut right, 1).remove(0);
    assert_eq!(frame.checksum, Checksum::Unknown);
    assert!(is_right(&frame.bytes));
    assert_eq!(&*frame.bytes, whole);
    right.transmit(plain).unwrap();
    assert_eq!(&*frames(&mut left, 1)[0].bytes, whole);
}

#[test]
fn held_frames_are_bounded_and_the_rest_is_dropped_and_counted() {
    if !alone() {
        return;
    }
    std::fs::write("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1").unwrap();
    ip("link add bridge0 type bridge");
    ip("link set bridge0 up");
    let mut taps: Vec<Tap> = Vec::new();
    for name in ["left", "right"] {
        let settings = Settings {
            frames: 32, // 4 large ones, 3 of them to be held, and 32 small ones
            ..Settings::new(name)
        };
        taps.push(Tap::open(&settings).unwrap());
        ip(&format!("link set {name} master bridge0"));
        ip(&format!("link set {name} up"));
    }
    let whole = segment(10);
    for _ in 0..50 {
        let frame = Outgoing {
            parts: &[&whole],
            partial: PARTIAL,
            segmentation: None,
        };
        taps[0].transmit(frame).unwrap();
    }
    let held = frames(&mut taps[1], 35);
    assert!(held.iter().all(|frame| *frame.bytes == *whole));
    assert!(taps[1].receive().is_none());
    // Of 50; and the kernel may have sent a multicast frame of its own, which was dropped too if it came late.
    let others = handed_over("right") - 50;
    let dropped = taps[1].counters().dropped_in;
    assert!(
        (15..=15 + others).contains(&dropped),
        "{dropped} dropped, {others} of others"
    );
    drop(held);
    let frame = Outgoing {
        parts: &[&whole],
        partial: PARTIAL,
        segmentation: None,
    };
    taps[0].transmit(frame).unwrap();
    assert_eq!(frames(&mut taps[1], 1).len(), 1);
}

#[test]
fn nonsense_is_refused_and_counted_and_a_link_that_is_down_is_full() {
    if !alone() {
        return;
    }
    let mut tap = Tap::open(&Settings::new("only")).unwrap();
    let whole = segment(10);
    let plain = Outgoing {
        parts: &[&whole],
        partial: None,
        segmentation: None,
    };
    assert_eq!(tap.transmit(plain), Err(Full));
    assert!(tap.receive().is_none());
    ip("link set only up");
    assert_eq!(tap.transmit(plain), Ok(()));
    let beyond = Outgoing {
        partial: Some(PartialChecksum {
            start: 60_000,
            offset: 16,
        }),
        ..plain
    };
    assert_eq!(tap.transmit(beyond), Ok(()));
    assert_eq!(tap.counters().refused_out, 1);
}

#[test]
fn a_wait_ends_when_it_should() {
    if !alone() {
        return;
    }
    let tap = Tap::open(&Settings::new("only")).unwrap();
    let mut platform = TapPlatform::new(&tap).unwrap();
    let before = platform.now();
    platform.wait(Some(before + Duration::from_millis(30)));
    assert!(platform.now() - before >= Duration::from_millis(30));
    let again = Tap::open(&Settings::new("only")).unwrap_err();
    assert_eq!(again.kind(), ErrorKind::ResourceBusy);
}
