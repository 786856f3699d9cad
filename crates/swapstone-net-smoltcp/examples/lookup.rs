// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a segment costs with few connections and with many: a ratio of times, and the size of a connection.
//!
//! `cargo run --release --example lookup`

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use swapstone_net::{Cidr, Config, Limits, Net, Stack};
use swapstone_net_link::{Link, Options};
use swapstone_net_smoltcp::Smoltcp;

type Host = Net<Smoltcp<swapstone_net_link::Port>>;

fn host(link: &Link, last: u8, sockets: usize) -> Host {
    let address = Cidr::new([10, 0, 0, last].into(), 24);
    let mut config = Config::new(&[address], [last; 32]);
    config.limits = Limits {
        tcp_sockets: sockets,
        receive_buffer: 2048,
        send_buffer: 2048,
        ..Limits::default()
    };
    let port = link.port([2, 0, 0, 0, 0, last]);
    let id = port.id();
    let stack = Smoltcp::new(port, &config).expect("the configuration is good");
    let net = Net::new(stack, link.time(id));
    link.attach(id, net.clone());
    net
}

/// Nanoseconds for one small request and its answer, while `many` connections exist.
fn exchange(many: usize) -> f64 {
    let options = Options {
        frames: 30_000,
        digest: false,
        ..Options::default()
    };
    let link = Link::new(options);
    let (client, server) = (host(&link, 1, many + 2), host(&link, 2, many + 2));
    let to: SocketAddr = "10.0.0.2:80".parse().expect("an address");
    let listener = server.tcp().expect("room");
    listener.bind(to).expect("a free port");
    listener.listen(many).expect("bound");
    let clients: Vec<_> = (0..many)
        .map(|_| {
            let socket = client.tcp().expect("room");
            socket.set_nonblocking(true);
            let _ = socket.connect(to);
            socket
        })
        .collect();
    link.run_until(link.now() + Duration::from_secs(10));
    let mut servers: Vec<_> = (0..many)
        .map(|_| listener.accept().expect("all came"))
        .collect();
    servers.sort_by_key(|(_, peer)| *peer);
    let mut clients = clients;
    clients.sort_by_key(|socket| socket.local_addr());
    let rounds = 100_000;
    let mut buffer = [0; 64];
    let start = Instant::now();
    for round in 0..rounds {
        // A stride that visits connections far apart, so that caches help as little as they do in earnest.
        let at = round * 7919 % many;
        clients[at].connect(to).ok();
        clients[at].send(b"request").expect("room");
        client.poll();
        server.poll();
        servers[at].0.recv(&mut buffer).expect("the request");
        servers[at].0.send(b"answer").expect("room");
        server.poll();
        client.poll();
        clients[at].recv(&mut buffer).expect("the answer");
    }
    let time = start.elapsed().as_nanos() as f64 / rounds as f64;
    let waits = client.with(|stack| stack.statistics().retransmitted);
    println!("{many} connections: {time:.0} ns for a request and its answer; {waits} sent again");
    time
}

fn main() {
    let (one, few, many) = (exchange(1), exchange(100), exchange(10_000));
    println!("100 to 1: {:.2}; 10,000 to 1: {:.2}", few / one, many / one);
}
