// SPDX-License-Identifier: MIT OR Apache-2.0
//! A stack in this process, on a link in memory with a virtual clock.

use std::net::SocketAddr;
use std::time::Duration;

use swapstone_net::device::{Device, ETHERNET_HEADER};
use swapstone_net::error::{
    AcceptError, BindError, ConnectError, ListenError, OpenError, RecvError, SendError,
    SocketError, UdpRecvError, UdpSendError,
};
use swapstone_net::fixes::Fixes;
use swapstone_net::{
    Cidr, Config, Instant, Net, Platform, Readiness, Shutdown, SocketId, Stack, TcpOption,
    TcpStack, UdpStack,
};
use swapstone_net_link::{Link, Options, Path, Port, VirtualTime};
use swapstone_net_testkit::addresses::{PEER_MAC, SUBJECT_MAC, SUBJECT_V4, SUBJECT_V6};
use swapstone_net_testkit::backend::Backend;
use swapstone_net_testkit::watched::{Watched, WatchedPort};

use crate::system::{
    AGAIN, Called, Count, Direction, Edges, Errno, Handle, POLLERR, POLLHUP, POLLIN, POLLOUT,
    POLLRDHUP, Setting, System, UNSUPPORTED,
};

/// Duplicate address detection has finished after this time.
const SETTLED: Duration = Duration::from_secs(5);
/// The default of `TCP_KEEPIDLE` in seconds (tcp(7)).
const KEEP_IDLE_S: u32 = 7200;

struct Socket {
    id: SocketId,
    udp: bool,
    /// The time of keep-alive probes, whether or not they are on.
    keep_idle: Duration,
    keep_alive: bool,
    listening: bool,
    connecting: bool,
    error: Option<Errno>,
    /// A call has returned why the connection failed.
    reported: bool,
    /// Bytes that were read, and connections that were accepted.
    taken: u64,
    /// The last send did not take all bytes, or the socket was not writable when it was looked at.
    full: bool,
    /// How often it has become writable since it was full.
    writable: u64,
}

/// A stack on a virtual link without delay.
pub struct VirtualSystem {
    net: Net<Watched>,
    port: Port,
    time: VirtualTime,
    link: Link,
    mtu: usize,
    start: Instant,
    sockets: Vec<Socket>,
}

impl VirtualSystem {
    /// Creates a stack with the default configuration, and the peer's port.
    ///
    /// # Errors
    ///
    /// The stack is unavailable.
    pub fn new(backend: &Backend, fixes: Fixes, mtu: Option<u16>) -> Result<Self, String> {
        let options = Options {
            mtu: mtu.map_or(Options::default().mtu, usize::from),
            ..Options::default()
        };
        let link = Link::new(options);
        let device = WatchedPort::new(link.port(SUBJECT_MAC));
        let port = link.port(PEER_MAC);
        link.set_paths(Path {
            delay: Duration::ZERO,
            ..Path::default()
        });
        let addresses = [
            Cidr::new(SUBJECT_V4.into(), 24),
            Cidr::new(SUBJECT_V6.into(), 64),
        ];
        let config = Config::new(&addresses, [1; 32]);
        let stack = (backend.make)(device, &config, fixes)?;
        let net = Net::new(Watched::new(stack, false), link.time(0));
        link.attach(0, net.clone());
        link.run_until(link.now() + SETTLED);
        let mut port = port;
        while port.receive().is_some() {}
        Ok(Self {
            time: link.time(port.id()),
            start: link.now(),
            net,
            port,
            link,
            mtu: options.mtu,
            sockets: Vec::new(),
        })
    }

    fn add(&mut self, id: SocketId, udp: bool) -> Handle {
        self.sockets.push(Socket {
            id,
            udp,
            keep_idle: Duration::from_secs(KEEP_IDLE_S.into()),
            keep_alive: false,
            listening: false,
            connecting: false,
            error: None,
            reported: false,
            taken: 0,
            full: false,
            writable: 0,
        });
        self.sockets.len() - 1
    }

    fn id(&self, at: Handle) -> SocketId {
        self.sockets[at].id
    }

    fn tcp_only(&self, at: Handle) -> Called<SocketId> {
        match self.sockets[at].udp {
            true => Err("EOPNOTSUPP"),
            false => Ok(self.id(at)),
        }
    }

