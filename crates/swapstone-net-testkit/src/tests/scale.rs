// SPDX-License-Identifier: MIT OR Apache-2.0
//! Many connections, long times, constant memory.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

use swapstone_net::error::{RecvError, SendError};
use swapstone_net::{Cidr, Config, Net, TcpSocket, UdpSocket};
use swapstone_net_link::{Link, Options, Path};

use crate::context::{Context, Test};
use crate::farm::{Farm, Stage};
use crate::memory;
use crate::pair::{Served, Server, Service};
use crate::watched::{Watched, WatchedPort};
use crate::world::{DELAY, PEER_MAC, SUBJECT_MAC, SUBJECT_V4};

pub(super) const TESTS: &[Test] = &[
    Test::both(
        "steady: 1000 echo round trips allocate nothing",
        no_allocation_echo,
    ),
    Test::both(
        "steady: 1000 datagrams there and back allocate nothing",
        no_allocation_udp,
    ),
    Test::once(
        "steady: 1000 connections one after another allocate nothing",
        no_allocation_connections,
    ),
    Test::once(
        "scale: 10 000 connections at once, each served, memory given back",
        many_at_once,
    )
    .within(300),
    Test::once(
        "scale: connections one after another, memory flat",
        one_after_another,
    )
    .within(900),
    Test::once(
        "scale: a day of virtual time with churn and loss, memory flat",
        a_day,
    )
    .within(900)
    .slow(),
];

fn no_allocation_echo(context: &Context) {
    let mut world = context.world();
    let listener = world.listen(80, 4);
    let (mut conn, socket) = world.connect(&listener, 5000);
    let mut round = || {
        world.give(&mut conn, b"request");
        assert_eq!(socket.recv_with(|bytes| bytes.len()), Ok(7));
        assert_eq!(socket.send(b"answer"), Ok(6));
        assert_eq!(world.take(&mut conn, 6), b"answer");
    };
    (0..100).for_each(|_| round());
    let before = memory::calls();
    (0..1000).for_each(|_| round());
    assert_eq!(memory::calls() - before, 0, "allocations");
}

fn no_allocation_udp(context: &Context) {
    let mut world = context.world();
    let socket: UdpSocket<Watched> = world.net.udp().unwrap();
    socket.bind(world.at_subject(53)).unwrap();
    socket.set_nonblocking(true);
    let mut round = || {
        world.send_udp(9000, 53, b"question");
        world.run(Duration::from_millis(2));
        let mut buffer = [0; 16];
        let (count, sender) = socket.recv_from(&mut buffer).unwrap();
        socket.send_to(&buffer[..count], sender).unwrap();
        assert_eq!(world.expect_udp().payload, b"question");
    };
    (0..100).for_each(|_| round());
    let before = memory::calls();
    (0..1000).for_each(|_| round());
    assert_eq!(memory::calls() - before, 0, "allocations");
}

/// Responds to each four bytes with four, until the peer closes.
#[derive(Default)]
struct Four {
    owed: usize,
}

impl Service for Four {
    fn serve(&mut self, socket: &TcpSocket<Watched>) -> bool {
        loop {
            match socket.recv_with(|bytes| bytes.len()) {
                Ok(0) => return true,
                Ok(count) => self.owed += count,
                Err(RecvError::WouldBlock) => {}
                Err(_) => return true,
            }
            if self.owed == 0 {
                return false;
            }
            match socket.send(&[7; 64][..self.owed.min(64)]) {
                Ok(count) => self.owed -= count,
                Err(SendError::WouldBlock) => return false,
                Err(_) => return true,
            }
        }
    }
}

struct Scene {
    link: Link,
    net: Net<Watched>,
    farm: Farm,
    served: Rc<Served>,
}

