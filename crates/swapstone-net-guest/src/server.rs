// SPDX-License-Identifier: MIT OR Apache-2.0
//! The main loop of the server over either stack.

use core::fmt::{Display, Write};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use swapstone_net::{Cidr, Config, Net, Stack};
use swapstone_net_apps::{Counts, HttpServer, Settings};
use swapstone_net_virtio::VirtioNet;

use crate::machine::{self, Card};
use crate::memory;
use crate::uart::{self, Uart};

/// The address of the machine; `benchmarks/netstack-guest` has the peer's.
const ADDRESS: Cidr = Cidr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), 24);
/// The number of received frames that the stack may hold.
const FRAMES: usize = 1024;
/// The interval of reading the serial line.
const TICK: Duration = Duration::from_millis(50);
/// The byte that ends the server.
const QUIT: u8 = b'q';

/// The configuration of the stack: the address, and limits for the memory of the machine.
pub fn settings(seed: [u8; 32]) -> Config {
    Config::new(&[ADDRESS], seed)
}

/// Serves until a `q` is read from the serial line.
pub fn serve<S: Stack, E: Display>(make: impl FnOnce(Card, &Config) -> Result<S, E>) -> ! {
    // SAFETY: the entry code calls this once; nothing was allocated before, and no device is in
    // use.
    let devices = unsafe {
        memory::init();
        machine::devices()
    };
    let devices = devices.unwrap_or_else(|error| panic!("{error}"));
    let seed = machine::seed(devices.random).unwrap_or_else(|error| panic!("virtio-rng: {error}"));
    let card =
        VirtioNet::new(devices.card, FRAMES).unwrap_or_else(|error| panic!("virtio-net: {error}"));
    let stack = make(card, &settings(seed)).unwrap_or_else(|error| panic!("the stack: {error}"));
    let net = Net::new(stack, devices.platform);
    let mut server = HttpServer::new(&net, &Settings::default())
        .unwrap_or_else(|error| panic!("the server: {error}"));
    let can = net.with(|stack| stack.capabilities());
    let _ = writeln!(
        Uart,
        r#"{{"event": "ready", "stack": "{}", "version": "{}"}}"#,
        can.name, can.version
    );
    let mut until = net.now() + TICK;
    loop {
        if let Some((id, _)) = net.next_event(Some(until)) {
            server.event(id);
        }
        if net.now() < until {
            continue;
        }
        until = net.now() + TICK;
        server.tick();
        if uart::read() == Some(QUIT) {
            report(&net, server.counts());
            machine::end(true);
        }
    }
}

fn report<S: Stack>(net: &Net<S>, counts: &Counts) {
    let (name, all) = net.with(|stack| (stack.capabilities().name, stack.statistics()));
    let (used, size) = memory::used();
    let Counts {
        requests,
        failed,
        connections,
        bytes_in,
        bytes_out,
        first_failure,
    } = counts;
    let _ = writeln!(
        Uart,
        r#"{{"event": "end", "stack": "{name}", "requests": {requests}, "failed": {failed}, "connections": {connections}, "bytes_in": {bytes_in}, "bytes_out": {bytes_out}, "first_failure": "{}", "frames_in": {}, "frames_out": {}, "malformed": {}, "no_room": {}, "retransmitted": {}, "tcp_sockets": {}, "orphans": {}, "heap_used_bytes": {used}, "heap_bytes": {size}, "micros": {}}}"#,
        first_failure.as_deref().unwrap_or(""),
        all.frames_in,
        all.frames_out,
        all.malformed,
        all.no_room,
        all.retransmitted,
        all.tcp_sockets,
        all.orphans,
        machine::now().micros(),
    );
}
