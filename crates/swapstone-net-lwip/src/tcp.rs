//! TCP sockets.

use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;

use swapstone_net::error::{
    AcceptError, BindError, ConnectError, Limit, ListenError, OpenError, RecvError, Resource,
    SendError, SocketError,
};
use swapstone_net::{Device, Readiness, Shared, Shutdown, SocketId, TcpOption};
use swapstone_net_lwip_sys::Failure;

use crate::{Lwip, ORPHAN, PORTS, overlap};

/// What a socket is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Role {
    #[default]
    New,
    Listening,
    /// Its owner has not heard yet what came of it.
    Connecting,
    Connected,
}

/// A TCP socket that has an owner; its slot in lwIP has the same number.
#[derive(Debug, Default)]
pub(crate) struct Tcp {
    pub(crate) open: bool,
    pub(crate) announced: bool,
    pub(crate) starving: bool,
    /// Whether the next poll has to send what is queued.
    pub(crate) unsent: bool,
    pub(crate) read_closed: bool,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    generation: u32,
    role: Role,
    /// Whether it has its port by itself, and is in the table of those.
    bound: bool,
    write_closed: bool,
    nodelay: bool,
    keep_alive: Option<Duration>,
    linger: Option<Duration>,
}

impl Tcp {
    fn renew(&mut self) {
        *self = Self {
            open: true,
            announced: self.announced,
            starving: self.starving,
            unsent: self.unsent,
            generation: self.generation.wrapping_add(1),
            ..Self::default()
        };
    }

    /// It is taken from the queue of events: whose it is now.
    pub(crate) fn announcement(&mut self, number: u32) -> Option<SocketId> {
        self.announced = false;
        self.open.then_some(SocketId {
            index: number,
            generation: self.generation,
        })
    }
}

fn milliseconds(after: Option<Duration>) -> u32 {
    after.map_or(0, |after| {
        u32::try_from(after.as_millis())
            .unwrap_or(u32::MAX / 2)
            .clamp(1, u32::MAX / 2)
    })
}

impl<D: Device> Lwip<D> {
    pub(crate) fn tcp(&self, id: SocketId) -> Option<&Tcp> {
        self.tcp
            .get(id.index as usize)
            .filter(|socket| socket.open && socket.generation == id.generation)
    }

    fn tcp_mut(&mut self, id: SocketId) -> Option<&mut Tcp> {
        self.tcp
            .get_mut(id.index as usize)
            .filter(|socket| socket.open && socket.generation == id.generation)
    }

    pub(crate) fn open_tcp(&mut self) -> Result<SocketId, OpenError> {
        let Some(index) = self.core.tcp_open() else {
            return Err(OpenError::Limit(Limit {
                of: Resource::TcpSockets,
                most: self.limits.tcp_sockets,
            }));
        };
        let socket = &mut self.tcp[index as usize];
        socket.renew();
        Ok(SocketId {
            index,
            generation: socket.generation,
        })
    }

    /// Whether a socket with this address would take another's port.
    fn port_taken(&self, address: SocketAddr) -> bool {
        self.bound.get(&address.port()).is_some_and(|users| {
            users.iter().any(|user| {
                let other = self.tcp[*user as usize].local;
                other.is_some_and(|other| overlap(other.ip(), address.ip()))
            })
        })
    }

    pub(crate) fn bind_tcp(
        &mut self,
        id: SocketId,
        mut address: SocketAddr,
    ) -> Result<(), BindError> {
        let socket = self.tcp(id).ok_or(BindError::NotNew)?;
        if socket.role != Role::New || socket.bound {
            return Err(BindError::NotNew);
        }
        if !self.is_local(address.ip()) {
            return Err(BindError::NotLocal);
        }
        if address.port() == 0 {
            let begin = self.core.random();
            let port = self.choose_port(begin, |this, port| {
                !this.port_taken(SocketAddr::new(address.ip(), port))
            });
            address.set_port(port.ok_or(BindError::Limit(Limit {
                of: Resource::Ports,
                most: PORTS as usize,
            }))?);
        } else if self.port_taken(address) {
            return Err(BindError::InUse);
        }
        self.bound.entry(address.port()).or_default().push(id.index);
        let socket = &mut self.tcp[id.index as usize];
        socket.local = Some(address);
        socket.bound = true;
        Ok(())
    }