/// A server of the stack under test, and this number of clients.
fn scene(context: &Context, sockets: usize, clients: usize) -> Scene {
    let mut config = Config::new(&[Cidr::new(SUBJECT_V4.into(), 16)], [context.seed; 32]);
    config.limits.tcp_sockets = sockets;
    config.limits.receive_buffer = 4096;
    config.limits.send_buffer = 4096;
    config.limits.packet_memory = 64 << 20;
    let link = Link::new(Options {
        frames: 65_536,
        ..Options::default()
    });
    let device = WatchedPort::new(link.port(SUBJECT_MAC));
    let farm = Farm::new(link.port(PEER_MAC), clients);
    link.set_paths(Path {
        delay: DELAY,
        ..Path::default()
    });
    let stack = (context.backend.make)(device, &config, context.fixes);
    let stack = stack.unwrap_or_else(|reason| context.unavailable(&reason));
    let net = Net::new(Watched::new(stack, true), link.time(0));
    let backlog = sockets.min(1024);
    let server = Server::new(&net, (SUBJECT_V4, 80).into(), backlog, Four::default);
    let served = server.served();
    link.attach(0, server);
    Scene {
        link,
        net,
        farm,
        served,
    }
}

impl Scene {
    fn run(&mut self, milliseconds: u64) {
        let until = self.link.now() + Duration::from_millis(milliseconds);
        self.farm.run(until);
    }

    /// A complete connection of a client: open, request, close.
    fn once(&mut self, at: usize, number: u32) {
        let until = self.link.now() + Duration::from_secs(10);
        self.farm.open(at, number);
        assert!(
            self.farm.run_while(at, Stage::Opening, until),
            "no connection"
        );
        self.farm.ask(at);
        assert!(self.farm.run_while(at, Stage::Asking, until), "no answer");
        self.farm.close(at);
        assert!(self.farm.run_while(at, Stage::Closing, until), "no end");
        assert_eq!(
            self.farm.stage(at),
            Stage::Idle,
            "connection {number} broke"
        );
    }
}

fn no_allocation_connections(context: &Context) {
    let mut scene = scene(context, 256, 4000);
    (0..2000).for_each(|at| scene.once(at, at as u32));
    let before = memory::calls();
    (2000..3000).for_each(|at| scene.once(at, at as u32));
    assert_eq!(memory::calls() - before, 0, "allocations");
}

/// Wall time of requests of the open clients in turn, in nanoseconds per request.
fn time_requests(scene: &mut Scene, open: usize, requests: usize) -> f64 {
    let begun = std::time::Instant::now();
    for count in 0..requests {
        let at = count * 7919 % open;
        let until = scene.link.now() + Duration::from_secs(10);
        scene.farm.ask(at);
        assert!(scene.farm.run_while(at, Stage::Asking, until), "no answer");
        let stage = scene.farm.stage(at);
        assert_eq!(stage, Stage::Open, "request {count}, client {at} of {open}");
    }
    begun.elapsed().as_nanos() as f64 / requests as f64
}

fn many_at_once(context: &Context) {
    const MANY: usize = 10_000;
    let mut scene = scene(context, MANY + 100, MANY);
    let start = (memory::live(), memory::resident().unwrap_or(0));
    let mut few = 0.0;
    for at in 0..MANY {
        scene.farm.open(at, at as u32);
        if at % 100 == 99 {
            scene.run(5);
        }
        if at == 99 {
            time_requests(&mut scene, 10, 1000);
            few = time_requests(&mut scene, 10, 5000);
        }
    }
    scene.run(10_000);
    assert_eq!(scene.farm.count(Stage::Open), MANY);
    assert_eq!(scene.served.open.get(), MANY);
    time_requests(&mut scene, MANY, 10_000);
    let many = time_requests(&mut scene, MANY, 20_000);
    context.note(format!(
        "a request with 10 000 connections takes {:.2} times as long as with 100",
        many / few
    ));
    let full = (memory::live(), memory::resident().unwrap_or(0));
    context.note(format!(
        "each connection holds {} bytes of Rust's heap; the process grew by {} bytes for each",
        full.0.saturating_sub(start.0) / MANY,
        full.1.saturating_sub(start.1) / MANY
    ));
    for at in 0..MANY {
        scene.farm.close(at);
        if at % 100 == 99 {
            scene.run(5);
        }
    }
    scene.run(10_000);
    assert_eq!(scene.farm.count(Stage::Idle), MANY);
    assert_eq!(scene.served.open.get(), 0);
    let statistics = scene
        .net
        .with(|stack| swapstone_net::Stack::statistics(stack));
    assert_eq!((statistics.tcp_sockets, statistics.orphans), (1, 0));
    // The second time needs no more memory than the first.
    let second = memory::live();
    for at in 0..MANY {
        scene.farm.open(at, (at as u32).wrapping_add(1 << 30));
        if at % 100 == 99 {
            scene.run(5);
        }
    }
    scene.run(10_000);
    assert_eq!(scene.farm.count(Stage::Open), MANY);
    let grown = memory::live().saturating_sub(second.max(full.0));
    assert!(grown < 1 << 20, "{grown} bytes more than the first time");
}

