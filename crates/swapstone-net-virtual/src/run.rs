// SPDX-License-Identifier: MIT OR Apache-2.0
//! A run.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;

use serde_json::{Value, json};
use swapstone_net::fixes::{Fix, Fixes};
use swapstone_net::{Capabilities, Cidr, Config, Instant, Net, Platform, Stack, Statistics};
use swapstone_net_link::{Counters, Endpoint, Link, Options as LinkOptions, Port};
use swapstone_net_lwip::Lwip;
use swapstone_net_smoltcp::Smoltcp;

use crate::options::{Options, Work};
use crate::program::{Client, Program, Progress, Receiver, Sender, Server, Side};

const STACK: [u8; 4] = [10, 0, 0, 1];
const PEER: [u8; 4] = [10, 0, 0, 2];
const PORT: u16 = 80;
/// The time for duplicate address detection (IPv6), on a link without loss.
const SETTLE: Duration = Duration::from_secs(5);

/// Runs the work and returns the figures.
pub fn run(options: &Options) -> Result<Value, Box<dyn Error>> {
    let link = Link::new(LinkOptions {
        mtu: options.mtu,
        frames: 65_536,
        digest: options.digest,
        seed: options.seed,
        ..LinkOptions::default()
    });
    let here = link.port([2, 0, 0, 0, 0, 1]);
    let there = link.port([2, 0, 0, 0, 0, 2]);
    let (ours, theirs) = (config(STACK, options), config(PEER, options));
    let (stack, selected) = named(&options.stack);
    let (peer, selected_of_peer) = named(&options.peer);
    let lwip = |port: Port, config: &Config, selected: &str| -> Result<_, Box<dyn Error>> {
        let fixes = fixes("lwip", swapstone_net_lwip::FIXES, selected)?;
        Ok(Lwip::with_fixes(port, config, fixes)?)
    };
    let smoltcp = |port: Port, config: &Config, selected: &str| -> Result<_, Box<dyn Error>> {
        let fixes = fixes("smoltcp", swapstone_net_smoltcp::FIXES, selected)?;
        Ok(Smoltcp::with_fixes(port, config, fixes)?)
    };
    match (stack, peer) {
        ("lwip", "smoltcp") => over(
            &link,
            lwip(here, &ours, selected)?,
            smoltcp(there, &theirs, selected_of_peer)?,
            options,
        ),
        ("smoltcp", "lwip") => over(
            &link,
            smoltcp(here, &ours, selected)?,
            lwip(there, &theirs, selected_of_peer)?,
            options,
        ),
        ("smoltcp", "smoltcp") => over(
            &link,
            smoltcp(here, &ours, selected)?,
            smoltcp(there, &theirs, selected_of_peer)?,
            options,
        ),
        ("lwip", "lwip") => Err("lwip can't be its own peer: it is one in a process".into()),
        (stack, peer) => {
            Err(format!("of {stack} and {peer} at least one is neither lwip nor smoltcp").into())
        }
    }
}

/// Splits the name of a stack and the text that selects its fixes.
fn named(name: &str) -> (&str, &str) {
    name.split_once(':').unwrap_or((name, ""))
}

fn fixes(stack: &str, table: &'static [Fix], text: &str) -> Result<Fixes, String> {
    Fixes::parse(table, text)
        .ok_or_else(|| format!("{stack} has no fixes {text:?}: it is shipped, or without-FIX"))
}

fn config(address: [u8; 4], options: &Options) -> Config {
    let mut seed = [address[3]; 32];
    seed[..8].copy_from_slice(&options.seed.to_le_bytes());
    Config {
        limits: options.limits,
        ..Config::new(&[Cidr::new(address.into(), 24)], seed)
    }
}

fn over<A: Stack + 'static, B: Stack + 'static>(
    link: &Link,
    stack: A,
    peer: B,
    options: &Options,
) -> Result<Value, Box<dyn Error>> {
    let ours = Net::new(stack, link.time(0));
    let theirs = Net::new(peer, link.time(1));
    link.attach(0, ours.clone());
    link.attach(1, theirs.clone());
    link.run_until(link.now() + SETTLE);
    link.detach(0);
    link.detach(1);
    link.set_paths(options.path);
    if let Some(path) = &options.capture {
        let mut file = BufWriter::new(File::create(path)?);
        link.capture(move |bytes| file.write_all(bytes).expect("the capture's file has room"));
    }
    let progress = Rc::default();
    let at = |address: [u8; 4]| SocketAddr::new(IpAddr::from(address), PORT);
    let began = link.now();
    let last = match options.work {
        Work::Out => drive(
            link,
            Side {
                program: Sender::new(&ours, at(PEER), options, &progress)?,
                net: ours.clone(),
            },
            Side {
                program: Receiver::new(&theirs, at(PEER), options, &progress)?,
                net: theirs.clone(),
            },
            options,
            &progress,
        ),
        Work::In => drive(
            link,
            Side {
                program: Receiver::new(&ours, at(STACK), options, &progress)?,
                net: ours.clone(),
            },
            Side {
                program: Sender::new(&theirs, at(STACK), options, &progress)?,
                net: theirs.clone(),
            },
            options,
            &progress,
        ),
        Work::Requests => drive(
            link,
            Side {
                program: Server::new(&ours, at(STACK), options, &progress)?,
                net: ours.clone(),
            },
            Side {
                program: Client::new(&theirs, at(STACK), options, &progress)?,
                net: theirs.clone(),
            },
            options,
            &progress,
        ),
    };
    link.detach(1);
    let elapsed = last.micros() - began.micros();
    let figures = |net: (Capabilities, Statistics), counters| side(&net.0, &net.1, counters);
    let ours = ours.with(|stack| (stack.capabilities(), stack.statistics()));
    let theirs = theirs.with(|stack| (stack.capabilities(), stack.statistics()));
    let bulk = options.work != Work::Requests;
    let done = progress.done.get();
    let rate = done as f64 / elapsed.max(1) as f64;
    Ok(json!({
        "settings": settings(options),
        "whole": progress.ended.get().is_some(),
        "failed": *progress.failed.borrow(),
        "done": done,
        "elapsed_us": elapsed,
        // Bits per microsecond are megabits per second.
        "goodput_mbit": bulk.then_some(rate * 8.0),
        "requests_per_s": (!bulk).then_some(rate * 1e6),
        "digest": options.digest.then(|| format!("{:016x}", link.digest())),
        "stack": figures(ours, link.counters(0)),
        "peer": figures(theirs, link.counters(1)),
    }))
}