    pub(crate) fn listen_tcp(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError> {
        let socket = self.tcp(id).ok_or(ListenError::NotNew)?;
        if socket.role != Role::New {
            return Err(ListenError::NotNew);
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

    fn no_memory(&self) -> Limit {
        Limit {
            of: Resource::PacketMemory,
            most: self.limits.packet_memory,
        }
    }

    pub(crate) fn accept_tcp(
        &mut self,
        id: SocketId,
    ) -> Result<(SocketId, SocketAddr), AcceptError> {
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
        let generation = socket.generation;
        // What it has brought along was noted before it had an owner.
        if !self
            .readiness_tcp(SocketId { index, generation })
            .is_empty()
        {
            self.announce(index);
        }
        Ok((SocketId { index, generation }, peer))
    }

    pub(crate) fn connect_tcp(
        &mut self,
        id: SocketId,
        peer: SocketAddr,
    ) -> Result<(), ConnectError> {
        let socket = self.tcp(id).ok_or(ConnectError::NotNew)?;
        match socket.role {
            Role::New => {}
            Role::Connecting => return self.outcome(id),
            Role::Listening | Role::Connected => return Err(ConnectError::NotNew),
        }
        let many = match peer {
            SocketAddr::V4(peer) => peer.ip().is_multicast() || peer.ip().is_broadcast(),
            SocketAddr::V6(peer) => peer.ip().is_multicast(),
        };
        if many || peer.ip().is_unspecified() || peer.port() == 0 {
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
        let ports = |most| {
            ConnectError::Limit(Limit {
                of: Resource::Ports,
                most,
            })
        };
        let local = match bound {
            Some(local) => {
                let local = SocketAddr::new(address, local.port());
                if self.core.taken(local, peer) {
                    return Err(ports(1));
                }
                local
            }
            None => {
                let begin = self.core.first_port(address, peer);
                let port = self.choose_port(begin, |this, port| {
                    let local = SocketAddr::new(address, port);
                    !this.bound.contains_key(&port) && !this.core.taken(local, peer)
                });
                SocketAddr::new(address, port.ok_or(ports(PORTS as usize))?)
            }
        };
        if !self.active().connect(id.index, local, peer) {
            return Err(ConnectError::Limit(self.no_memory()));
        }
        let socket = &mut self.tcp[id.index as usize];
        socket.role = Role::Connecting;
        socket.local = Some(local);
        socket.peer = Some(peer);
        let (nodelay, keep_alive) = (socket.nodelay, socket.keep_alive);
        self.core.set_nodelay(id.index, nodelay);
        self.core.set_keep_alive(id.index, milliseconds(keep_alive));
        Err(ConnectError::WouldBlock)
    }

    /// What came of a connect.
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

    /// Whether bytes can be queued; how many there is room for.
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

    pub(crate) fn send_tcp(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError> {
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

    pub(crate) fn send_shared_tcp(
        &mut self,
        id: SocketId,
        bytes: &Shared,
        range: Range<usize>,
    ) -> Result<usize, SendError> {
        assert!(
            range.start <= range.end && range.end <= bytes.len(),
            "{range:?} is not inside"
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

    /// Send what was queued since the last poll.
    pub(crate) fn send_queued(&mut self) {
        while let Some(index) = self.unsent.pop_front() {
            let socket = &mut self.tcp[index as usize];
            socket.unsent = false;
            if socket.open && matches!(socket.role, Role::Connected | Role::Connecting) {
                self.active().output(index);
            }
        }
    }

    fn queued(&mut self, id: SocketId, sent: usize, room: usize) -> Result<usize, SendError> {
        if sent > 0 {
            // It leaves with the next poll: what is written until then shares its segments, and so does the end if it is closed.
            if !core::mem::replace(&mut self.tcp[id.index as usize].unsent, true) {
                self.unsent.push_back(id.index);
            }
            return Ok(sent);
        }
        if room > 0 {
            // Its own buffer has room, so what lacks is everybody's memory.
            self.starve(id.index);
        }
        Err(SendError::WouldBlock)
    }

    pub(crate) fn receive_tcp(
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

    pub(crate) fn shutdown_tcp(
        &mut self,
        id: SocketId,
        which: Shutdown,
    ) -> Result<(), SocketError> {
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
        self.announce(id.index);
        Ok(())
    }

    pub(crate) fn set_tcp(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError> {
        let socket = self.tcp_mut(id).ok_or(SocketError::NotConnected)?;
        match option {
            TcpOption::Linger(linger) => socket.linger = linger,
            TcpOption::NoDelay(at_once) => {
                socket.nodelay = at_once;
                if socket.role != Role::Listening {
                    self.core.set_nodelay(id.index, at_once);
                    if at_once {
                        self.active().output(id.index);
                    }
                }
            }
            TcpOption::KeepAlive(after) => {
                socket.keep_alive = after;
                if socket.role != Role::Listening {
                    self.core.set_keep_alive(id.index, milliseconds(after));
                }
            }
        }
        Ok(())
    }

    pub(crate) fn close_tcp(&mut self, id: SocketId) {
        let Some(socket) = self.tcp_mut(id) else {
            return;
        };
        socket.open = false;
        let (bound, local, linger, read_closed) = (
            socket.bound,
            socket.local,
            socket.linger,
            socket.read_closed,
        );
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
