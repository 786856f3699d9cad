// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of scripts, over the sockets of a [`System`].

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::constants::number;
use crate::script::{Call, Value, Version};
use crate::system::{AGAIN, Direction, Errno, Handle, POLLERR, POLLHUP, Setting, System};
use crate::wire;

/// The port of `bind` and `connect` with `...`.
pub const PORT: u16 = 8080;
/// The most bytes of a read or write.
const MOST_BYTES: i64 = 64 << 20;

/// The state of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// It blocks.
    Blocked,
    /// It has returned this, or an error.
    Done(Result<i64, Errno>),
    /// It returned something wrong beside its result.
    Wrong(String),
}

/// What a call did to the socket under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// A socket listens at this port.
    Listens(u16),
    /// A TCP socket connects to this port of the peer.
    Connects(u16),
    /// A UDP socket has this local port, and this port of the peer.
    Datagrams(u16, u16),
}

struct Descriptor {
    handle: Handle,
    udp: bool,
    nonblocking: bool,
    connecting: bool,
    peer_port: u16,
    /// The numbers of the next bytes to write and to read; the SYN has number 0.
    written: u32,
    read: u32,
}

/// A call that runs.
#[derive(Debug)]
pub struct Running {
    call: Call,
    /// Bytes written up to now.
    written: usize,
    /// When `poll` ends, in microseconds.
    end: Option<u64>,
}

/// The descriptors of a script.
#[derive(Default)]
pub struct Calls {
    version: Version,
    open: BTreeMap<i64, Descriptor>,
    /// What the last call did, until it is taken.
    pub effect: Option<Effect>,
}

/// Why a call can't be made by this runner.
pub type Unsupported = String;

fn unsupported<T>(what: impl Into<String>) -> Result<T, Unsupported> {
    Err(what.into())
}

impl Calls {
    /// No descriptor is open.
    pub fn new(version: Version) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    /// Starts a call.
    pub fn start(&self, call: &Call, now: u64) -> Running {
        let timeout = match call.name.as_str() {
            "poll" => call.arguments.get(2).and_then(number),
            _ => None,
        };
        let end = timeout
            .and_then(|ms| u64::try_from(ms).ok())
            .map(|ms| now.saturating_add(ms.saturating_mul(1000)));
        Running {
            call: call.clone(),
            written: 0,
            end,
        }
    }

    /// Continues a call.
    ///
    /// # Errors
    ///
    /// The runner does not support it.
    pub fn attempt(
        &mut self,
        running: &mut Running,
        system: &mut dyn System,
    ) -> Result<Attempt, Unsupported> {
        let call = running.call.clone();
        let arguments = &call.arguments;
        let count = |least: usize| match arguments.len() < least {
            true => unsupported(format!("{} needs {least} arguments", call.name)),
            false => Ok(()),
        };
        match call.name.as_str() {
            "socket" => {
                count(3)?;
                self.socket(&call, system)
            }
            "poll" => {
                count(3)?;
                self.poll(&arguments[0], running.end, system)
            }
            "bind" | "listen" | "accept" | "accept4" | "connect" | "read" | "recv" | "recvfrom"
            | "write" | "send" | "sendto" | "shutdown" | "close" | "setsockopt" | "getsockopt"
            | "fcntl" => {
                count(1)?;
                let Some(fd) = number(&arguments[0]) else {
                    return unsupported("the first argument is no file descriptor");
                };
                if !self.open.contains_key(&fd) {
                    return Ok(Attempt::Done(Err("EBADF")));
                }
                self.on(fd, running, system)
            }
            other => unsupported(format!("the call {other} is not supported by this runner")),
        }
    }

    fn socket(&mut self, call: &Call, system: &mut dyn System) -> Result<Attempt, Unsupported> {
        let ipv6 = self.version == Version::V6;
        let Some(kind) = number(&call.arguments[1]) else {
            return unsupported("the type of the socket is not known");
        };
        let nonblocking = kind & i64::from(libc::SOCK_NONBLOCK) != 0;
        let udp = kind & 0xf == i64::from(libc::SOCK_DGRAM);
        Ok(match system.socket(ipv6, udp) {
            Ok(handle) => self.add(call, handle, udp, nonblocking),
            Err(error) => Attempt::Done(Err(error)),
        })
    }

