// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use std::error::Error;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;
use swapstone_net::Limits;
use swapstone_net_link::{Path, Queue};

pub const HELP: &str = "\
Usage: swapstone-net-virtual --stack STACK --peer STACK [OPTION...] WORK

Stacks: lwip, smoltcp; not lwip twice, which is one in a process. STACK:shipped is without fixes, STACK:without-FIX without one.

Work of the stack (its peer does the other half):
  out       connect and send --bytes
  in        take a connection and receive --bytes
  requests  answer -n requests of --request bytes with --response bytes each, one after another on each of -c connections

  --bytes N  -n N  -c N  --request BYTES  --response BYTES
  --send copy|shared     from any memory, or from memory that stays unchanged (default shared)
  --no-check             don't compare what arrives with what was sent
  --limit S              give up after so many virtual seconds (default 3600)
The link, both directions alike:
  --bandwidth BITS/S (default 1000000000)  --delay-us US (one way, default 5000)  --loss-ppm N  --reorder-ppm N
  --reorder-by-us US (how long such a frame is held up, default 1000)  --queue FRAMES (default 1000)
  --mtu BYTES (default 1500)  --seed N  --no-digest
  --capture FILE         write all frames there (pcap)
Limits of both stacks:
  --receive-buffer BYTES  --send-buffer BYTES (default 2097152 each)  --packet-memory BYTES  --tcp-sockets N
";

/// The work of the measured stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    Out,
    In,
    Requests,
}

impl Work {
    pub fn name(self) -> &'static str {
        match self {
            Self::Out => "out",
            Self::In => "in",
            Self::Requests => "requests",
        }
    }
}

/// The parsed options.
#[derive(Clone, Debug)]
pub struct Options {
    pub stack: String,
    pub peer: String,
    pub work: Work,
    pub bytes: u64,
    pub requests: u64,
    pub connections: usize,
    pub request: usize,
    pub response: usize,
    pub shared: bool,
    pub check: bool,
    pub limit: Duration,
    pub path: Path,
    pub mtu: usize,
    pub seed: u64,
    pub digest: bool,
    pub capture: Option<PathBuf>,
    pub limits: Limits,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stack: String::new(),
            peer: String::new(),
            work: Work::Out,
            bytes: 10_000_000,
            requests: 1000,
            connections: 1,
            request: 64,
            response: 340,
            shared: true,
            check: true,
            limit: Duration::from_secs(3600),
            path: Path {
                bandwidth: 1_000_000_000,
                delay: Duration::from_millis(5),
                reorder_by: Duration::from_millis(1),
                queue: Queue::default(),
                ..Path::default()
            },
            mtu: 1500,
            seed: 1,
            digest: true,
            capture: None,
            limits: Limits {
                tcp_sockets: 64,
                receive_buffer: 2 << 20,
                send_buffer: 2 << 20,
                packet_memory: 64 << 20,
                ..Limits::default()
            },
        }
    }
}

/// The parsed command line.
#[derive(Debug)]
pub enum Asked {
    Help,
    Run(Box<Options>),
}

/// Parses the command line.
pub fn parse() -> Result<Asked, Box<dyn Error>> {
    parse_from(lexopt::Parser::from_env())
}

fn parse_from(mut parser: lexopt::Parser) -> Result<Asked, Box<dyn Error>> {
    let mut options = Options::default();
    let mut work = None;
    while let Some(argument) = parser.next()? {
        let name = match argument {
            Short('h') => return Ok(Asked::Help),
            Short(letter) => letter.to_string(),
            Long("help") => return Ok(Asked::Help),
            Long(name) => name.to_owned(),
            Value(word) if work.is_none() => {
                work = Some(work_named(&word.string()?)?);
                continue;
            }
            Value(more) => return Err(format!("one kind of work, not also {more:?}").into()),
        };
        match name.as_str() {
            "no-check" => options.check = false,
            "no-digest" => options.digest = false,
            _ => {
                let value = parser.value()?.string()?;
                set(&mut options, &name, &value)
                    .map_err(|error| format!("--{name} {value}: {error}"))?;
            }
        }
    }
    options.work = work.ok_or("it needs a kind of work; see --help")?;
    if options.stack.is_empty() || options.peer.is_empty() {
        return Err("it needs --stack and --peer".into());
    }
    Ok(Asked::Run(Box::new(options)))
}

