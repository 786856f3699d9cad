//! What TCP sockets do.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, sockopt};
use swapstone_net::error::{
    AcceptError, BindError, ConnectError, Limit, ListenError, RecvError, Resource, SendError,
    SocketError,
};
use swapstone_net::{Shutdown, SocketId, TcpOption};

use crate::stack::{Kernel, of, slices};
use crate::table::{Fault, Phase, Socket};
use crate::{address, fault};

impl Kernel {
    /// Make the kernel's socket with the options that were wished for.
    fn make(&mut self, id: SocketId, ipv6: bool) -> Result<(), Errno> {
        let descriptor = self.create(false, ipv6)?;
        // A port whose former connections are in TIME_WAIT is free.
        sockopt::set_socket_reuseaddr(&descriptor, true)?;
        if let Some(socket) = of(&mut self.table, id, false) {
            socket.descriptor = Some(descriptor);
            socket.ipv6 = ipv6;
            let wishes = socket.wishes;
            for option in [
                TcpOption::NoDelay(wishes.nodelay),
                TcpOption::KeepAlive(wishes.keep_alive),
                TcpOption::Linger(wishes.linger),
            ] {
                // Each was checked when it was wished for.
                let _ = apply(socket, option);
            }
        }
        Ok(())
    }

    pub(crate) fn bind_tcp(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        let socket = of(&mut self.table, id, false).ok_or(BindError::NotNew)?;
        if socket.phase != Phase::New || socket.descriptor.is_some() {
            return Err(BindError::NotNew);
        }
        let limit = self.as_many_as_there_are();
        let fault = |error| fault::bind(error, address.port(), limit);
        self.make(id, address.is_ipv6()).map_err(fault)?;
        let socket = of(&mut self.table, id, false).ok_or(BindError::NotNew)?;
        let descriptor = socket.descriptor.as_ref().ok_or(BindError::NotNew)?;
        if address.is_ipv6() {
            let only = !address::is_everything(&address);
            sockopt::set_ipv6_v6only(descriptor, only).map_err(fault)?;
        }
        if let Err(error) = rustix::net::bind(descriptor, &address) {
            socket.descriptor = None; // it may be bound to something else
            return Err(fault(error));
        }
        Ok(())
    }

    pub(crate) fn listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError> {
        let socket = of(&mut self.table, id, false).ok_or(ListenError::NotBound)?;
        if socket.phase != Phase::New {
            return Err(ListenError::NotNew);
        }
        let descriptor = socket.descriptor.as_ref().ok_or(ListenError::NotBound)?;
        // The kernel would cut it down and say nothing.
        let most = fault::backlog();
        if backlog > most {
            let of = Resource::Backlog;
            return Err(ListenError::Limit(Limit { of, most }));
        }
        let backlog = i32::try_from(backlog.max(1)).unwrap_or(i32::MAX);
        rustix::net::listen(descriptor, backlog).map_err(fault::listen)?;
        socket.phase = Phase::Listening;
        self.begin_watching(id)
            .map_err(|_| ListenError::Limit(self.as_many_as_there_are()))
    }

    pub(crate) fn accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError> {
        let listening = self.table.get(id).filter(|socket| !socket.udp);
        let (Some(Phase::Listening), Some(Some(descriptor)), ipv6) = (
            listening.map(|socket| socket.phase),
            listening.map(|socket| &socket.descriptor),
            listening.is_some_and(|socket| socket.ipv6),
        ) else {
            return Err(AcceptError::NotListening);
        };
        self.room(false).map_err(AcceptError::Limit)?;
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let (descriptor, peer) = loop {
            match rustix::net::acceptfrom_with(descriptor, flags) {
                Ok(accepted) => break accepted,
                Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => {}
                Err(Errno::MFILE | Errno::NFILE | Errno::NOBUFS | Errno::NOMEM) => {
                    return Err(AcceptError::Limit(self.as_many_as_there_are()));
                }
                Err(_) => return Err(AcceptError::WouldBlock),
            }
        };
        let peer = peer
            .and_then(address::plain)
            .ok_or(AcceptError::WouldBlock)?;
        let mut socket = Socket::new(false);
        socket.descriptor = Some(descriptor);
        socket.ipv6 = ipv6;
        socket.phase = Phase::Connected;
        socket.peer = Some(peer);
        let id = self.table.add(socket);
        if self.begin_watching(id).is_err() {
            let limit = self.as_many_as_there_are();
            self.table.remove(id);
            return Err(AcceptError::Limit(limit));
        }
        Ok((id, peer))
    }

