// SPDX-License-Identifier: MIT OR Apache-2.0
//! The main loop of the server over either stack.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{Display, Write};
use core::net::{IpAddr, Ipv4Addr};
use core::time::Duration;

use swapstone_net::fixes::Fixes;
use swapstone_net::{Cidr, Config, Net, Stack};
use swapstone_net_apps::{Counts, HttpServer, Settings};
use swapstone_net_virtio::VirtioNet;

use crate::command_line::CommandLine;
use crate::machine::{self, Card};
use crate::memory;
use crate::tuning::{Tunable, Tuning};
use crate::uart::{self, Uart};

/// The address of the machine; the trial of `swapstone-net-bench` has the peer's.
const ADDRESS: Cidr = Cidr::new(IpAddr::V4(Ipv4Addr::new(10, 9, 0, 2)), 24);
/// The number of received frames that the stack may hold.
const FRAMES: usize = 1024;
/// The interval of reading the serial line.
const TICK: Duration = Duration::from_millis(50);
/// How long the server waits, when it is ended, for connections that are still closing.
const CLOSING: Duration = Duration::from_secs(10);
/// The byte that begins the count of instructions.
const BEGIN: u8 = b'b';
/// The byte that ends the count, and the server when its connections have closed.
const QUIT: u8 = b'q';
/// The word of the command line that selects fixes and options of the stack.
const SELECTION: &str = "stack";

/// Serves until a `q` is read from the serial line and every connection has closed, or for 10
/// seconds more. A peer's last segments may still be in the queue of the card. `tree` is the address of the device tree.
pub fn serve<S: Stack, E: Display>(
    tree: usize,
    make: impl FnOnce(Card, &Config, Fixes) -> Result<S, E>,
    tunable: impl FnOnce() -> Tunable,
) -> ! {
    // SAFETY: the entry code calls this once; nothing was allocated before, and no device is in
    // use. The device tree is read before its memory becomes the heap's.
    let (line, devices) = unsafe {
        let line = CommandLine::read(tree);
        memory::init();
        (line, machine::devices())
    };
    let devices = devices.unwrap_or_else(|error| panic!("{error}"));
    let seed = machine::seed(devices.random).unwrap_or_else(|error| panic!("virtio-rng: {error}"));
    let card =
        VirtioNet::new(devices.card, FRAMES).unwrap_or_else(|error| panic!("virtio-net: {error}"));
    let tunable = tunable();
    let mut config = Config::new(&[ADDRESS], seed);
    let selection = line.value(SELECTION).unwrap_or(tunable.stack);
    let tuning = Tuning::parse(selection, &tunable, &mut config.limits)
        .unwrap_or_else(|error| panic!("the command line: {error}"));
    let stack =
        make(card, &config, tuning.fixes).unwrap_or_else(|error| panic!("the stack: {error}"));
    let net = Net::new(stack, devices.platform);
    let mut server = HttpServer::new(&net, &Settings::default())
        .unwrap_or_else(|error| panic!("the server: {error}"));
    let (can, limits) = net.with(|stack| (stack.capabilities(), stack.limits()));
    let _ = writeln!(
        Uart,
        r#"{{"event": "ready", "stack": "{}", "version": "{}", "congestion_control": "{}", "fixes": [{}], "options": [{}], "receive_buffer": {}, "send_buffer": {}, "mtu": {}}}"#,
        can.name,
        can.version,
        can.congestion_control,
        listed(tuning.fixes.names()),
        listed(tuning.in_force(&tunable, &limits)),
        limits.receive_buffer,
        limits.send_buffer,
        swapstone_net_virtio::MTU,
    );
    let mut begin = machine::instructions();
    let mut until = net.now() + TICK;
    // The instructions when the server was ended, and when it waits no longer.
    let mut ended = None;
    loop {
        if let Some((id, _)) = net.next_event(Some(until)) {
            server.event(id);
        }
        if net.now() < until {
            continue;
        }
        until = net.now() + TICK;
        server.tick();
        if let Some((instructions, limit)) = ended {
            if net.with(|stack| stack.statistics().tcp_sockets) <= 1 || until > limit {
                report(&net, server.counts(), instructions);
                machine::end(true);
            }
            continue;
        }
        match uart::read() {
            Some(BEGIN) => {
                let _ = writeln!(Uart, r#"{{"event": "begin"}}"#);
                begin = machine::instructions();
            }
            Some(QUIT) => ended = Some((machine::instructions() - begin, until + CLOSING)),
            _ => {}
        }
    }
}

/// The elements of a JSON array of texts that need no escapes.
fn listed(names: impl IntoIterator<Item = impl Display>) -> String {
    let quoted: Vec<String> = names
        .into_iter()
        .map(|name| format!("\"{name}\""))
        .collect();
    quoted.join(", ")
}

fn report<S: Stack>(net: &Net<S>, counts: &Counts, instructions: u64) {
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
        r#"{{"event": "end", "stack": "{name}", "requests": {requests}, "failed": {failed}, "connections": {connections}, "bytes_in": {bytes_in}, "bytes_out": {bytes_out}, "first_failure": "{}", "frames_in": {}, "frames_out": {}, "malformed": {}, "no_room": {}, "retransmitted": {}, "tcp_sockets": {}, "orphans": {}, "heap_used_bytes": {used}, "heap_bytes": {size}, "micros": {}, "instructions": {instructions}}}"#,
        first_failure
            .as_deref()
            .unwrap_or("")
            .replace(['"', '\\'], "'"),
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