/// Advances both sides until the work is done or has failed, or the limit is reached; returns the
/// time.
fn drive<A: Stack + 'static, B: Stack + 'static>(
    link: &Link,
    mut ours: Side<A, impl Program>,
    theirs: Side<B, impl Program + 'static>,
    options: &Options,
    progress: &Progress,
) -> Instant {
    let mut theirs = theirs;
    theirs.program.start();
    ours.program.start();
    link.attach(1, theirs);
    let mut time = link.time(0);
    let limit = link.now() + options.limit;
    loop {
        let now = link.now();
        let due = swapstone_net_virtual_subject(&mut ours, now);
        if let Some(ended) = progress.ended.get() {
            return ended;
        }
        if now >= limit || progress.failed.borrow().is_some() {
            return now;
        }
        // A side that is due again at once runs one microsecond later.
        let next = Instant::from_micros(now.micros() + 1);
        time.wait(Some(due.map_or(limit, |due| due.max(next)).min(limit)));
    }
}

/// All work of the measured side and none of its peer's. Callgrind counts instructions in this
/// function, by its name.
// SAFETY: the name is unique.
#[unsafe(no_mangle)]
#[inline(never)]
fn swapstone_net_virtual_subject(side: &mut dyn Endpoint, now: Instant) -> Option<Instant> {
    while side.advance(now) {}
    side.deadline(now)
}

fn settings(options: &Options) -> Value {
    let path = &options.path;
    let limits = &options.limits;
    json!({
        "work": options.work.name(),
        "bytes": options.bytes,
        "requests": options.requests,
        "connections": options.connections,
        "request": options.request,
        "response": options.response,
        "shared": options.shared,
        "checked": options.check,
        "bandwidth": path.bandwidth,
        "delay_us": micros(path.delay),
        "loss_ppm": path.loss_ppm,
        "reorder_ppm": path.reorder_ppm,
        "reorder_by_us": micros(path.reorder_by),
        "queue": path.queue.frames,
        "mtu": options.mtu,
        "seed": options.seed,
        "receive_buffer": limits.receive_buffer,
        "send_buffer": limits.send_buffer,
        "packet_memory": limits.packet_memory,
    })
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

fn side(can: &Capabilities, all: &Statistics, path: Counters) -> Value {
    json!({
        "name": can.name,
        "version": can.version,
        "congestion_control": can.congestion_control,
        "retransmitted": all.retransmitted,
        "malformed": all.malformed,
        "no_room": all.no_room,
        "frames_in": all.frames_in,
        "frames_out": all.frames_out,
        "path": {
            "sent": path.sent,
            "bytes": path.bytes,
            "lost": path.lost,
            "reordered": path.reordered,
            "dropped": path.dropped,
            "refused": path.refused,
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(stack: &str, peer: &str, work: Work) -> Options {
        let mut options = Options {
            stack: stack.into(),
            peer: peer.into(),
            work,
            bytes: 300_000,
            requests: 50,
            connections: 3,
            ..Options::default()
        };
        options.path.loss_ppm = 10_000;
        options.path.reorder_ppm = 10_000;
        options
    }

    #[test]
    fn every_work_between_all_stacks_is_whole_and_the_same_again() {
        // One test for all, because a process can have one lwIP.
        for (stack, peer) in [
            ("lwip", "smoltcp"),
            ("smoltcp", "lwip"),
            ("smoltcp", "smoltcp"),
        ] {
            for work in [Work::Out, Work::In, Work::Requests] {
                let options = small(stack, peer, work);
                let first = run(&options).unwrap();
                assert_eq!(first["failed"], Value::Null, "{stack} {peer} {work:?}");
                assert_eq!(first["whole"], true, "{stack} {peer} {work:?}");
                let wanted = if work == Work::Requests { 50 } else { 300_000 };
                assert_eq!(first["done"], wanted);
                let lost = |side: &str| first[side]["path"]["lost"].as_u64().unwrap();
                assert!(lost("stack") + lost("peer") > 0, "{stack} {peer} {work:?}");
                if (stack, peer) == ("smoltcp", "smoltcp") {
                    // lwIP's counter of IPv4 identifications is not reset within a process.
                    assert_eq!(run(&options).unwrap(), first);
                    let other = run(&Options { seed: 2, ..options }).unwrap();
                    assert_ne!(other["digest"], first["digest"]);
                }
            }
        }
    }

    #[test]
    fn lwip_is_not_its_own_peer() {
        let error = run(&small("lwip", "lwip", Work::Out)).unwrap_err();
        assert!(error.to_string().contains("one in a process"));
    }
}