    fn begin_watching(&self, id: SocketId) -> Result<(), Errno> {
        match self.table.get(id).and_then(|it| it.descriptor.as_ref()) {
            Some(descriptor) => self.watch(id, descriptor),
            None => Ok(()),
        }
    }

    /// The limit of the process or the machine, which is lower than ours.
    fn as_many_as_there_are(&self) -> Limit {
        Limit {
            of: Resource::TcpSockets,
            most: self.table.tcp,
        }
    }

    pub(crate) fn connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError> {
        let sockets = self.table.tcp;
        let socket = of(&mut self.table, id, false).ok_or(ConnectError::NotNew)?;
        let first = match socket.phase {
            Phase::New => true,
            Phase::Connecting(_) => false,
            Phase::Failed(error) => return Err(error),
            Phase::Connected | Phase::Listening => return Err(ConnectError::NotNew),
        };
        let unbound = socket.descriptor.is_none();
        if first && unbound {
            self.make(id, peer.is_ipv6())
                .map_err(|error| fault::connect(error, sockets))?;
        }
        let socket = of(&mut self.table, id, false).ok_or(ConnectError::NotNew)?;
        let peer = match socket.phase {
            Phase::Connecting(peer) => peer,
            _ => peer,
        };
        let descriptor = socket.descriptor.as_ref().ok_or(ConnectError::NotNew)?;
        // While a connection comes about this call tells how far it is.
        let outcome = match rustix::net::connect(descriptor, &address::mapped(peer, socket.ipv6)) {
            Ok(()) | Err(Errno::ISCONN) => Ok(()),
            Err(error) => Err(fault::connect(error, sockets)),
        };
        if let (true, Err(ConnectError::Limit(_))) = (first, outcome) {
            // Nothing has begun: it can be tried again when there is room.
            if unbound {
                socket.descriptor = None;
            }
            return outcome;
        }
        socket.phase = match outcome {
            Ok(()) => Phase::Connected,
            Err(ConnectError::WouldBlock) => Phase::Connecting(peer),
            Err(error) => Phase::Failed(error),
        };
        if outcome.is_ok() {
            socket.peer = Some(peer);
        }
        if first && self.begin_watching(id).is_err() {
            return Err(ConnectError::Limit(self.as_many_as_there_are()));
        }
        outcome
    }

    pub(crate) fn send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError> {
        let socket = of(&mut self.table, id, false).ok_or(SendError::NotConnected)?;
        if socket.phase != Phase::Connected {
            return Err(SendError::NotConnected);
        }
        if !socket.writes {
            return Err(SendError::Closed);
        }
        let descriptor = socket.descriptor.as_ref().ok_or(SendError::NotConnected)?;
        if parts.iter().all(|part| part.is_empty()) {
            return Ok(0);
        }
        let result = loop {
            let result = match parts {
                [bytes] => rustix::net::send(descriptor, bytes, SendFlags::NOSIGNAL),
                _ => {
                    let (slices, count) = slices(parts);
                    rustix::net::sendmsg(
                        descriptor,
                        &slices[..count],
                        &mut SendAncillaryBuffer::default(),
                        SendFlags::NOSIGNAL,
                    )
                }
            };
            if result != Err(Errno::INTR) {
                break result;
            }
        };
        match result {
            Ok(size) => Ok(size),
            Err(Errno::AGAIN) => Err(SendError::WouldBlock),
            Err(error) => {
                // The end of a connection is told once by the kernel, and its cause is lost in the calls after that.
                let cause = *socket.fault.get_or_insert(fault::connection(error));
                Err(match cause {
                    Fault::Reset => SendError::Reset,
                    Fault::TimedOut => SendError::TimedOut,
                })
            }
        }
    }