    /// Returns why a connection failed, unless a call has already returned it.
    fn failure(&self, at: Handle) -> Option<Errno> {
        let socket = &self.sockets[at];
        if socket.udp || socket.reported {
            return None;
        }
        match self.net.with(|stack| stack.tcp_send(socket.id, &[])) {
            Err(SendError::Reset) => Some("ECONNRESET"),
            Err(SendError::TimedOut) => Some("ETIMEDOUT"),
            _ => None,
        }
    }

    fn set_tcp(&mut self, at: Handle, option: TcpOption) -> Called<()> {
        let id = self.tcp_only(at)?;
        let done = self.net.with(|stack| stack.tcp_set(id, option));
        done.map_err(of_socket)
    }

    fn set_keep_alive(&mut self, at: Handle) -> Called<()> {
        let socket = &self.sockets[at];
        let idle = socket.keep_alive.then_some(socket.keep_idle);
        self.set_tcp(at, TcpOption::KeepAlive(idle))
    }
}

impl System for VirtualSystem {
    fn now(&mut self) -> u64 {
        self.link.now().micros() - self.start.micros()
    }

    fn wait(&mut self, until: u64) {
        let until = Instant::from_micros(self.start.micros() + until);
        self.time.wait(Some(until));
    }

    fn inject(&mut self, frame: &[u8]) -> Result<(), String> {
        let packet = frame.len() - ETHERNET_HEADER;
        if packet > self.mtu {
            return Err(format!(
                "a packet of {packet} bytes is larger than the MTU of {} bytes",
                self.mtu
            ));
        }
        let sent = self
            .port
            .transmit_as(frame, swapstone_net::device::Checksum::Unknown);
        sent.expect("the link has room");
        Ok(())
    }

    fn take(&mut self) -> Option<(u64, Vec<u8>)> {
        let frame = self.port.receive()?;
        Some((self.now(), frame.bytes.to_vec()))
    }

    fn exact(&self) -> bool {
        true
    }

    fn socket(&mut self, _: bool, udp: bool) -> Called<Handle> {
        let opened = self.net.with(|stack| match udp {
            true => stack.udp_open(),
            false => stack.tcp_open(),
        });
        let OpenError::Limit(_) = match opened {
            Ok(id) => return Ok(self.add(id, udp)),
            Err(error) => error,
        };
        Err("EMFILE")
    }

    fn bind(&mut self, at: Handle, address: SocketAddr) -> Called<()> {
        let (id, udp) = (self.id(at), self.sockets[at].udp);
        let bound = self.net.with(|stack| match udp {
            true => stack.udp_bind(id, address),
            false => stack.tcp_bind(id, address),
        });
        bound.map_err(of_bind)
    }

    fn listen(&mut self, at: Handle, backlog: usize) -> Called<()> {
        let id = self.tcp_only(at)?;
        let done = self.net.with(|stack| stack.tcp_listen(id, backlog.max(1)));
        self.sockets[at].listening |= done.is_ok();
        done.map_err(|error| match error {
            ListenError::NotBound | ListenError::AlreadyActive => "EINVAL",
            ListenError::InUse => "EADDRINUSE",
            ListenError::Limit(_) => "ENOBUFS",
        })
    }

    fn accept(&mut self, at: Handle) -> Called<Handle> {
        let id = self.tcp_only(at)?;
        match self.net.with(|stack| stack.tcp_accept(id)) {
            Ok((id, _)) => {
                self.sockets[at].taken += 1;
                Ok(self.add(id, false))
            }
            Err(AcceptError::WouldBlock | AcceptError::TimedOut) => Err(AGAIN),
            Err(AcceptError::NotListening) => Err("EINVAL"),
            Err(AcceptError::Limit(_)) => Err("EMFILE"),
        }
    }

    fn connect(&mut self, at: Handle, peer: SocketAddr) -> Called<()> {
        let (id, udp) = (self.id(at), self.sockets[at].udp);
        if udp {
            let done = self.net.with(|stack| stack.udp_connect(id, Some(peer)));
            return done.map_err(of_bind);
        }
        let again = self.sockets[at].connecting;
        let done = self.net.with(|stack| stack.tcp_connect(id, peer));
        self.sockets[at].connecting = done == Err(ConnectError::WouldBlock);
        done.map_err(|error| match error {
            ConnectError::WouldBlock if again => "EALREADY",
            ConnectError::WouldBlock => "EINPROGRESS",
            other => of_connect(other),
        })
    }