    /// Gives a socket the number that the script expects.
    fn add(&mut self, call: &Call, handle: Handle, udp: bool, nonblocking: bool) -> Attempt {
        let fd = number(&call.result).filter(|fd| *fd >= 0);
        let fd = fd.unwrap_or_else(|| self.open.keys().max().map_or(3, |last| last + 1));
        self.open.insert(
            fd,
            Descriptor {
                handle,
                udp,
                nonblocking,
                connecting: false,
                peer_port: PORT,
                written: 1,
                read: 1,
            },
        );
        Attempt::Done(Ok(fd))
    }

    fn address(&self, value: Option<&Value>, bind: bool) -> SocketAddr {
        let ip: IpAddr = match (bind, self.version) {
            (true, Version::V4) => Ipv4Addr::UNSPECIFIED.into(),
            (true, Version::V6) => Ipv6Addr::UNSPECIFIED.into(),
            (false, version) => wire::peer(version),
        };
        let mut port = PORT;
        if let Some(Value::Fields(fields)) = value {
            let given = fields.iter().find(|(name, _)| name.ends_with("_port"));
            let given = given.and_then(|(_, value)| number(value));
            port = given
                .and_then(|port| u16::try_from(port).ok())
                .unwrap_or(port);
        }
        SocketAddr::new(ip, port)
    }

    fn on(
        &mut self,
        fd: i64,
        running: &mut Running,
        system: &mut dyn System,
    ) -> Result<Attempt, Unsupported> {
        let call = running.call.clone();
        let arguments = &call.arguments;
        let handle = self.open[&fd].handle;
        let zero = |done: Result<(), Errno>| Ok(Attempt::Done(done.map(|()| 0)));
        match call.name.as_str() {
            "bind" => {
                let address = self.address(arguments.get(1), true);
                zero(system.bind(handle, address).inspect(|()| {
                    if self.open[&fd].udp {
                        self.effect = Some(Effect::Datagrams(address.port(), PORT));
                    }
                }))
            }
            "listen" => {
                let backlog = arguments.get(1).and_then(number).unwrap_or(1);
                let done = system.listen(handle, usize::try_from(backlog).unwrap_or(1));
                if done.is_ok() {
                    let port = system.local_port(handle).unwrap_or(PORT);
                    self.effect = Some(Effect::Listens(port));
                }
                zero(done)
            }
            "accept" | "accept4" => Ok(match system.accept(handle) {
                Ok(accepted) => {
                    let flags = arguments.get(3).and_then(number).unwrap_or(0);
                    let nonblocking = flags & i64::from(libc::SOCK_NONBLOCK) != 0;
                    self.add(&call, accepted, false, nonblocking)
                }
                Err(error) => self.blocked(fd, error),
            }),
            "connect" => Ok(self.connect(fd, arguments.get(1), system)),
            "read" | "recv" | "recvfrom" => self.read(fd, &call, system),
            "write" | "send" | "sendto" => self.write(fd, running, system),
            "shutdown" => {
                let which = match arguments.get(1).and_then(number) {
                    Some(0) => Direction::Read,
                    Some(1) => Direction::Write,
                    Some(2) => Direction::Both,
                    _ => return Ok(Attempt::Done(Err("EINVAL"))),
                };
                zero(system.shutdown(handle, which))
            }
            "close" => {
                self.open.remove(&fd);
                zero(system.close(handle))
            }
            "setsockopt" => {
                let setting = setting(arguments)?;
                zero(system.set(handle, setting))
            }
            "getsockopt" => self.option(handle, arguments, system),
            _ => self.fcntl(fd, arguments),
        }
    }

    /// Whether a call blocks or returns the error.
    fn blocked(&self, fd: i64, error: Errno) -> Attempt {
        match error == AGAIN && !self.open[&fd].nonblocking {
            true => Attempt::Blocked,
            false => Attempt::Done(Err(error)),
        }
    }

    fn connect(&mut self, fd: i64, address: Option<&Value>, system: &mut dyn System) -> Attempt {
        let peer = self.address(address, false);
        let socket = self.open.get_mut(&fd).expect("it is open");
        let done = system.connect(socket.handle, peer);
        socket.peer_port = peer.port();
        if socket.udp {
            let local = system.local_port(socket.handle).unwrap_or(PORT);
            self.effect = Some(Effect::Datagrams(local, peer.port()));
        } else if !socket.connecting {
            self.effect = Some(Effect::Connects(peer.port()));
        }
        let waits = matches!(done, Err("EINPROGRESS" | "EALREADY"));
        let blocks = waits && !socket.nonblocking;
        socket.connecting = waits;
        match blocks {
            true => Attempt::Blocked,
            false => Attempt::Done(done.map(|()| 0)),
        }
    }

