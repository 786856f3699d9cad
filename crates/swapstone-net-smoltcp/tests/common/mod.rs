// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two stacks on a link in memory.
#![allow(dead_code, reason = "no test file uses all of it")]

use std::net::SocketAddr;
use std::time::Duration;

use swapstone_net::{Cidr, Config, Limits, Net, Readiness, Stack, TcpSocket, UdpSocket};
use swapstone_net_link::{Link, Options, Path, Port};
use swapstone_net_smoltcp::Smoltcp;

pub type Host = Net<Smoltcp<Port>>;
pub type Tcp = TcpSocket<Smoltcp<Port>>;
pub type Udp = UdpSocket<Smoltcp<Port>>;

pub const CLIENT: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const SERVER: [u8; 6] = [2, 0, 0, 0, 0, 2];

pub struct World {
    pub link: Link,
    pub client: Host,
    pub server: Host,
}

pub fn config(last: u8, limits: Limits) -> Config {
    let mut config = Config::new(
        &[
            Cidr::new([10, 0, 0, last].into(), 24),
            Cidr::new(format!("fd00::{last}").parse().unwrap(), 64),
        ],
        [last; 32],
    );
    config.limits = limits;
    config
}

pub fn host(link: &Link, mac: [u8; 6], config: &Config) -> Host {
    let port = link.port(mac);
    let id = port.id();
    let net = Net::new(Smoltcp::new(port, config).unwrap(), link.time(id));
    link.attach(id, net.clone());
    net
}

pub fn world_with(options: Options, limits: Limits) -> World {
    let link = Link::new(options);
    let client = host(&link, CLIENT, &config(1, limits));
    let server = host(&link, SERVER, &config(2, limits));
    link.set_paths(Path {
        delay: Duration::from_micros(500),
        ..Path::default()
    });
    World {
        link,
        client,
        server,
    }
}

pub fn world() -> World {
    world_with(Options::default(), Limits::default())
}

pub fn at(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

impl World {
    /// Let so much time pass.
    pub fn run(&self, time: Duration) {
        self.link.run_until(self.link.now() + time);
    }

    pub fn millis(&self, millis: u64) {
        self.run(Duration::from_millis(millis));
    }

    pub fn listen(&self, address: &str, backlog: usize) -> Tcp {
        let socket = self.server.tcp().unwrap();
        socket.bind(at(address)).unwrap();
        socket.listen(backlog).unwrap();
        socket.set_nonblocking(true);
        socket
    }

    /// A connection: the client's side, and the server's.
    pub fn pair(&self) -> (Tcp, Tcp) {
        let listener = self.listen("10.0.0.2:80", 8);
        let client = self.client.tcp().unwrap();
        client.connect(at("10.0.0.2:80")).unwrap();
        self.millis(10);
        let (server, _) = listener.accept().unwrap();
        client.set_nonblocking(true);
        server.set_nonblocking(true);
        (client, server)
    }
}

pub fn ready(socket: &Tcp) -> Readiness {
    socket.readiness()
}

/// All that can be read now, and what comes then.
pub fn drain(socket: &Tcp) -> (Vec<u8>, Result<usize, swapstone_net::error::RecvError>) {
    let (mut all, mut buffer) = (Vec::new(), [0; 4096]);
    loop {
        match socket.recv(&mut buffer) {
            Ok(size) if size > 0 => all.extend_from_slice(&buffer[..size]),
            end => return (all, end),
        }
    }
}

pub fn count(host: &Host) -> swapstone_net::Statistics {
    host.with(|stack| stack.statistics())
}
