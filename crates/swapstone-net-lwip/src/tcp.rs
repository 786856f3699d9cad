// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP sockets.

use core::net::{IpAddr, SocketAddr};
use core::ops::Range;
use core::time::Duration;

use swapstone_net::backend::{NO_EPHEMERAL_PORT, TcpOptions, is_connectable};
use swapstone_net::error::{
    AcceptError, BindError, ConnectError, Limit, ListenError, OpenError, RecvError, Resource,
    SendError, SocketError,
};
use swapstone_net::{
    Device, Readiness, Shared, Shutdown, SocketId, TcpOption, TcpQueues, TcpStack,
};
use swapstone_net_lwip_sys::Failure;

use crate::{Lwip, ORPHAN};

/// The state of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    #[default]
    New,
    Listening,
    /// `connect` has not returned the result yet.
    Connecting,
    Connected,
}

/// A TCP socket. The slot of lwIP has the same index.
#[derive(Debug, Default)]
pub(crate) struct Tcp {
    /// The socket is in [`Lwip::unsent`].
    pub(crate) unsent: bool,
    pub(crate) read_closed: bool,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    role: Role,
    /// The socket is in [`Lwip::bound`].
    bound: bool,
    write_closed: bool,
    options: TcpOptions,
}

impl Tcp {
    /// Resets the state for a new socket in the same slot.
    fn renew(&mut self) {
        *self = Self {
            unsent: self.unsent,
            ..Self::default()
        };
    }
}

/// The keep-alive idle time in milliseconds; 0 disables keep-alive.
fn milliseconds(idle: Option<Duration>) -> u32 {
    idle.map_or(0, |idle| {
        u32::try_from(idle.as_millis())
            .unwrap_or(u32::MAX / 2)
            .clamp(1, u32::MAX / 2)
    })
}

impl<D: Device> Lwip<D> {
    pub(crate) fn tcp(&self, id: SocketId) -> Option<&Tcp> {
        let index = self.handles.index_of(id)? as usize;
        self.tcp.get(index)
    }

    fn tcp_mut(&mut self, id: SocketId) -> Option<&mut Tcp> {
        let index = self.handles.index_of(id)? as usize;
        self.tcp.get_mut(index)
    }

    /// Returns whether another socket is bound to this port at an overlapping address.
    fn port_taken(&self, address: SocketAddr) -> bool {
        self.bound.get(&address.port()).is_some_and(|users| {
            users.iter().any(|user| {
                let other = self.tcp[*user as usize].local;
                other.is_some_and(|other| overlap(other.ip(), address.ip()))
            })
        })
    }

    fn no_memory(&self) -> Limit {
        Limit {
            of: Resource::PacketMemory,
            most: self.limits.packet_memory,
        }
    }

    /// Returns the result of a pending connect.
    fn outcome(&mut self, id: SocketId) -> Result<(), ConnectError> {
        let condition = self.core.condition(id.index);
        if condition.connected {
            self.tcp[id.index as usize].role = Role::Connected;
            return Ok(());
        }
        match condition.failure {
            Some(Failure::Reset) => Err(ConnectError::Refused),
            Some(Failure::TimedOut) => Err(ConnectError::TimedOut),
            None if !condition.alive => Err(ConnectError::Refused),
            None => Err(ConnectError::WouldBlock),
        }
    }

    /// Returns the free space of the send buffer in bytes, or why the connection can't send.
    fn sendable(&self, id: SocketId) -> Result<usize, SendError> {
        let socket = self.tcp(id).ok_or(SendError::NotConnected)?;
        if !matches!(socket.role, Role::Connected | Role::Connecting) {
            return Err(SendError::NotConnected);
        }
        let condition = self.core.condition(id.index);
        match condition.failure {
            Some(Failure::Reset) => return Err(SendError::Reset),
            Some(Failure::TimedOut) => return Err(SendError::TimedOut),
            None => {}
        }
        if socket.write_closed {
            Err(SendError::Closed)
        } else if !condition.connected {
            Err(if condition.alive {
                SendError::WouldBlock
            } else {
                SendError::NotConnected
            })
        } else if !condition.alive || condition.time_wait {
            Err(SendError::Closed)
        } else {
            Ok(condition.room)
        }
    }