    fn read(
        &mut self,
        fd: i64,
        call: &Call,
        system: &mut dyn System,
    ) -> Result<Attempt, Unsupported> {
        let Some(most) = call.arguments.get(2).and_then(number) else {
            return unsupported("the size of the buffer is not known");
        };
        let dont_wait = dont_wait(call)?;
        let most = usize::try_from(most.clamp(0, MOST_BYTES)).expect("it was clamped");
        let socket = &self.open[&fd];
        let bytes = match system.receive(socket.handle, most) {
            Ok(bytes) => bytes,
            Err(error) if dont_wait => return Ok(Attempt::Done(Err(error))),
            Err(error) => return Ok(self.blocked(fd, error)),
        };
        let from = if socket.udp { 0 } else { socket.read };
        if bytes != wire::stream(from, bytes.len()) {
            let text = format!("{} returned other bytes than the peer sent", call.name);
            return Ok(Attempt::Wrong(text));
        }
        let size = u32::try_from(bytes.len()).expect("at most MOST_BYTES");
        self.open.get_mut(&fd).expect("it is open").read += size;
        Ok(Attempt::Done(Ok(size.into())))
    }

    fn write(
        &mut self,
        fd: i64,
        running: &mut Running,
        system: &mut dyn System,
    ) -> Result<Attempt, Unsupported> {
        let call = &running.call;
        let Some(size) = call.arguments.get(2).and_then(number) else {
            return unsupported("the number of bytes is not known");
        };
        let dont_wait = dont_wait(call)?;
        let size = usize::try_from(size.clamp(0, MOST_BYTES)).expect("it was clamped");
        let to = match call.name.as_str() {
            "sendto" if call.arguments.len() > 4 => {
                Some(self.address(call.arguments.get(4), false))
            }
            _ => None,
        };
        let socket = self.open.get_mut(&fd).expect("it is open");
        let nonblocking = socket.nonblocking || dont_wait;
        let udp = socket.udp;
        let from = if udp { 0 } else { socket.written };
        let bytes = wire::stream(from, size - running.written);
        let done = system.send(socket.handle, &bytes, to);
        match done {
            Ok(sent) => {
                running.written += sent;
                socket.written += u32::try_from(sent).expect("at most MOST_BYTES");
                if let (true, Some(local)) = (udp, system.local_port(socket.handle)) {
                    let port = to.map_or(socket.peer_port, |to| to.port());
                    self.effect = Some(Effect::Datagrams(local, port));
                }
                let whole = running.written == size || nonblocking;
                let sent = i64::try_from(running.written).expect("at most MOST_BYTES");
                Ok(if whole {
                    Attempt::Done(Ok(sent))
                } else {
                    Attempt::Blocked
                })
            }
            Err(AGAIN) if !nonblocking => Ok(Attempt::Blocked),
            Err(error) => Ok(Attempt::Done(Err(error))),
        }
    }

    fn option(
        &mut self,
        handle: Handle,
        arguments: &[Value],
        system: &mut dyn System,
    ) -> Result<Attempt, Unsupported> {
        let level = arguments.get(1).and_then(number);
        let name = arguments.get(2).and_then(number);
        if (level, name) != (Some(libc::SOL_SOCKET.into()), Some(libc::SO_ERROR.into())) {
            return unsupported("getsockopt is supported for SOL_SOCKET, SO_ERROR only");
        }
        let seen = match system.error(handle) {
            Ok(error) => error.unwrap_or("0"),
            Err(error) => return Ok(Attempt::Done(Err(error))),
        };
        let expected = match arguments.get(3) {
            Some(Value::List(values)) if values.len() == 1 => match &values[0] {
                Value::Name(name) => name.clone(),
                Value::Number(0) => "0".into(),
                _ => return unsupported("SO_ERROR is [0] or the name of an error"),
            },
            _ => return unsupported("SO_ERROR needs the expected value in brackets"),
        };
        Ok(match expected == seen {
            true => Attempt::Done(Ok(0)),
            false => Attempt::Wrong(format!("SO_ERROR is {seen} instead of {expected}")),
        })
    }