fn work_named(name: &str) -> Result<Work, Box<dyn Error>> {
    let all = [Work::Out, Work::In, Work::Requests];
    let found = all.into_iter().find(|work| work.name() == name);
    found.ok_or_else(|| format!("there is no work {name}; see --help").into())
}

/// Parses an option.
fn set(options: &mut Options, name: &str, value: &str) -> Result<(), Box<dyn Error>> {
    let limits = &mut options.limits;
    let path = &mut options.path;
    match name {
        "stack" => options.stack = value.into(),
        "peer" => options.peer = value.into(),
        "bytes" => options.bytes = value.parse()?,
        "n" => options.requests = value.parse()?,
        "c" => options.connections = positive(value)?,
        "request" => options.request = positive(value)?,
        "response" => options.response = positive(value)?,
        "send" => {
            options.shared = match value {
                "shared" => true,
                "copy" => false,
                _ => return Err("it is copy or shared".into()),
            }
        }
        "limit" => options.limit = Duration::from_secs(value.parse()?),
        "bandwidth" => path.bandwidth = value.parse()?,
        "delay-us" => path.delay = Duration::from_micros(value.parse()?),
        "loss-ppm" => path.loss_ppm = value.parse()?,
        "reorder-ppm" => path.reorder_ppm = value.parse()?,
        "reorder-by-us" => path.reorder_by = Duration::from_micros(value.parse()?),
        "queue" => path.queue.frames = positive(value)?,
        "capture" => options.capture = Some(value.into()),
        "mtu" => options.mtu = positive(value)?,
        "seed" => options.seed = value.parse()?,
        "receive-buffer" => limits.receive_buffer = positive(value)?,
        "send-buffer" => limits.send_buffer = positive(value)?,
        "packet-memory" => limits.packet_memory = positive(value)?,
        "tcp-sockets" => limits.tcp_sockets = positive(value)?,
        _ => return Err("there is no such option".into()),
    }
    Ok(())
}

fn positive(value: &str) -> Result<usize, Box<dyn Error>> {
    match usize::from_str(value)? {
        0 => Err("it must be at least 1".into()),
        number => Ok(number),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Options, String> {
        let words = std::iter::once("swapstone-net-virtual").chain(words.split_whitespace());
        match parse_from(lexopt::Parser::from_iter(words)) {
            Ok(Asked::Run(options)) => Ok(*options),
            Ok(Asked::Help) => Err("help".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn a_whole_command_line_is_read() {
        let options = parsed(
            "--stack lwip --peer smoltcp in --loss-ppm 10000 --delay-us 25000 --no-digest --send copy",
        );
        let options = options.unwrap();
        assert_eq!(options.work, Work::In);
        assert_eq!(options.path.loss_ppm, 10_000);
        assert_eq!(options.path.delay, Duration::from_millis(25));
        assert_eq!(options.path.bandwidth, 1_000_000_000);
        assert!(!options.digest && !options.shared && options.check);
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (words, part) in [
            ("--stack lwip --peer smoltcp", "kind of work"),
            ("--stack lwip out", "--peer"),
            ("--stack lwip --peer smoltcp sideways", "sideways"),
            (
                "--stack lwip --peer smoltcp out --colour red",
                "--colour red",
            ),
            ("--stack lwip --peer smoltcp out --mtu 0", "at least 1"),
        ] {
            let error = parsed(words).unwrap_err();
            assert!(error.contains(part), "{words}: {error}");
        }
    }
}