    pub(crate) fn receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError> {
        let socket = of(&mut self.table, id, false).ok_or(RecvError::NotConnected)?;
        if socket.phase != Phase::Connected {
            return Err(RecvError::NotConnected);
        }
        if !socket.reads {
            look(&[]);
            return Ok(0);
        }
        let leftover = socket.leftover();
        if !leftover.is_empty() {
            let (shown, taken) = (leftover.len(), look(leftover));
            assert!(taken <= shown, "{taken} bytes taken of {shown}");
            socket.taken += taken;
            if taken == shown {
                socket.left.clear();
                socket.taken = 0;
            }
            return Ok(taken);
        }
        if socket.drained {
            return Err(RecvError::WouldBlock);
        }
        let descriptor = socket.descriptor.as_ref().ok_or(RecvError::NotConnected)?;
        let result = loop {
            match rustix::net::recv(descriptor, &mut self.scratch[..], RecvFlags::empty()) {
                Err(Errno::INTR) => {}
                result => break result,
            }
        };
        match result {
            Ok((0, _)) => match socket.fault {
                None => {
                    look(&[]);
                    Ok(0)
                }
                Some(fault) => Err(received(fault)),
            },
            Ok((size, _)) => {
                // A short read has emptied the socket: the edge that follows is told by the kernel (epoll(7), question 9).
                socket.drained = size < self.scratch.len() && !socket.ending;
                let taken = look(&self.scratch[..size]);
                assert!(taken <= size, "{taken} bytes taken of {size}");
                socket.left.extend_from_slice(&self.scratch[taken..size]);
                Ok(taken)
            }
            Err(Errno::AGAIN) => {
                socket.drained = true;
                Err(RecvError::WouldBlock)
            }
            Err(error) => Err(received(
                *socket.fault.get_or_insert(fault::connection(error)),
            )),
        }
    }

    pub(crate) fn shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError> {
        let socket = of(&mut self.table, id, false).ok_or(SocketError::NotConnected)?;
        let (Phase::Connected, Some(descriptor)) = (socket.phase, &socket.descriptor) else {
            return Err(SocketError::NotConnected);
        };
        if which != Shutdown::Read && socket.writes {
            socket.writes = false;
            match rustix::net::shutdown(descriptor, rustix::net::Shutdown::Write) {
                // A connection that is reset already has no half to end.
                Ok(()) | Err(Errno::NOTCONN) => {}
                Err(error) => return Err(fault::option(error)),
            }
        }
        if which != Shutdown::Write {
            socket.reads = false;
            socket.left = Vec::new();
            socket.taken = 0;
        }
        Ok(())
    }

    pub(crate) fn set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError> {
        let socket = of(&mut self.table, id, false).ok_or(SocketError::NotConnected)?;
        match option {
            TcpOption::NoDelay(at_once) => socket.wishes.nodelay = at_once,
            TcpOption::KeepAlive(after) => socket.wishes.keep_alive = after,
            // The kernel would wait for the peer inside close, which must not block.
            TcpOption::Linger(Some(time)) if !time.is_zero() => {
                return Err(SocketError::Unsupported);
            }
            TcpOption::Linger(linger) => socket.wishes.linger = linger,
        }
        apply(socket, option)
    }

    pub(crate) fn close(&mut self, id: SocketId) {
        if of(&mut self.table, id, false).is_none() {
            return;
        }
        let Some(socket) = self.table.remove(id) else {
            return;
        };
        if let Some(descriptor) = &socket.descriptor {
            // The kernel resets a connection by itself if bytes were not read, but these it has given out.
            if !socket.leftover().is_empty() {
                let _ = sockopt::set_socket_linger(descriptor, Some(Duration::ZERO));
            }
        }
    }
}

fn received(fault: Fault) -> RecvError {
    match fault {
        Fault::Reset => RecvError::Reset,
        Fault::TimedOut => RecvError::TimedOut,
    }
}

/// Give an option to the kernel's socket, if there is one yet.
fn apply(socket: &Socket, option: TcpOption) -> Result<(), SocketError> {
    let Some(descriptor) = &socket.descriptor else {
        return Ok(());
    };
    match option {
        TcpOption::NoDelay(at_once) => sockopt::set_tcp_nodelay(descriptor, at_once),
        TcpOption::KeepAlive(None) => sockopt::set_socket_keepalive(descriptor, false),
        TcpOption::KeepAlive(Some(after)) => {
            // The kernel counts in seconds, and zero is none.
            let after = Duration::from_secs(after.as_secs_f64().ceil().max(1.0) as u64);
            sockopt::set_tcp_keepidle(descriptor, after)
                .and_then(|()| sockopt::set_socket_keepalive(descriptor, true))
        }
        TcpOption::Linger(linger) => sockopt::set_socket_linger(descriptor, linger),
    }
    .map_err(fault::option)
}
