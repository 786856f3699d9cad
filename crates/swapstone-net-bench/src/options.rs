// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line.

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::str::FromStr;
use std::time::Duration;

use lexopt::prelude::*;
use serde::Serialize;
use swapstone_net::{Cidr, Limits};
use swapstone_net_apps::{Receive, Send};

pub const HELP: &str = "\
Usage: swapstone-net-bench --stack STACK [OPTION...] ROLE
       swapstone-net-bench trial --work WORK [--stack STACK]   (both sides, in namespaces of its own; see trial --help)

Stacks: kernel, and those that this build has of lwip and smoltcp; STACK:shipped is without fixes, STACK:without-FIX without one.
STACK:OPTION=VALUE tunes it, several parts are joined by +: buffers=256KiB; of smoltcp pools=N (sockets). Other options are set when
a stack is compiled, and a name with another value is refused: of lwip checksum-on-copy, oversize, ooseq, pools; of smoltcp ooseq.

Roles that listen (on --listen, default 0.0.0.0:80):
  http         serve a page at any path, and N bytes at /bytes/N
  echo         send back what arrives
  source       send --bytes, or without limit, to each client that connects
  sink         receive from each client that connects
  udp-sink     count datagrams
Roles that connect (to --connect):
  http-client  -c connections, -n requests one after another on each, all in all
  churn        the same, with a connection for each request, which the client closes
  ping         -c connections, -n messages of --size bytes, each sent when the one before is back
  source, sink as above, towards --connect if it is given; then it ends with the connection
  udp-blast    datagrams of --size bytes as fast as they can be sent, -n of them or for --seconds

