// SPDX-License-Identifier: MIT OR Apache-2.0
//! The system calls of scripts, over the sockets of a [`System`].

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::arguments::{Transfer, field, setting};
use crate::constants::{UNACKNOWLEDGED, UNREAD, number};
use crate::epoll::{Epolls, Ready};
use crate::errno;
use crate::script::{Call, Value, Version};
use crate::system::{
    AGAIN, Count, Direction, Edges, Errno, Handle, POLLERR, POLLHUP, System, UNSUPPORTED,
};
use crate::wire;

/// The port of `bind` and `connect` with `...`.
pub const PORT: u16 = 8080;
/// The calls that scripts can make.
pub const CALLS: &[&str] = &[
    "socket",
    "bind",
    "listen",
    "accept",
    "accept4",
    "connect",
    "read",
    "readv",
    "recv",
    "recvfrom",
    "recvmsg",
    "write",
    "writev",
    "send",
    "sendto",
    "sendmsg",
    "shutdown",
    "close",
    "setsockopt",
    "getsockopt",
    "fcntl",
    "ioctl",
    "poll",
    "epoll_create",
    "epoll_create1",
    "epoll_ctl",
    "epoll_wait",
];

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
    /// It has sent a SYN with `MSG_FASTOPEN`.
    opened: bool,
}

/// The descriptors of a script.
#[derive(Default)]
pub struct Calls {
    version: Version,
    open: BTreeMap<i64, Descriptor>,
    epolls: Epolls,
    /// The socket of the connection under test.
    tested: Option<Handle>,
    /// What the last call did, until it is taken.
    pub effect: Option<Effect>,
}

/// Why a call can't be made by this runner.
pub type Unsupported = String;

fn unsupported<T>(what: impl Into<String>) -> Result<T, Unsupported> {
    Err(what.into())
}

/// The open sockets of a script, for epoll.
struct Sockets<'a> {
    open: &'a BTreeMap<i64, Descriptor>,
    system: &'a mut dyn System,
}

impl Ready for Sockets<'_> {
    fn is_open(&self, fd: i64) -> bool {
        self.open.contains_key(&fd)
    }

    fn events(&mut self, fd: i64) -> i64 {
        let socket = self.open.get(&fd);
        socket.map_or(0, |socket| self.system.poll(socket.handle))
    }

    fn edges(&mut self, fd: i64) -> Result<Edges, Unsupported> {
        let Some(socket) = self.open.get(&fd) else {
            return Ok(Edges::default());
        };
        self.system
            .edges(socket.handle)
            .map_err(|error| match error {
                UNSUPPORTED => "EPOLLET is supported for sockets of TCP on this stack".into(),
                other => format!("the edges of descriptor {fd} can't be read: {other}"),
            })
    }
}

impl Calls {
    /// No descriptor is open.
    pub fn new(version: Version) -> Self {
        Self {
            version,
            ..Self::default()
        }
    }

    /// Returns the `tcp_info` of the connection under test; empty without one.
    pub fn info(&self, system: &mut dyn System) -> Vec<u8> {
        let tested = self.tested.map(|handle| system.info(handle));
        tested.and_then(Result::ok).unwrap_or_default()
    }

