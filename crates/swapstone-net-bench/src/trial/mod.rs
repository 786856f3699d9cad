// SPDX-License-Identifier: MIT OR Apache-2.0
//! A complete trial: `swapstone-net-bench trial --stack lwip --work http-churn` creates a network
//! namespace, runs a server on the stack and a client on the kernel's, and prints figures and
//! observations of the server for Swapstone (docs/wire.md, section 4). In the works
//! `counts-client-*` the client is on the stack and is measured.
//!
//! The namespaces belong to these processes and are removed when they end.

mod emulator;
mod figures;
mod guest;
mod namespace;
mod network;
mod place;
mod readings;
mod seen;
mod setting;
mod works;

use std::error::Error;
use std::io::{Read, Write};

use lexopt::prelude::*;

use place::{KERNEL, Place, Setup};

pub const HELP: &str = "\
Usage: swapstone-net-bench trial --work WORK [--stack STACK] [--link LINK] [--seed N] [--clients N] [--guest FILE]

It needs root. Without --stack, the environment variable NETSTACK names the stack.
Stacks: kernel (with cubic), kernel:reno, kernel:bbr or another congestion control of the kernel's; lwip, smoltcp, STACK:shipped, STACK:without-FIX,
STACK:OPTION=VALUE (see the options of swapstone-net-bench --help).
The kernel of the client has the same congestion control as that of the server; beside lwip and smoltcp it has cubic.
The host's own default has no effect.
Without --link, the environment variable LINK names the emulated link; without both, the devices are connected directly.
LINK is clean, or parts joined by +: loss:1%, reorder:1% (held by 1 ms), duplicate:1%, corrupt:1% (a bit is flipped), delay:10ms;
of every frame, in both directions. --seed decides which frames; the default differs in each run, and is among its facts.
Works: http-keepalive, http-churn, ab, bulk-in, bulk-out, udp-in, round-trip; in a build that counts: counts-plain, counts-tuned,
counts-client-plain, counts-client-tuned (the client is on the stack, and the server on the kernel's);
fixes-churn, fixes-bulk-in, fixes-bulk-out, fixes-round-trip; clients-keepalive, clients-churn; for an emulated link: link-out, link-in;
on a machine without an operating system, emulated by QEMU (stacks lwip and smoltcp): bare-keepalive, bare-churn, bare-ab.
--guest is the program of that machine, of swapstone-net-guest; by default it is the file guest beside this program.
--clients, or the environment variable CLIENTS, is how many connections the client has at once: of works with HTTP, 1 to 1000.
";

/// The most connections of a client: each needs a file descriptor, of which 1024 are usual.
const MOST_CLIENTS: usize = 1000;

/// Runs a trial; `arguments` are those after the first one.
///
/// # Errors
///
/// A requirement is missing, or a request failed: such a trial has no figures.
pub fn run() -> Result<(), Box<dyn Error>> {
    let (mut work, mut stack, mut link, mut seed) = (None, None, None, None);
    let mut guest = None;
    let mut clients = std::env::var("CLIENTS").ok();
    let mut parser = lexopt::Parser::from_args(std::env::args_os().skip(2));
    while let Some(argument) = parser.next()? {
        match argument {
            Long("work") => work = Some(parser.value()?.string()?),
            Long("stack") => stack = Some(parser.value()?.string()?),
            Long("link") => link = Some(parser.value()?.string()?),
            Long("seed") => seed = Some(parser.value()?.parse()?),
            Long("clients") => clients = Some(parser.value()?.string()?),
            Long("guest") => guest = Some(parser.value()?.string()?),
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(());
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let work = works::find(&work.ok_or("a trial needs --work")?)?;
    let link = link.or_else(|| std::env::var("LINK").ok());
    let link = match link.as_deref().map(str::trim) {
        None | Some("") => None,
        Some(text) => Some((setting::parse(text)?, seed.map_or_else(any_seed, Ok)?)),
    };
    let stack = match stack.or_else(|| std::env::var("NETSTACK").ok()) {
        Some(stack) => stack,
        None if link.is_some() || clients.is_some() => KERNEL.to_owned(),
        None => return Err("a trial needs --stack, or NETSTACK".into()),
    };
    let (stack, control) = stack_and_control(stack.trim());
    let setup = Setup {
        stack,
        control,
        link,
        clients: clients.as_deref().map(parse_clients).transpose()?,
        guest: guest.as_deref(),
    };
    if work.is_bare() && (setup.stack == KERNEL || setup.link.is_some()) {
        return Err(format!(
            "{} runs without an operating system: the stack is lwip or smoltcp, and no link is emulated",
            work.name
        )
        .into());
    }
    let report = measure(work, &setup)?;
    let mut out = std::io::stdout().lock();
    out.write_all(report.as_bytes())?;
    out.flush()?;
    Ok(())
}

fn parse_clients(text: &str) -> Result<usize, String> {
    let number = text.trim().parse().ok();
    number
        .filter(|clients| (1..=MOST_CLIENTS).contains(clients))
        .ok_or_else(|| format!("{text:?} is no number of clients from 1 to {MOST_CLIENTS}"))
}

/// Returns a seed that differs from run to run.
fn any_seed() -> Result<u64, Box<dyn Error>> {
    let mut bytes = [0; 4];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u32::from_le_bytes(bytes).into())
}

/// Splits `kernel:CONTROL`. Other stacks keep their text, and their client's kernel has the default.
fn stack_and_control(text: &str) -> (&str, &str) {
    match text.split_once(':') {
        Some((KERNEL, control)) => (KERNEL, control),
        _ => (text, network::DEFAULT_CONTROL),
    }
}

fn measure(work: &works::Work, setup: &Setup<'_>) -> Result<String, Box<dyn Error>> {
    let mut place = Place::make(setup, work)?;
    let ended = place.client();
    // The measured process is observed while it still runs, after its work.
    let seen = place.observe();
    let facts = place.facts();
    let link = place.end_link();
    let served = place.stop();
    let (client, in_time) = ended?;
    let served = served?;
    if !in_time {
        return Err(format!("the client did not end within {} s", place::LONGEST_S).into());
    }
    let figures = readings::read(work, &client, &served)?;
    let mut sight = seen?;
    let (side, measured) = if work.measures_client() {
        ("client", readings::last_line(&client)?)
    } else {
        ("server", served)
    };
    sight.push(("stack".into(), seen::named(&measured)));
    if setup.stack != KERNEL {
        sight.extend(network::reported(side, &measured));
    }
    if setup.clients.is_some()
        && let Some(clients) = work.client.reported_clients(&client)
    {
        sight.push(("clients".into(), clients.to_string()));
    }
    sight.extend(facts?);
    sight.extend(link?);
    Ok(figures::encode(
        &work.name.replace('-', "_"),
        &sight,
        &figures,
    ))
}

#[cfg(test)]
pub mod tests {
    use super::*;

    /// Held by tests that open a TAP, or look for open ones: threads share their descriptors.
    pub static TAPS: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn the_number_of_clients_is_limited() {
        assert_eq!(parse_clients("   1"), Ok(1));
        assert_eq!(parse_clients("1000"), Ok(1000));
        for text in ["0", "1001", "", "ten"] {
            assert!(parse_clients(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn only_the_kernel_has_a_choice_of_congestion_control() {
        assert_eq!(stack_and_control("kernel"), ("kernel", "cubic"));
        assert_eq!(stack_and_control("kernel:bbr"), ("kernel", "bbr"));
        assert_eq!(stack_and_control("lwip"), ("lwip", "cubic"));
        assert_eq!(
            stack_and_control("smoltcp:shipped"),
            ("smoltcp:shipped", "cubic")
        );
    }
}