Work:
  -c N  -n N  --seconds S  --size BYTES  --bytes BYTES  --page BYTES (of http's page, default 340)
  --path PATH (that http-client requests)  --abandon               source, at the end of --seconds: end, and don't wait until all is acknowledged
  --warm-up N              http-client: N requests before those that are measured
  --await-close            http-client, with --close server: a request ends with the server's FIN
  --hold                   http-client: after its work, open one more connection and hold it until a signal arrives
  --close none|server|client (who closes after a response)
How the application uses the stack:
  --receive copy|borrow   into a buffer of its own, or looking at the bytes where they are (default borrow)
  --send copy|shared      from any memory, or from memory that stays unchanged (default shared)
  --no-nodelay            let small pieces wait (Nagle's algorithm)
The device, for stacks other than the kernel's:
  --tap NAME  --address IP/PREFIX (may be repeated)  --gateway IP  --mtu BYTES  --no-offload  --frames N
  --random                ports and sequence numbers from the machine's randomness instead of a fixed seed
Limits of the stack:
  --tcp-sockets N  --udp-sockets N  --receive-buffer BYTES  --send-buffer BYTES  --datagrams N
  --packet-memory BYTES  --backlog N
  --fixed-buffers         of the kernel's stack: buffers of these sizes, instead of its own measure
";

/// Which side closes a connection after a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Close {
    None,
    Server,
    Client,
}

/// The parsed options.
#[derive(Clone, Debug)]
pub struct Options {
    pub stack: String,
    pub role: String,
    pub listen: SocketAddr,
    pub connect: Option<SocketAddr>,
    pub connections: usize,
    pub requests: Option<u64>,
    pub time: Option<Duration>,
    pub abandon: bool,
    pub size: usize,
    pub bytes: Option<u64>,
    pub page: usize,
    pub path: String,
    pub close: Option<Close>,
    /// Requests before those that are measured; none if 0.
    pub warm_up: u64,
    pub await_close: bool,
    pub hold: bool,
    pub receive: Receive,
    pub send: Send,
    pub nodelay: bool,
    pub tap: Option<String>,
    pub addresses: Vec<Cidr>,
    pub gateway: Option<Ipv4Addr>,
    pub mtu: usize,
    pub offload: bool,
    pub frames: usize,
    pub random: bool,
    pub limits: Limits,
    pub backlog: usize,
    pub fixed_buffers: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            stack: String::new(),
            role: String::new(),
            listen: SocketAddr::from(([0, 0, 0, 0], 80)),
            connect: None,
            connections: 1,
            requests: None,
            time: None,
            abandon: false,
            size: 64,
            bytes: None,
            page: 340,
            path: "/".into(),
            close: None,
            warm_up: 0,
            await_close: false,
            hold: false,
            receive: Receive::Borrow,
            send: Send::Shared,
            nodelay: true,
            tap: None,
            addresses: Vec::new(),
            gateway: None,
            mtu: 1500,
            offload: true,
            frames: 4096,
            random: false,
            limits: Limits::default(),
            backlog: 511,
            fixed_buffers: false,
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
    while let Some(argument) = parser.next()? {
        let name = match argument {
            Short('h') => return Ok(Asked::Help),
            Short(letter) => letter.to_string(),
            Long(name) => name.to_owned(),
            Value(role) if options.role.is_empty() => {
                options.role = role.string()?;
                continue;
            }
            Value(more) => return Err(format!("one role, not also {more:?}").into()),
        };
        if name == "help" {
            return Ok(Asked::Help);
        }
        if switch(&mut options, &name) {
            continue;
        }
        let value = parser.value()?.string()?;
        if !set(&mut options, &name, &value)
            .map_err(|error| format!("--{name} {value}: {error}"))?
        {
            return Err(format!("there is no option {name}").into());
        }
    }
    if options.stack.is_empty() || options.role.is_empty() {
        return Err("it needs --stack and a role".into());
    }
    Ok(Asked::Run(Box::new(options)))
}

fn switch(options: &mut Options, name: &str) -> bool {
    match name {
        "no-nodelay" => options.nodelay = false,
        "no-offload" => options.offload = false,
        "abandon" => options.abandon = true,
        "random" => options.random = true,
        "await-close" => options.await_close = true,
        "hold" => options.hold = true,
        "fixed-buffers" => options.fixed_buffers = true,
        _ => return false,
    }
    true
}

/// Parses an option; `false` if its name is unknown.
fn set(options: &mut Options, name: &str, value: &str) -> Result<bool, Box<dyn Error>> {
    let limits = &mut options.limits;
    match name {
        "stack" => options.stack = value.into(),
        "listen" => options.listen = value.parse()?,
        "connect" => options.connect = Some(value.parse()?),
        "c" => options.connections = positive(value)?,
        "n" => options.requests = Some(value.parse()?),
        "seconds" => options.time = Some(Duration::try_from_secs_f64(value.parse()?)?),
        "size" => options.size = positive(value)?,
        "bytes" => options.bytes = Some(value.parse()?),
        "page" => options.page = value.parse()?,
        "path" => options.path = value.into(),
        "warm-up" => options.warm_up = value.parse()?,
        "close" => {
            options.close = Some(one_of(
                value,
                &[
                    ("none", Close::None),
                    ("server", Close::Server),
                    ("client", Close::Client),
                ],
            )?)
        }
        "receive" => {
            options.receive = one_of(
                value,
                &[("copy", Receive::Copy), ("borrow", Receive::Borrow)],
            )?
        }
        "send" => options.send = one_of(value, &[("copy", Send::Copy), ("shared", Send::Shared)])?,
        "tap" => options.tap = Some(value.into()),
        "address" => options.addresses.push(cidr(value)?),
        "gateway" => options.gateway = Some(value.parse()?),
        "mtu" => options.mtu = positive(value)?,
        "frames" => options.frames = positive(value)?,
        "tcp-sockets" => limits.tcp_sockets = value.parse()?,
        "udp-sockets" => limits.udp_sockets = value.parse()?,
        "receive-buffer" => limits.receive_buffer = positive(value)?,
        "send-buffer" => limits.send_buffer = positive(value)?,
        "datagrams" => limits.datagrams = positive(value)?,
        "packet-memory" => limits.packet_memory = positive(value)?,
        "backlog" => options.backlog = positive(value)?,
        _ => return Ok(false),
    }
    Ok(true)
}

fn positive(value: &str) -> Result<usize, Box<dyn Error>> {
    match usize::from_str(value)? {
        0 => Err("it must be at least 1".into()),
        number => Ok(number),
    }
}

fn one_of<T: Copy>(value: &str, choices: &[(&str, T)]) -> Result<T, Box<dyn Error>> {
    let found = choices.iter().find(|(name, _)| *name == value);
    let names = || -> Vec<&str> { choices.iter().map(|(name, _)| *name).collect() };
    found
        .map(|(_, choice)| *choice)
        .ok_or_else(|| format!("it is one of {}", names().join(", ")).into())
}

fn cidr(value: &str) -> Result<Cidr, Box<dyn Error>> {
    let (address, prefix) = value.split_once('/').ok_or("it is IP/PREFIX")?;
    let address: std::net::IpAddr = address.parse()?;
    let prefix: u8 = prefix.parse()?;
    if prefix > if address.is_ipv4() { 32 } else { 128 } {
        return Err("the prefix is longer than the address".into());
    }
    Ok(Cidr::new(address, prefix))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &str) -> Result<Options, String> {
        let words = std::iter::once("swapstone-net-bench").chain(words.split_whitespace());
        match parse_from(lexopt::Parser::from_iter(words)) {
            Ok(Asked::Run(options)) => Ok(*options),
            Ok(Asked::Help) => Err("help".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn options_are_taken_in() {
        let options = parsed(
            "--stack lwip http-client -c 7 -n 9 --seconds 0.5 --connect 10.0.0.1:80 --receive copy --send copy \
             --address 10.0.0.2/24 --address fd00::2/64 --no-offload --tcp-sockets 8 --close client \
             --warm-up 2 --await-close --hold",
        )
        .unwrap();
        assert_eq!(
            (options.stack.as_str(), options.role.as_str()),
            ("lwip", "http-client")
        );
        assert_eq!((options.connections, options.requests), (7, Some(9)));
        assert_eq!(options.time, Some(Duration::from_millis(500)));
        assert_eq!(
            (options.receive, options.send, options.close),
            (Receive::Copy, Send::Copy, Some(Close::Client))
        );
        assert_eq!(
            (options.warm_up, options.await_close, options.hold),
            (2, true, true)
        );
        assert_eq!(options.addresses.len(), 2);
        assert!(!options.offload);
        assert_eq!(options.limits.tcp_sockets, 8);
    }

    #[test]
    fn mistakes_are_named() {
        let error_of = |words| parsed(words).unwrap_err();
        assert_eq!(error_of("--stack kernel"), "it needs --stack and a role");
        assert_eq!(
            error_of("--receive both http"),
            "--receive both: it is one of copy, borrow"
        );
        assert_eq!(error_of("--nonsense 1"), "there is no option nonsense");
        assert_eq!(error_of("-c 0"), "--c 0: it must be at least 1");
        assert_eq!(error_of("http sink"), "one role, not also \"sink\"");
        assert_eq!(
            error_of("--address 10.0.0.1/33"),
            "--address 10.0.0.1/33: the prefix is longer than the address"
        );
        assert_eq!(error_of("--help"), "help");
    }
}
