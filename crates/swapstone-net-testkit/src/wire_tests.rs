// SPDX-License-Identifier: MIT OR Apache-2.0
use super::*;

fn packet(source: &str, destination: &str, transport: Transport) -> Packet {
    Packet {
        to: [2, 0, 0, 0, 0, 1],
        from: [2, 0, 0, 0, 0, 2],
        body: Body::Ip(Ip {
            source: source.parse().unwrap(),
            destination: destination.parse().unwrap(),
            hops: 64,
            transport,
        }),
    }
}

fn samples() -> Vec<Packet> {
    let tcp = Transport::Tcp(Tcp {
        source: 1,
        destination: 80,
        seq: 7,
        ack: 9,
        flags: SYN | ACK,
        window: 1000,
        options: vec![1, 1, 1, 1, 2, 4, 5, 0xb4],
        payload: b"odd".to_vec(),
    });
    let udp = Transport::Udp(Udp {
        source: 53,
        destination: 5353,
        payload: b"four".to_vec(),
    });
    let icmp = Transport::Icmp(Icmp {
        kind: 8,
        code: 0,
        body: vec![0, 1, 0, 2, 3],
    });
    let mut all = Vec::new();
    for transport in [tcp, udp, icmp] {
        all.push(packet("10.0.0.1", "10.0.0.2", transport.clone()));
        all.push(packet("fd00::1", "fd00::2", transport));
    }
    all.push(Packet {
        to: [0xff; 6],
        from: [2; 6],
        body: Body::Arp(Arp {
            operation: 1,
            sender: ([2; 6], Ipv4Addr::new(1, 2, 3, 4)),
            target: ([0; 6], Ipv4Addr::new(1, 2, 3, 5)),
        }),
    });
    all
}

#[test]
fn what_is_built_is_read() {
    for sample in samples() {
        assert_eq!(Packet::parse(&sample.bytes(), false), Ok(sample));
    }
}

#[test]
fn the_checksums_are_those_of_a_real_packet() {
    // An echo request that `ping -c 1 -s 4 192.168.1.1` could send, its sums worked out by hand.
    let sample = packet(
        "192.168.1.2",
        "192.168.1.1",
        Transport::Icmp(Icmp {
            kind: 8,
            code: 0,
            body: vec![0, 1, 0, 1, 0xde, 0xad, 0xbe, 0xef],
        }),
    );
    let bytes = sample.bytes();
    // 0800 + 0001 + 0001 + dead + beef = 1a59e; a59e + 1 = a59f; inverted 5a60.
    assert_eq!(bytes[36..38], [0x5a, 0x60]);
    // 4500 + 0020 + 4000 + 4001 + c0a8 + 0102 + c0a8 + 0101 = 24874; 4876; inverted b789.
    assert_eq!(bytes[24..26], [0xb7, 0x89]);
}

#[test]
fn each_wrong_bit_of_a_sum_is_seen() {
    for sample in samples() {
        let good = sample.bytes();
        if sample.ip().is_none() {
            continue;
        }
        for bit in 14 * 8..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 0x80 >> (bit % 8);
            if let Ok(read) = Packet::parse(&bad, false) {
                // IPv6 has bits that no sum covers, and a version field that changes nothing else.
                assert!(sample.ip().unwrap().source.is_ipv6(), "bit {bit}: {read:?}");
                assert!(bit < 22 * 8, "bit {bit}: {read:?}");
            }
        }
    }
}

#[test]
fn a_prefix_of_a_packet_is_an_error() {
    for sample in samples() {
        let whole = sample.bytes();
        for length in 0..whole.len() {
            assert!(Packet::parse(&whole[..length], false).is_err(), "{length}");
        }
    }
}

#[test]
fn options_are_found() {
    let samples = samples();
    assert_eq!(samples[0].tcp().unwrap().mss(), Some(1460));
    assert_eq!(samples[0].tcp().unwrap().span(), 4);
    let none = Tcp {
        options: vec![3, 9, 1, 1],
        ..Tcp::default()
    };
    assert_eq!(none.mss(), None);
}