    fn fcntl(&mut self, fd: i64, arguments: &[Value]) -> Result<Attempt, Unsupported> {
        let socket = self.open.get_mut(&fd).expect("it is open");
        let flag = i64::from(libc::O_NONBLOCK);
        let command = arguments.get(1).and_then(number);
        if command == Some(libc::F_GETFL.into()) {
            let set = if socket.nonblocking { flag } else { 0 };
            return Ok(Attempt::Done(Ok(i64::from(libc::O_RDWR) | set)));
        }
        match arguments.get(2).and_then(number) {
            Some(flags) if command == Some(libc::F_SETFL.into()) => {
                socket.nonblocking = flags & flag != 0;
                Ok(Attempt::Done(Ok(0)))
            }
            _ => unsupported("fcntl is supported for F_GETFL and F_SETFL only"),
        }
    }

    fn poll(
        &mut self,
        list: &Value,
        end: Option<u64>,
        system: &mut dyn System,
    ) -> Result<Attempt, Unsupported> {
        let Value::List(entries) = list else {
            return unsupported("poll needs a list of {fd=, events=, revents=}");
        };
        let mut ready = 0;
        let mut wrong = None;
        for entry in entries {
            let Value::Fields(fields) = entry else {
                return unsupported("poll needs {fd=, events=, revents=}");
            };
            let field = |name: &str| {
                let found = fields.iter().find(|(each, _)| each == name);
                found.and_then(|(_, value)| number(value))
            };
            let (Some(fd), Some(events)) = (field("fd"), field("events")) else {
                return unsupported("poll needs fd and events");
            };
            let Some(socket) = self.open.get(&fd) else {
                return unsupported(format!("the descriptor {fd} is not open"));
            };
            let seen = system.poll(socket.handle) & (events | POLLERR | POLLHUP);
            ready += i64::from(seen != 0);
            if let Some(expected) = field("revents").filter(|expected| *expected != seen) {
                wrong = Some(format!(
                    "revents of {fd} is {seen:#x} instead of {expected:#x}"
                ));
            }
        }
        let ended = end.is_some_and(|end| system.now() >= end);
        Ok(match wrong {
            _ if ready == 0 && !ended => Attempt::Blocked,
            Some(text) => Attempt::Wrong(text),
            None => Attempt::Done(Ok(ready)),
        })
    }
}

/// Whether the flags of a call have `MSG_DONTWAIT`.
fn dont_wait(call: &Call) -> Result<bool, Unsupported> {
    let Some(flags) = call.arguments.get(3) else {
        return Ok(false);
    };
    let supported = i64::from(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL);
    match number(flags) {
        Some(flags) if flags & !supported == 0 => Ok(flags & i64::from(libc::MSG_DONTWAIT) != 0),
        _ => unsupported("the supported flags are MSG_DONTWAIT and MSG_NOSIGNAL"),
    }
}

fn setting(arguments: &[Value]) -> Result<Setting, Unsupported> {
    let level = arguments.get(1).and_then(number);
    let name = arguments.get(2).and_then(number);
    let (Some(level), Some(name)) = (level, name) else {
        return unsupported("this option of setsockopt is not supported by this runner");
    };
    let narrow = |number: i64| i32::try_from(number).unwrap_or(-1);
    let (level, name) = (narrow(level), narrow(name));
    if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
        return linger(arguments.get(3));
    }
    let Some(value) = arguments.get(3).and_then(number) else {
        return unsupported("the value of setsockopt is a number in brackets");
    };
    let value = narrow(value);
    Ok(match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Setting::NoDelay(value != 0),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
            Setting::KeepIdle(u32::try_from(value).unwrap_or(0))
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => Setting::KeepAlive(value != 0),
        _ => Setting::Other(level, name, value),
    })
}

fn linger(value: Option<&Value>) -> Result<Setting, Unsupported> {
    let Some(Value::Fields(fields)) = value else {
        return unsupported("SO_LINGER needs {onoff=, linger=}");
    };
    let field = |name: &str| {
        let found = fields.iter().find(|(each, _)| each.ends_with(name));
        found.and_then(|(_, value)| number(value))
    };
    let (Some(on), Some(seconds)) = (field("onoff"), field("linger")) else {
        return unsupported("SO_LINGER needs {onoff=, linger=}");
    };
    let seconds = u16::try_from(seconds).unwrap_or(u16::MAX);
    Ok(Setting::Linger((on != 0).then_some(seconds)))
}