    fn send(
        &mut self,
        at: Handle,
        bytes: &[u8],
        to: Option<SocketAddr>,
        flags: i32,
    ) -> Called<usize> {
        if flags != 0 {
            return Err(UNSUPPORTED);
        }
        let (id, udp) = (self.id(at), self.sockets[at].udp);
        if udp {
            let done = self.net.with(|stack| stack.udp_send(id, &[bytes], to));
            return done.map(|()| bytes.len()).map_err(|error| match error {
                UdpSendError::WouldBlock | UdpSendError::TimedOut => AGAIN,
                UdpSendError::NoPeer => "EDESTADDRREQ",
                UdpSendError::Unreachable => "EHOSTUNREACH",
                UdpSendError::Limit(_) => "EMSGSIZE",
            });
        }
        let done = self.net.with(|stack| stack.tcp_send(id, &[bytes]));
        let socket = &mut self.sockets[at];
        socket.full |= done.is_err() || done.is_ok_and(|sent| sent < bytes.len());
        socket.reported |= matches!(done, Err(SendError::Reset | SendError::TimedOut));
        done.map_err(|error| match error {
            SendError::WouldBlock => AGAIN,
            SendError::TimedOut => "ETIMEDOUT",
            SendError::NotConnected => "ENOTCONN",
            SendError::Closed => "EPIPE",
            SendError::Reset => "ECONNRESET",
        })
    }

    fn receive(&mut self, at: Handle, most: usize, flags: i32) -> Called<Vec<u8>> {
        if flags != 0 {
            return Err(UNSUPPORTED);
        }
        let (id, udp) = (self.id(at), self.sockets[at].udp);
        let mut bytes = Vec::new();
        if udp {
            let done = self.net.with(|stack| {
                stack.udp_receive(id, &mut |datagram, _| {
                    bytes = datagram[..datagram.len().min(most)].to_vec();
                    true
                })
            });
            return done.map(|()| bytes).map_err(|error| match error {
                UdpRecvError::WouldBlock | UdpRecvError::TimedOut => AGAIN,
                UdpRecvError::NotBound => "EINVAL",
            });
        }
        // One read returns what several pieces of the buffer hold.
        while bytes.len() < most {
            let done = self.net.with(|stack| {
                stack.tcp_receive(id, &mut |piece| {
                    let size = piece.len().min(most - bytes.len());
                    bytes.extend_from_slice(&piece[..size]);
                    size
                })
            });
            match done {
                Ok(0) => return Ok(bytes),
                Ok(size) => self.sockets[at].taken += size as u64,
                Err(_) if !bytes.is_empty() => return Ok(bytes),
                Err(error) => {
                    self.sockets[at].reported |=
                        matches!(error, RecvError::Reset | RecvError::TimedOut);
                    return Err(match error {
                        RecvError::WouldBlock => AGAIN,
                        RecvError::TimedOut => "ETIMEDOUT",
                        RecvError::NotConnected => "ENOTCONN",
                        RecvError::Reset => "ECONNRESET",
                    });
                }
            }
        }
        Ok(bytes)
    }

    fn shutdown(&mut self, at: Handle, which: Direction) -> Called<()> {
        let id = self.tcp_only(at)?;
        let which = match which {
            Direction::Read => Shutdown::Read,
            Direction::Write => Shutdown::Write,
            Direction::Both => Shutdown::Both,
        };
        let done = self.net.with(|stack| stack.tcp_shutdown(id, which));
        done.map_err(of_socket)
    }

    fn close(&mut self, at: Handle) -> Called<()> {
        let (id, udp) = (self.id(at), self.sockets[at].udp);
        self.net.with(|stack| match udp {
            true => stack.udp_close(id),
            false => stack.tcp_close(id),
        });
        Ok(())
    }

    fn set(&mut self, at: Handle, setting: Setting) -> Called<()> {
        match setting {
            Setting::NoDelay(on) => self.set_tcp(at, TcpOption::NoDelay(on)),
            Setting::KeepAlive(on) => {
                self.sockets[at].keep_alive = on;
                self.set_keep_alive(at)
            }
            Setting::KeepIdle(seconds) => {
                self.sockets[at].keep_idle = Duration::from_secs(seconds.into());
                self.set_keep_alive(at)
            }
            Setting::Linger(seconds) => {
                let time = seconds.map(|seconds| Duration::from_secs(seconds.into()));
                self.set_tcp(at, TcpOption::Linger(time))
            }
            // The stacks always allow the reuse of a port in TIME-WAIT.
            Setting::Other(libc::SOL_SOCKET, libc::SO_REUSEADDR, _) => Ok(()),
            Setting::Other(..) => Err(UNSUPPORTED),
        }
    }

