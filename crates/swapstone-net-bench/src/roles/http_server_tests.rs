// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP server of `swapstone-net-apps` over the kernel's sockets.

use super::*;
use std::time::Duration;
use swapstone_net::TcpStack as _;
use swapstone_net::error::ConnectError;
use swapstone_net_apps::{Receive, Send};
use swapstone_net_kernel::{Buffers, Kernel};

/// Sends a request to a server over the kernel's sockets; returns all data until it closes.
fn answers(options: Options, request: &[u8]) -> (String, Outcome) {
    let (kernel, platform) = Kernel::new(options.limits, Buffers::Automatic).unwrap();
    let net = Net::new(kernel, platform);
    let options = Options {
        listen: "127.0.0.1:0".parse().unwrap(),
        ..options
    };
    let mut server = Server::new(&net, &options).unwrap();
    let id = server.server.id();
    let to = net.with(|kernel| kernel.tcp_local(id)).unwrap();
    let client = net.tcp().unwrap();
    client.set_nonblocking(true);
    assert_eq!(client.connect(to), Err(ConnectError::WouldBlock));
    let (mut sent, mut all) = (0, Vec::new());
    let end = net.now() + Duration::from_secs(10);
    loop {
        let (id, _) = net.next_event(Some(end)).expect("an answer in time");
        if id != client.id() {
            server.event(id, Readiness::NONE);
            continue;
        }
        let _ = client.connect(to);
        while sent < request.len() {
            let Ok(size) = client.send(&request[sent..]) else {
                break;
            };
            sent += size;
            if sent == request.len() {
                client.shutdown(swapstone_net::Shutdown::Write).unwrap();
            }
        }
        let mut buffer = [0; 5000];
        loop {
            match client.recv(&mut buffer) {
                Ok(0) => return (String::from_utf8(all).unwrap(), server.outcome()),
                Ok(size) => all.extend_from_slice(&buffer[..size]),
                Err(_) => break,
            }
        }
    }
}

fn every_way() -> impl Iterator<Item = Options> {
    [Receive::Copy, Receive::Borrow]
        .into_iter()
        .flat_map(|receive| {
            [Send::Copy, Send::Shared].map(|send| Options {
                receive,
                send,
                ..Options::default()
            })
        })
}

#[test]
fn a_page_of_340_bytes_and_a_close_if_that_is_asked_for() {
    for options in every_way() {
        let request = b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n"; // the second request follows `Connection: close`
        let (text, outcome) = answers(options, request);
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert_eq!(
            head,
            "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 340\r\nConnection: close"
        );
        assert_eq!(body, "x".repeat(340));
        assert_eq!((outcome.requests, outcome.failed), (1, 0));
    }
}

#[test]
fn a_long_pipeline_is_answered_whole_and_in_order() {
    for options in every_way() {
        let mut request = Vec::new();
        for size in 0..5000 {
            request.extend_from_slice(format!("GET /bytes/{size} HTTP/1.1\r\n\r\n").as_bytes());
        }
        let (text, outcome) = answers(options, &request);
        let mut rest = text.as_str();
        for size in 0..5000 {
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {size}\r\nConnection: keep-alive\r\n\r\n"
            );
            assert!(rest.starts_with(&head), "{size}");
            rest = &rest[head.len() + size..];
        }
        assert_eq!(rest, "");
        assert_eq!((outcome.requests, outcome.failed), (5000, 0));
    }
}

#[test]
fn an_answer_larger_than_any_buffer() {
    for options in every_way() {
        let (text, outcome) = answers(options, b"GET /bytes/3000000 HTTP/1.0\r\n\r\n");
        assert_eq!(text.split_once("\r\n\r\n").unwrap().1.len(), 3_000_000);
        assert_eq!(outcome.bytes_out, text.len() as u64);
    }
}

#[test]
fn an_answer_behind_a_large_one_waits_for_its_end() {
    for options in every_way() {
        let request = b"GET /bytes/200000 HTTP/1.1\r\n\r\nGET / HTTP/1.0\r\n\r\n";
        let (text, _) = answers(options, request);
        let (_, rest) = text.split_once("\r\n\r\n").unwrap();
        let (large, rest) = rest.split_at(200_000);
        assert!(large.bytes().all(|byte| byte == b'x'));
        assert!(rest.starts_with("HTTP/1.1 200 OK\r\n"));
        assert!(rest.ends_with(&"x".repeat(340)));
    }
}

#[test]
fn nonsense_is_refused_and_counted() {
    let (text, outcome) = answers(Options::default(), b"HELO\r\n\r\n");
    assert!(text.starts_with("HTTP/1.1 400 Bad Request\r\n"));
    assert_eq!((outcome.requests, outcome.failed), (0, 1));
}