fn one_after_another(context: &Context) {
    let count: usize = if context.slow { 1_000_000 } else { 20_000 };
    let mut scene = scene(context, 1024, 60_000);
    let warm = count / 20;
    let mut after_warm = (0, 0);
    for at in 0..count {
        if at == warm {
            after_warm = (memory::live(), memory::resident().unwrap_or(0));
        }
        // Ports are reused after 60 000; each time with a higher sequence number.
        scene.once(at % 60_000, (at as u32).wrapping_mul(4000));
    }
    let end = (memory::live(), memory::resident().unwrap_or(0));
    assert_eq!(scene.served.accepted.get(), count);
    let grown = (
        end.0.saturating_sub(after_warm.0),
        end.1.saturating_sub(after_warm.1),
    );
    context.note(format!(
        "{count} connections; after the first {warm}, Rust's heap grew by {} bytes, the process by {}",
        grown.0, grown.1
    ));
    assert!(grown.0 < 64 << 10 && grown.1 < 4 << 20, "{grown:?}");
}

/// A day: every ten seconds a burst of blocking connections over a link with faults.
fn a_day(context: &Context) {
    let path = Path {
        delay: Duration::from_millis(10),
        loss_ppm: 10_000,
        duplicate_ppm: 1_000,
        reorder_ppm: 1_000,
        reorder_by: Duration::from_millis(5),
        corrupt_ppm: 1_000,
        ..Path::default()
    };
    let pair = context.pair(path);
    let server = Server::new(&pair.subject, pair.at_subject(80), 64, Four::default);
    let served = server.served();
    pair.link.attach(0, server);
    let requests = Cell::new(0);
    let day = pair.link.now() + Duration::from_secs(86_400);
    let hour = pair.link.now() + Duration::from_secs(3600);
    let mut warm = None;
    let mut broken = 0;
    while pair.link.now() < day {
        for _ in 0..3 {
            let socket = pair.other.tcp().expect("there is room");
            socket.set_timeout(Some(Duration::from_secs(120)));
            let mut buffer = [0; 4];
            let whole = socket.connect(pair.at_subject(80)).is_ok()
                && socket.send_all(b"four").is_ok()
                && socket.recv(&mut buffer).is_ok_and(|count| count > 0);
            broken += usize::from(!whole);
            requests.set(requests.get() + 1);
        }
        let now = pair.link.now();
        pair.link.run_until(now + Duration::from_secs(10));
        if pair.link.now() > hour && warm.is_none() {
            warm = Some((memory::live(), memory::resident().unwrap_or(0)));
        }
    }
    let settled = pair.link.now() + Duration::from_secs(600);
    pair.link.run_until(settled);
    let warm = warm.expect("a day has an hour");
    let end = (memory::live(), memory::resident().unwrap_or(0));
    let statistics = pair
        .subject
        .with(|stack| swapstone_net::Stack::statistics(stack));
    context.note(format!(
        "{} requests, {broken} broken, {} frames in, {} retransmitted; after an hour, Rust's heap grew by {} bytes, the process by {}",
        requests.get(),
        statistics.frames_in,
        statistics.retransmitted,
        end.0.saturating_sub(warm.0),
        end.1.saturating_sub(warm.1)
    ));
    assert_eq!(broken, 0);
    assert_eq!((served.open.get(), statistics.tcp_sockets), (0, 1));
    assert!(end.0.saturating_sub(warm.0) < 64 << 10);
    assert!(end.1.saturating_sub(warm.1) < 4 << 20);
}
