// SPDX-License-Identifier: MIT OR Apache-2.0
//! The HTTP client over the kernel's sockets, against a server that sends fixed bytes.

use super::*;
use crate::app;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use swapstone_net_apps::http;
use swapstone_net_kernel::{Buffers, Kernel};

/// Makes requests, each with a connection that the server closes after it has sent these parts, with a
/// pause between them; returns the outcome, and the requests as the server received them.
fn requested(options: Options, answer: &[&[u8]]) -> (Outcome, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = listener.local_addr().unwrap();
    let count = options.requests.unwrap();
    let answer: Vec<_> = answer.iter().map(|part| part.to_vec()).collect();
    let server = std::thread::spawn(move || {
        let serve = |_| {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            while !request.ends_with(b"\r\n\r\n") {
                let mut byte = [0];
                socket.read_exact(&mut byte).unwrap();
                request.push(byte[0]);
            }
            for (number, part) in answer.iter().enumerate() {
                if number > 0 {
                    std::thread::sleep(Duration::from_millis(20));
                }
                let _ = socket.write_all(part); // the client may have closed
            }
            String::from_utf8(request).unwrap()
        };
        (0..count).map(serve).collect()
    });
    let (kernel, platform) = Kernel::new(options.limits, Buffers::Automatic).unwrap();
    let net = Net::new(kernel, platform);
    let mut client = Client::new(&net, &options, peer, Close::Server).unwrap();
    assert_eq!(client.outcome().connections, 0, "it waits for its start");
    let stop = AtomicBool::new(false);
    app::run(&net, &mut client, Some(Duration::from_secs(20)), &stop);
    (client.outcome(), server.join().unwrap())
}

fn every_way() -> impl Iterator<Item = Options> {
    [
        (Receive::Copy, Send::Copy),
        (Receive::Borrow, Send::Shared),
        (Receive::Borrow, Send::Copy),
    ]
    .into_iter()
    .flat_map(|(receive, send)| {
        [false, true].map(|await_close| Options {
            receive,
            send,
            await_close,
            requests: Some(3),
            ..Options::default()
        })
    })
}

fn answer() -> Vec<u8> {
    let mut answer = Vec::new();
    http::head(&mut answer, "200 OK", 5, false);
    answer.extend_from_slice(b"hello");
    answer
}

#[test]
fn each_request_has_a_connection_and_an_answer() {
    for options in every_way() {
        let (outcome, requests) = requested(options, &[&answer()]);
        assert_eq!((outcome.requests, outcome.failed), (3, 0), "{outcome:?}");
        assert_eq!((outcome.connections, outcome.most_open), (3, Some(1)));
        assert_eq!(outcome.bytes_in, 3 * answer().len() as u64);
        assert_eq!(requests.len(), 3);
        assert_eq!(
            outcome.bytes_out,
            requests.iter().map(String::len).sum::<usize>() as u64
        );
        assert!(requests[0].starts_with("GET / HTTP/1.1\r\n"));
        assert!(requests[0].contains("\r\nConnection: close\r\n"));
    }
}

#[test]
fn a_missing_or_wrong_answer_is_a_failure() {
    let whole = answer();
    let longer = [&whole[..], b"x"].concat();
    let other = String::from_utf8(whole.clone()).unwrap();
    let other = other.replace("200 OK", "404 No").into_bytes();
    let early = "the connection ended before its answer";
    for options in every_way() {
        for (bytes, why) in [
            (&b""[..], early),
            (&whole[..whole.len() - 1], early),
            (&longer, "more than was requested"),
            (&other, "a status other than 200"),
        ] {
            let (outcome, _) = requested(options.clone(), &[bytes]);
            assert_eq!((outcome.requests, outcome.failed), (0, 3), "{outcome:?}");
            assert_eq!(outcome.first_failure.as_deref(), Some(why));
        }
    }
}

#[test]
fn a_second_answer_before_the_close_is_a_failure() {
    for options in every_way().filter(|options| options.await_close) {
        let (outcome, _) = requested(options, &[&answer(), &answer()]);
        assert_eq!((outcome.requests, outcome.failed), (0, 3), "{outcome:?}");
        let why = outcome.first_failure.unwrap();
        assert_eq!(why, "more than was requested");
    }
}

#[test]
fn only_a_server_that_closes_is_awaited() {
    let options = Options {
        await_close: true,
        ..Options::default()
    };
    let (kernel, platform) = Kernel::new(options.limits, Buffers::Automatic).unwrap();
    let net = Net::new(kernel, platform);
    let peer = "127.0.0.1:9".parse().unwrap();
    let error = Client::new(&net, &options, peer, Close::None)
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "--await-close needs --close server");
}
