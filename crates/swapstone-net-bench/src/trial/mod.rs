// SPDX-License-Identifier: MIT OR Apache-2.0
//! A complete trial: `swapstone-net-bench trial --stack lwip --work http-churn` creates a network
//! namespace, runs a server on the stack and a client on the kernel's, and prints figures and
//! observations of the server for Swapstone (docs/wire.md, section 4).
//!
//! The namespaces belong to these processes and are removed when they end.

mod figures;
mod network;
mod place;
mod seen;
mod works;

use std::error::Error;
use std::io::Write;

use lexopt::prelude::*;

use place::Place;

pub const HELP: &str = "\
Usage: swapstone-net-bench trial --work WORK [--stack STACK] [--congestion-control NAME]

It needs root. Without --stack, the environment variable NETSTACK names the stack.
--congestion-control is that of the kernel's TCP in every namespace, default cubic; the host's own default has no effect.
Works: http-keepalive, http-churn, ab, bulk-in, bulk-out, udp-in, round-trip; in a build that counts: counts-plain, counts-tuned.
";

/// Runs a trial; `arguments` are those after the first one.
///
/// # Errors
///
/// A requirement is missing, or a request failed: such a trial has no figures.
pub fn run() -> Result<(), Box<dyn Error>> {
    let (mut work, mut stack) = (None, None);
    let mut control = network::DEFAULT_CONTROL.to_owned();
    let mut parser = lexopt::Parser::from_args(std::env::args_os().skip(2));
    while let Some(argument) = parser.next()? {
        match argument {
            Long("work") => work = Some(parser.value()?.string()?),
            Long("stack") => stack = Some(parser.value()?.string()?),
            Long("congestion-control") => control = parser.value()?.string()?,
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let work = works::find(&work.ok_or("a trial needs --work")?)?;
    let stack = match stack {
        Some(stack) => stack,
        None => std::env::var("NETSTACK").map_err(|_| "a trial needs --stack, or NETSTACK")?,
    };
    let report = measure(work, stack.trim(), &control)?;
    let mut out = std::io::stdout().lock();
    out.write_all(report.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn measure(work: &works::Work, stack: &str, control: &str) -> Result<String, Box<dyn Error>> {
    let mut place = Place::make(stack, work, control)?;
    let ended = place.client(work);
    // The server is observed while it still runs, after its work.
    let seen = seen::of(place.server_id());
    let facts = place.facts();
    let served = place.stop()?;
    let (client, in_time) = ended?;
    if !in_time {
        return Err(format!("the client did not end within {} s", place::LONGEST_S).into());
    }
    let measured = works::read(work, &client, &served)?;
    let mut sight = seen?;
    sight.push(("stack".into(), seen::named(&served)));
    if stack != "kernel" {
        sight.extend(network::reported(&served));
    }
    sight.extend(facts?);
    Ok(figures::encode(
        &work.name.replace('-', "_"),
        &sight,
        &measured,
    ))
}