    /// Sends the data that was queued since the last poll.
    pub(crate) fn send_queued(&mut self) {
        while let Some(index) = self.unsent.pop_front() {
            let socket = &mut self.tcp[index as usize];
            socket.unsent = false;
            let connected = matches!(socket.role, Role::Connected | Role::Connecting);
            if connected && self.handles.is_open(index) {
                self.active().output(index);
            }
        }
    }

    fn queued(&mut self, id: SocketId, sent: usize, room: usize) -> Result<usize, SendError> {
        if sent > 0 {
            // It is sent by the next poll, so that later writes and a FIN share its segments.
            if !core::mem::replace(&mut self.tcp[id.index as usize].unsent, true) {
                self.unsent.push_back(id.index);
            }
            return Ok(sent);
        }
        if room > 0 {
            // The send buffer has room, so packet memory is exhausted.
            self.wait_for_memory(id.index);
        }
        Err(SendError::WouldBlock)
    }

    pub(crate) fn readiness_tcp(&self, id: SocketId) -> Readiness {
        let Some(socket) = self.tcp(id) else {
            return Readiness::NONE;
        };
        let condition = self.core.condition(id.index);
        let mut ready = Readiness::NONE;
        match socket.role {
            Role::New => {}
            Role::Listening => {
                if condition.waiting > 0 {
                    ready |= Readiness::READABLE;
                }
            }
            Role::Connecting | Role::Connected => {
                let over = condition.failure.is_some() || !condition.alive;
                if condition.readable > 0 || condition.ended || over || socket.read_closed {
                    ready |= Readiness::READABLE;
                }
                if over
                    || condition.time_wait
                    || (condition.connected && !socket.write_closed && condition.room > 0)
                {
                    ready |= Readiness::WRITABLE;
                }
                let received_all = condition.ended || socket.read_closed;
                if over || condition.time_wait || (received_all && socket.write_closed) {
                    ready |= Readiness::CLOSED;
                }
            }
        }
        ready
    }
}

impl<D: Device> TcpStack for Lwip<D> {
    fn tcp_open(&mut self) -> Result<SocketId, OpenError> {
        let Some(index) = self.core.tcp_open() else {
            return Err(OpenError::Limit(Limit {
                of: Resource::TcpSockets,
                most: self.limits.tcp_sockets,
            }));
        };
        self.tcp[index as usize].renew();
        Ok(self.handles.open(index))
    }

    fn tcp_bind(&mut self, id: SocketId, mut address: SocketAddr) -> Result<(), BindError> {
        let socket = self.tcp(id).ok_or(BindError::AlreadyBound)?;
        if socket.role != Role::New || socket.bound {
            return Err(BindError::AlreadyBound);
        }
        if !self.is_local(address.ip()) {
            return Err(BindError::NotLocal);
        }
        if address.port() == 0 {
            let begin = self.core.random();
            let port = self.choose_port(begin, |this, port| {
                !this.port_taken(SocketAddr::new(address.ip(), port))
            });
            address.set_port(port.ok_or(BindError::Limit(NO_EPHEMERAL_PORT))?);
        } else if self.port_taken(address) {
            return Err(BindError::InUse);
        }
        self.bound.entry(address.port()).or_default().push(id.index);
        let socket = &mut self.tcp[id.index as usize];
        socket.local = Some(address);
        socket.bound = true;
        Ok(())
    }

    fn tcp_listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError> {
        let socket = self.tcp(id).ok_or(ListenError::AlreadyActive)?;
        if socket.role != Role::New {
            return Err(ListenError::AlreadyActive);
        }
        let local = socket.local.ok_or(ListenError::NotBound)?;
        if backlog > self.limits.tcp_sockets {
            return Err(ListenError::Limit(Limit {
                of: Resource::Backlog,
                most: self.limits.tcp_sockets,
            }));
        }
        if !self.active().listen(id.index, local, backlog.max(1)) {
            return Err(ListenError::Limit(self.no_memory()));
        }
        self.tcp[id.index as usize].role = Role::Listening;
        Ok(())
    }

