// SPDX-License-Identifier: MIT OR Apache-2.0
//! Sequence numbers as sent.

use super::*;
use alloc::vec::Vec;
use std::cell::RefCell;
use std::rc::Rc;
use swapstone_net::{Cidr, Config, Stack as _, TcpStack as _};
use swapstone_net_link::{Link, Options as LinkOptions, Port as LinkPort};

fn stack(link: &Link, last: u8) -> Smoltcp<LinkPort> {
    let address = Cidr::new([10, 0, 0, last].into(), 24);
    let config = Config::new(&[address], [last; 32]);
    Smoltcp::new(link.port([2, 0, 0, 0, 0, last]), &config).unwrap()
}

#[test]
fn sequence_numbers_are_the_ones_that_were_chosen() {
    let link = Link::new(LinkOptions::default());
    let (mut client, mut server) = (stack(&link, 1), stack(&link, 2));
    let sent = Rc::new(RefCell::new(Vec::new()));
    for port in 0..2 {
        let list = Rc::clone(&sent);
        link.set_filter(port, move |_, frame| {
            if frame[12..14] == [8, 0] && frame[47] & SYN != 0 {
                let seq = u32::from_be_bytes([frame[38], frame[39], frame[40], frame[41]]);
                list.borrow_mut().push(seq);
            }
            swapstone_net_link::Verdict::Pass
        });
    }
    let local = "10.0.0.2:80".parse().unwrap();
    let listener = server.tcp_open().unwrap();
    server.tcp_bind(listener, local).unwrap();
    server.tcp_listen(listener, 9).unwrap();
    let mut expected = Vec::new();
    for round in 0..5 {
        let now = Instant::from_micros(round * 1_000_000);
        client.poll(now);
        server.poll(now);
        let socket = client.tcp_open().unwrap();
        client.tcp_connect(socket, local).unwrap_err();
        let own = client.tcp_local(socket).unwrap();
        expected.push(client.sequence(&Key::connection(own, local), None));
        expected.push(server.sequence(&Key::connection(local, own), None));
        for _ in 0..4 {
            client.poll(now);
            server.poll(now);
        }
        assert_eq!(client.tcp_connect(socket, local), Ok(()));
    }
    assert_eq!(*sent.borrow(), expected);
}

#[test]
fn a_connection_that_takes_anothers_place_starts_beyond_it() {
    let link = Link::new(LinkOptions::default());
    let stack = stack(&link, 1);
    let local = "10.0.0.1:5".parse().unwrap();
    let key = Key::connection(local, "10.0.0.2:80".parse().unwrap());
    let sequence = stack.sequence(&key, None);
    let below = sequence.wrapping_sub(1);
    assert_eq!(stack.sequence(&key, Some(below)), sequence);
    for floor in [sequence, sequence.wrapping_add(0x7000_0000)] {
        let beyond = stack.sequence(&key, Some(floor)).wrapping_sub(floor);
        assert!((MIN_DISTANCE..2 * MIN_DISTANCE).contains(&beyond));
    }
}