    /// Starts a call.
    pub fn start(&self, call: &Call, now: u64) -> Running {
        let timeout = match call.name.as_str() {
            "poll" => call.arguments.get(2).and_then(number),
            "epoll_wait" => call.arguments.get(3).and_then(number),
            _ => None,
        };
        let end = timeout
            .and_then(|ms| u64::try_from(ms).ok())
            .map(|ms| now.saturating_add(ms.saturating_mul(1000)));
        Running {
            call: call.clone(),
            written: 0,
            end,
            opened: false,
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
            "epoll_create" | "epoll_create1" => {
                let last = self.open.keys().chain(self.epolls.descriptors()).max();
                let next = last.map_or(3, |last| last + 1);
                let fd = number(&call.result).filter(|fd| *fd >= 0).unwrap_or(next);
                self.epolls.create(fd);
                Ok(Attempt::Done(Ok(fd)))
            }
            "epoll_ctl" => {
                count(3)?;
                let open = &self.open;
                self.epolls
                    .control(arguments, &mut Sockets { open, system })
            }
            "epoll_wait" => {
                count(4)?;
                let ended = running.end.is_some_and(|end| system.now() >= end);
                let open = &self.open;
                self.epolls
                    .wait(arguments, ended, &mut Sockets { open, system })
            }
            name if CALLS.contains(&name) => {
                count(1)?;
                let Some(fd) = number(&arguments[0]) else {
                    return unsupported("the first argument is no file descriptor");
                };
                if name == "close" && self.epolls.close(fd) {
                    return Ok(Attempt::Done(Ok(0)));
                }
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
        if !udp && kind & 0xf != i64::from(libc::SOCK_STREAM) {
            return unsupported("a socket is SOCK_STREAM or SOCK_DGRAM with this runner");
        }
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
                    self.tested = Some(accepted);
                    self.add(&call, accepted, false, nonblocking)
                }
                Err(error) => self.blocked(fd, error),
            }),
            "connect" => Ok(self.connect(fd, arguments.get(1), system)),
            "read" | "readv" | "recv" | "recvfrom" | "recvmsg" => self.read(fd, &call, system),
            "write" | "writev" | "send" | "sendto" | "sendmsg" => self.write(fd, running, system),
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
                self.epolls.forget(fd);
                zero(system.close(handle))
            }
            "setsockopt" => {
                let setting = setting(arguments)?;
                match system.set(handle, setting) {
                    Err(UNSUPPORTED) => {
                        unsupported("the sockets of this stack have no such option")
                    }
                    done => zero(done),
                }
            }
            "getsockopt" => self.option(handle, arguments, system),
            "ioctl" => {
                let count = match arguments.get(1).and_then(number) {
                    Some(UNREAD) => Count::Unread,
                    Some(UNACKNOWLEDGED) => Count::Unacknowledged,
                    _ => return unsupported("ioctl is supported for SIOCINQ and SIOCOUTQ only"),
                };
                counted(system, handle, count, arguments.get(2))
            }
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
            self.tested = Some(socket.handle);
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
        let Transfer {
            size: most,
            dont_wait,
            flags,
        } = Transfer::of(call)?;
        let socket = &self.open[&fd];
        let bytes = match system.receive(socket.handle, most, flags) {
            Ok(bytes) => bytes,
            Err(UNSUPPORTED) => return unsupported("the sockets of this stack lack a flag"),
            Err(error) if dont_wait => return Ok(Attempt::Done(Err(error))),
            Err(error) => return Ok(self.blocked(fd, error)),
        };
        let from = if socket.udp { 0 } else { socket.read };
        if bytes != wire::stream(from, bytes.len()) {
            let text = format!("{} returned other bytes than the peer sent", call.name);
            return Ok(Attempt::Wrong(text));
        }
        let size = u32::try_from(bytes.len()).expect("at most MOST_BYTES");
        if flags & libc::MSG_PEEK == 0 {
            self.open.get_mut(&fd).expect("it is open").read += size;
        }
        Ok(Attempt::Done(Ok(size.into())))
    }

    fn write(
        &mut self,
        fd: i64,
        running: &mut Running,
        system: &mut dyn System,
    ) -> Result<Attempt, Unsupported> {
        let call = &running.call;
        let Transfer {
            size,
            dont_wait,
            flags,
        } = Transfer::of(call)?;
        let opens = flags & libc::MSG_FASTOPEN != 0;
        let to = match call.name.as_str() {
            "sendto" if call.arguments.len() > 4 => {
                Some(self.address(call.arguments.get(4), false))
            }
            "sendmsg" if opens => Some(self.address(None, false)),
            _ => None,
        };
        let peer = self.address(None, false);
        let socket = self.open.get_mut(&fd).expect("it is open");
        let nonblocking = socket.nonblocking || dont_wait;
        let udp = socket.udp;
        let from = if udp { 0 } else { socket.written };
        let bytes = wire::stream(from, size - running.written);
        // A blocking call waits for the connection before it sends the rest.
        if running.opened {
            match system.connect(socket.handle, to.unwrap_or(peer)) {
                Err("EINPROGRESS" | "EALREADY") => return Ok(Attempt::Blocked),
                Ok(()) | Err("EISCONN") => {}
                Err(error) => return Ok(Attempt::Done(Err(error))),
            }
        }
        let (to, flags) = match running.opened {
            true => (None, flags & !libc::MSG_FASTOPEN),
            false => (to, flags),
        };
        let done = system.send(socket.handle, &bytes, to, flags);
        if opens && !running.opened && matches!(done, Ok(_) | Err("EINPROGRESS")) {
            running.opened = true;
            self.tested = Some(socket.handle);
            self.effect = Some(Effect::Connects(to.unwrap_or(peer).port()));
            if !nonblocking {
                let sent = done.unwrap_or(0);
                running.written += sent;
                socket.written += u32::try_from(sent).expect("at most MOST_BYTES");
                return Ok(Attempt::Blocked);
            }
        }
        match done {
            Err(UNSUPPORTED) => unsupported("the sockets of this stack lack a flag"),
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
            let (Some(level), Some(name)) = (level, name) else {
                return unsupported("getsockopt needs a level and a name");
            };
            let narrow = |number: i64| i32::try_from(number).unwrap_or(-1);
            let option = Count::Option(narrow(level), narrow(name));
            return counted(system, handle, option, arguments.get(3));
        }
        let seen = match system.error(handle) {
            Ok(error) => error.unwrap_or("0"),
            Err(error) => return Ok(Attempt::Done(Err(error))),
        };
        let expected = match arguments.get(3) {
            Some(Value::List(values)) if values.len() == 1 => match &values[0] {
                Value::Name(name) => name.clone(),
                Value::Number(0) => "0".into(),
                Value::Number(number) => i32::try_from(*number).map_or("", errno::name).into(),
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
            let field = |name: &str| field(fields, name).and_then(number);
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

/// Compares a number that a socket has with the one that a script expects in brackets.
fn counted(
    system: &mut dyn System,
    handle: Handle,
    count: Count,
    expected: Option<&Value>,
) -> Result<Attempt, Unsupported> {
    let expected = match expected {
        Some(Value::Ellipsis) => None,
        Some(value) if number(value).is_some() => number(value),
        _ => return unsupported("the expected value is a number in brackets, or ..."),
    };
    Ok(match system.count(handle, count) {
        Err(UNSUPPORTED) => return unsupported("the sockets of this stack have no such call"),
        Err(error) => Attempt::Done(Err(error)),
        Ok(seen) if expected.is_none_or(|expected| expected as i32 == seen as i32) => {
            Attempt::Done(Ok(0))
        }
        Ok(seen) => Attempt::Wrong(format!(
            "the value is {seen} instead of {}",
            expected.unwrap_or(0)
        )),
    })
}