    fn tcp_accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError> {
        let socket = self.tcp(id).ok_or(AcceptError::NotListening)?;
        if socket.role != Role::Listening {
            return Err(AcceptError::NotListening);
        }
        let (index, local, peer) = self.core.accept(id.index).ok_or(AcceptError::WouldBlock)?;
        let socket = &mut self.tcp[index as usize];
        socket.renew();
        socket.role = Role::Connected;
        socket.local = Some(local);
        socket.peer = Some(peer);
        let id = self.handles.open(index);
        // Data that arrived before the socket was accepted.
        if !self.readiness_tcp(id).is_empty() {
            self.handles.queue_event(index);
        }
        Ok((id, peer))
    }

    fn tcp_connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError> {
        let socket = self.tcp(id).ok_or(ConnectError::AlreadyActive)?;
        match socket.role {
            Role::New => {}
            Role::Connecting => return self.outcome(id),
            Role::Listening | Role::Connected => return Err(ConnectError::AlreadyActive),
        }
        if !is_connectable(peer) {
            return Err(ConnectError::Unreachable);
        }
        let bound = socket.local;
        let source = self
            .core
            .source_for(peer.ip())
            .ok_or(ConnectError::Unreachable)?;
        let address = match bound {
            Some(local) if !local.ip().is_unspecified() => local.ip(),
            _ => source,
        };
        if address.is_ipv4() != peer.is_ipv4() {
            return Err(ConnectError::Unreachable);
        }
        let local = match bound {
            Some(local) => {
                let local = SocketAddr::new(address, local.port());
                if self.core.taken(local, peer) {
                    return Err(ConnectError::Limit(Limit {
                        of: Resource::Ports,
                        most: 1,
                    }));
                }
                local
            }
            None => {
                let begin = self.core.first_port(address, peer);
                let port = self.choose_port(begin, |this, port| {
                    let local = SocketAddr::new(address, port);
                    !this.bound.contains_key(&port) && !this.core.taken(local, peer)
                });
                SocketAddr::new(address, port.ok_or(ConnectError::Limit(NO_EPHEMERAL_PORT))?)
            }
        };
        if !self.active().connect(id.index, local, peer) {
            return Err(ConnectError::Limit(self.no_memory()));
        }
        let socket = &mut self.tcp[id.index as usize];
        socket.role = Role::Connecting;
        socket.local = Some(local);
        socket.peer = Some(peer);
        let options = socket.options;
        self.core.set_nodelay(id.index, options.nodelay);
        self.core
            .set_keep_alive(id.index, milliseconds(options.keep_alive));
        Err(ConnectError::WouldBlock)
    }