    fn count(&mut self, at: Handle, count: Count) -> Called<i64> {
        let id = self.tcp_only(at).map_err(|_| UNSUPPORTED)?;
        let queues = self.net.with(|stack| stack.tcp_queues(id));
        let queues = queues.ok_or(UNSUPPORTED)?;
        let size = match count {
            Count::Unread | Count::Unacknowledged if self.sockets[at].listening => {
                return Err("EINVAL");
            }
            Count::Unread => queues.unread,
            Count::Unacknowledged => queues.unacknowledged,
            Count::Option(..) => return Err(UNSUPPORTED),
        };
        Ok(i64::try_from(size).expect("a buffer is smaller"))
    }

    fn poll(&mut self, at: Handle) -> i64 {
        let id = self.id(at);
        let ready = self.net.with(|stack| stack.readiness(id));
        let flags = [
            (Readiness::READABLE, POLLIN),
            (Readiness::WRITABLE, POLLOUT),
            (Readiness::CLOSED, POLLHUP),
        ];
        let failed = self.sockets[at].error.is_some() || self.failure(at).is_some();
        // After both directions have ended, nothing more is received either.
        let ended = ready.contains(Readiness::CLOSED)
            || (!self.sockets[at].udp
                && self
                    .net
                    .with(|stack| stack.tcp_queues(id))
                    .is_some_and(|queues| queues.ended));
        let events = flags.iter().filter(|(flag, _)| ready.contains(*flag));
        let more = [(failed, POLLERR), (ended, POLLRDHUP)];
        let more = more.iter().filter(|(is, _)| *is);
        events.map(|(_, event)| event).sum::<i64>() + more.map(|(_, event)| event).sum::<i64>()
    }

    fn edges(&mut self, at: Handle) -> Called<Edges> {
        let id = self.tcp_only(at).map_err(|_| UNSUPPORTED)?;
        let queues = self.net.with(|stack| stack.tcp_queues(id));
        let queues = queues.ok_or(UNSUPPORTED)?;
        let events = self.poll(at);
        let socket = &mut self.sockets[at];
        if events & POLLOUT == 0 {
            socket.full = true;
        } else if std::mem::take(&mut socket.full) {
            socket.writable += 1;
        }
        let pending = queues.unread + queues.waiting + usize::from(queues.ended);
        Ok(Edges {
            input: socket.taken + pending as u64,
            output: socket.writable,
            state: u64::from(events & (POLLERR | POLLHUP) != 0),
        })
    }

    fn error(&mut self, at: Handle) -> Called<Option<Errno>> {
        if self.sockets[at].connecting {
            let id = self.id(at);
            let Some(peer) = self.net.with(|stack| stack.tcp_peer(id)) else {
                return Ok(None);
            };
            match self.net.with(|stack| stack.tcp_connect(id, peer)) {
                Err(ConnectError::WouldBlock) => return Ok(None),
                done => {
                    self.sockets[at].connecting = false;
                    self.sockets[at].error = done.err().map(of_connect);
                }
            }
        }
        if let Some(error) = self.sockets[at].error.take() {
            return Ok(Some(error));
        }
        let failure = self.failure(at);
        self.sockets[at].reported |= failure.is_some();
        Ok(failure)
    }

    fn local_port(&mut self, at: Handle) -> Option<u16> {
        let (id, udp) = (self.id(at), self.sockets[at].udp);
        let local = self.net.with(|stack| match udp {
            true => stack.udp_local(id),
            false => stack.tcp_local(id),
        });
        local.map(|address| address.port())
    }
}

fn of_bind(error: BindError) -> Errno {
    match error {
        BindError::InUse | BindError::Limit(_) => "EADDRINUSE",
        BindError::NotLocal => "EADDRNOTAVAIL",
        BindError::AlreadyBound => "EINVAL",
    }
}

fn of_connect(error: ConnectError) -> Errno {
    match error {
        ConnectError::WouldBlock => "EINPROGRESS",
        ConnectError::Refused => "ECONNREFUSED",
        ConnectError::TimedOut => "ETIMEDOUT",
        ConnectError::Unreachable => "EHOSTUNREACH",
        ConnectError::AlreadyActive => "EISCONN",
        ConnectError::Limit(_) => "EADDRNOTAVAIL",
    }
}

fn of_socket(error: SocketError) -> Errno {
    match error {
        SocketError::NotConnected => "ENOTCONN",
        SocketError::Unsupported => "ENOPROTOOPT",
    }
}