    fn tcp_send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError> {
        let room = self.sendable(id)?;
        let last = parts.iter().rposition(|part| !part.is_empty());
        let Some(last) = last else { return Ok(0) };
        let mut active = self.active();
        let mut sent = 0;
        'parts: for (number, part) in parts[..=last].iter().enumerate() {
            let mut rest = *part;
            while !rest.is_empty() {
                let written = active.write(id.index, rest, number < last);
                if written == 0 {
                    break 'parts;
                }
                sent += written;
                rest = &rest[written..];
            }
        }
        drop(active);
        self.queued(id, sent, room)
    }

    fn tcp_send_shared(
        &mut self,
        id: SocketId,
        bytes: &Shared,
        range: Range<usize>,
    ) -> Result<usize, SendError> {
        assert!(
            range.start <= range.end && range.end <= bytes.len(),
            "{range:?} is out of bounds"
        );
        let room = self.sendable(id)?;
        if range.is_empty() {
            return Ok(0);
        }
        let mut active = self.active();
        let mut sent = 0;
        while range.start + sent < range.end {
            let written = active.write_shared(id.index, bytes, range.start + sent..range.end);
            if written == 0 {
                break;
            }
            sent += written;
        }
        drop(active);
        self.queued(id, sent, room)
    }

    fn tcp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError> {
        let socket = self.tcp(id).ok_or(RecvError::NotConnected)?;
        if !matches!(socket.role, Role::Connected | Role::Connecting) {
            return Err(RecvError::NotConnected);
        }
        let read_closed = socket.read_closed;
        if !read_closed && let Some(taken) = self.active().read(id.index, look) {
            return Ok(taken);
        }
        let condition = self.core.condition(id.index);
        if condition.ended || read_closed {
            look(&[]);
            return Ok(0);
        }
        match condition.failure {
            Some(Failure::Reset) if condition.connected => Err(RecvError::Reset),
            Some(Failure::TimedOut) if condition.connected => Err(RecvError::TimedOut),
            _ if condition.alive => Err(RecvError::WouldBlock),
            _ if condition.connected => Err(RecvError::Reset),
            _ => Err(RecvError::NotConnected),
        }
    }

    fn tcp_shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError> {
        let socket = self.tcp(id).ok_or(SocketError::NotConnected)?;
        let condition = self.core.condition(id.index);
        if !matches!(socket.role, Role::Connected | Role::Connecting)
            || !condition.connected
            || condition.failure.is_some()
        {
            return Err(SocketError::NotConnected);
        }
        let write_closed = socket.write_closed;
        if which != Shutdown::Write {
            self.tcp[id.index as usize].read_closed = true;
            self.active().discard(id.index);
        }
        if which != Shutdown::Read && !write_closed {
            self.tcp[id.index as usize].write_closed = true;
            self.active().end(id.index);
        }
        self.handles.queue_event(id.index);
        Ok(())
    }

    fn tcp_set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError> {
        let socket = self.tcp_mut(id).ok_or(SocketError::NotConnected)?;
        socket.options.set(option);
        if socket.role == Role::Listening {
            return Ok(());
        }
        match option {
            TcpOption::Linger(_) => {}
            TcpOption::NoDelay(nodelay) => {
                self.core.set_nodelay(id.index, nodelay);
                if nodelay {
                    self.active().output(id.index);
                }
            }
            TcpOption::KeepAlive(idle) => {
                self.core.set_keep_alive(id.index, milliseconds(idle));
            }
        }
        Ok(())
    }

    fn tcp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.tcp(id)?.local
    }

    fn tcp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.tcp(id)?.peer
    }

    fn tcp_queues(&self, id: SocketId) -> Option<TcpQueues> {
        let socket = self.tcp(id)?;
        let condition = self.core.condition(id.index);
        Some(TcpQueues {
            unread: if socket.read_closed {
                0
            } else {
                condition.readable
            },
            unacknowledged: usize::try_from(self.core.unacknowledged(id.index)).ok()?,
            ended: condition.ended || socket.read_closed,
            waiting: condition.waiting,
        })
    }

    fn tcp_close(&mut self, id: SocketId) {
        let Some(socket) = self.tcp(id) else {
            return;
        };
        let (bound, local, linger, read_closed) = (
            socket.bound,
            socket.local,
            socket.options.linger,
            socket.read_closed,
        );
        self.handles.close(id.index);
        if let (true, Some(local)) = (bound, local)
            && let Some(users) = self.bound.get_mut(&local.port())
        {
            users.retain(|user| *user != id.index);
            if users.is_empty() {
                self.bound.remove(&local.port());
            }
        }
        let unread = !read_closed && self.core.condition(id.index).readable > 0;
        let reset = unread || linger == Some(Duration::ZERO);
        let deadline = self.now + linger.unwrap_or(ORPHAN);
        self.active().close(id.index, reset, deadline);
    }
}

/// Returns whether two local addresses can't both use one port.
fn overlap(one: IpAddr, other: IpAddr) -> bool {
    let all = |address: IpAddr| address == IpAddr::V6(core::net::Ipv6Addr::UNSPECIFIED);
    one == other
        || all(one)
        || all(other)
        || (one.is_ipv4() == other.is_ipv4() && (one.is_unspecified() || other.is_unspecified()))
}
