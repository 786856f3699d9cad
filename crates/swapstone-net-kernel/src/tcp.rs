// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP sockets.

use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, SocketFlags, sockopt};
use swapstone_net::error::{
    AcceptError, BindError, ConnectError, Limit, ListenError, OpenError, RecvError, Resource,
    SendError, SocketError,
};
use swapstone_net::{Shutdown, SocketId, TcpOption, TcpStack};

use crate::socket::{ConnectionError, Phase, Socket};
use crate::stack::{Kernel, record_control, slices};
use crate::{address, errno};

impl Kernel {
    /// Creates the descriptor of a socket and sets the options that were stored.
    fn create_tcp(&mut self, id: SocketId, ipv6: bool) -> Result<(), Errno> {
        let descriptor = self.create(false, ipv6)?;
        // A port whose former connections are in TIME_WAIT is free.
        sockopt::set_socket_reuseaddr(&descriptor, true)?;
        if let Some(socket) = self.sockets.tcp(id) {
            socket.descriptor = Some(descriptor);
            socket.ipv6 = ipv6;
            for option in socket.options.all() {
                // `tcp_set` has rejected unsupported values.
                let _ = apply(socket, option);
            }
        }
        Ok(())
    }

    fn watch_tcp(&self, id: SocketId) -> Result<(), Errno> {
        match self.sockets.get(id).and_then(|it| it.descriptor.as_ref()) {
            Some(descriptor) => self.watch(id, descriptor),
            None => Ok(()),
        }
    }

    /// The limit of descriptors of the process or the system, which is lower than the configured one.
    fn descriptor_limit(&self) -> Limit {
        Limit {
            of: Resource::TcpSockets,
            most: self.sockets.tcp,
        }
    }
}

impl TcpStack for Kernel {
    fn tcp_open(&mut self) -> Result<SocketId, OpenError> {
        self.room(false).map_err(OpenError::Limit)?;
        Ok(self.sockets.add(Socket::new(false)))
    }

    fn tcp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        let socket = self.sockets.tcp(id).ok_or(BindError::AlreadyBound)?;
        if socket.phase != Phase::New || socket.descriptor.is_some() {
            return Err(BindError::AlreadyBound);
        }
        let limit = self.descriptor_limit();
        let convert = |error| errno::bind(error, address.port(), limit);
        self.create_tcp(id, address.is_ipv6()).map_err(convert)?;
        let socket = self.sockets.tcp(id).ok_or(BindError::AlreadyBound)?;
        let descriptor = socket.descriptor.as_ref().ok_or(BindError::AlreadyBound)?;
        if address.is_ipv6() {
            let only = !address::is_dual_stack_wildcard(&address);
            sockopt::set_ipv6_v6only(descriptor, only).map_err(convert)?;
        }
        if let Err(error) = rustix::net::bind(descriptor, &address) {
            socket.descriptor = None; // a later bind starts anew
            return Err(convert(error));
        }
        Ok(())
    }

    fn tcp_listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError> {
        let socket = self.sockets.tcp(id).ok_or(ListenError::NotBound)?;
        if socket.phase != Phase::New {
            return Err(ListenError::AlreadyActive);
        }
        let descriptor = socket.descriptor.as_ref().ok_or(ListenError::NotBound)?;
        // listen(2) would reduce it silently.
        let most = errno::backlog();
        if backlog > most {
            let of = Resource::Backlog;
            return Err(ListenError::Limit(Limit { of, most }));
        }
        let backlog = i32::try_from(backlog.max(1)).unwrap_or(i32::MAX);
        rustix::net::listen(descriptor, backlog).map_err(errno::listen)?;
        socket.phase = Phase::Listening;
        self.watch_tcp(id)
            .map_err(|_| ListenError::Limit(self.descriptor_limit()))
    }

    fn tcp_accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError> {
        let listening = self.sockets.get(id).filter(|socket| !socket.udp);
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
                    return Err(AcceptError::Limit(self.descriptor_limit()));
                }
                Err(_) => return Err(AcceptError::WouldBlock),
            }
        };
        let peer = peer
            .and_then(address::plain)
            .ok_or(AcceptError::WouldBlock)?;
        record_control(&descriptor);
        let mut socket = Socket::new(false);
        socket.descriptor = Some(descriptor);
        socket.ipv6 = ipv6;
        socket.phase = Phase::Connected;
        socket.peer = Some(peer);
        let id = self.sockets.add(socket);
        if self.watch_tcp(id).is_err() {
            let limit = self.descriptor_limit();
            self.sockets.remove(id);
            return Err(AcceptError::Limit(limit));
        }
        Ok((id, peer))
    }

    fn tcp_connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError> {
        let sockets = self.sockets.tcp;
        let socket = self.sockets.tcp(id).ok_or(ConnectError::AlreadyActive)?;
        let first = match socket.phase {
            Phase::New => true,
            Phase::Connecting(_) => false,
            Phase::Failed(error) => return Err(error),
            Phase::Connected | Phase::Listening => return Err(ConnectError::AlreadyActive),
        };
        let unbound = socket.descriptor.is_none();
        if first && unbound {
            self.create_tcp(id, peer.is_ipv6())
                .map_err(|error| errno::connect(error, sockets))?;
        }
        let socket = self.sockets.tcp(id).ok_or(ConnectError::AlreadyActive)?;
        let peer = match socket.phase {
            Phase::Connecting(peer) => peer,
            _ => peer,
        };
        let descriptor = socket
            .descriptor
            .as_ref()
            .ok_or(ConnectError::AlreadyActive)?;
        // During a handshake this call returns its state.
        let outcome = match rustix::net::connect(descriptor, &address::mapped(peer, socket.ipv6)) {
            Ok(()) | Err(Errno::ISCONN) => {
                record_control(descriptor);
                Ok(())
            }
            Err(error) => Err(errno::connect(error, sockets)),
        };
        if let (true, Err(ConnectError::Limit(_))) = (first, outcome) {
            // No SYN was sent, so the caller can try again.
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
        if first && self.watch_tcp(id).is_err() {
            return Err(ConnectError::Limit(self.descriptor_limit()));
        }
        outcome
    }

    fn tcp_send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError> {
        let socket = self.sockets.tcp(id).ok_or(SendError::NotConnected)?;
        if socket.phase != Phase::Connected {
            return Err(SendError::NotConnected);
        }
        if socket.write_closed {
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
                // The kernel reports the error once; later calls return EPIPE.
                let cause = *socket.error.get_or_insert(errno::connection(error));
                Err(match cause {
                    ConnectionError::Reset => SendError::Reset,
                    ConnectionError::TimedOut => SendError::TimedOut,
                })
            }
        }
    }

    fn tcp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError> {
        let socket = self.sockets.tcp(id).ok_or(RecvError::NotConnected)?;
        if socket.phase != Phase::Connected {
            return Err(RecvError::NotConnected);
        }
        if socket.read_closed {
            look(&[]);
            return Ok(0);
        }
        let pending = socket.pending();
        if !pending.is_empty() {
            let (shown, taken) = (pending.len(), look(pending));
            assert!(taken <= shown, "{taken} bytes taken of {shown}");
            socket.consumed += taken;
            if taken == shown {
                socket.pending.clear();
                socket.consumed = 0;
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
            Ok((0, _)) => match socket.error {
                None => {
                    look(&[]);
                    Ok(0)
                }
                Some(error) => Err(received(error)),
            },
            Ok((size, _)) => {
                // A short read means an empty receive queue: epoll reports further data (epoll(7), Q9).
                socket.drained = size < self.scratch.len() && !socket.ending;
                let taken = look(&self.scratch[..size]);
                assert!(taken <= size, "{taken} bytes taken of {size}");
                socket.pending.extend_from_slice(&self.scratch[taken..size]);
                Ok(taken)
            }
            Err(Errno::AGAIN) => {
                socket.drained = true;
                Err(RecvError::WouldBlock)
            }
            Err(error) => Err(received(
                *socket.error.get_or_insert(errno::connection(error)),
            )),
        }
    }

    fn tcp_shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError> {
        let socket = self.sockets.tcp(id).ok_or(SocketError::NotConnected)?;
        let (Phase::Connected, Some(descriptor)) = (socket.phase, &socket.descriptor) else {
            return Err(SocketError::NotConnected);
        };
        if which != Shutdown::Read && !socket.write_closed {
            socket.write_closed = true;
            match rustix::net::shutdown(descriptor, rustix::net::Shutdown::Write) {
                // The connection was reset before.
                Ok(()) | Err(Errno::NOTCONN) => {}
                Err(error) => return Err(errno::option(error)),
            }
        }
        if which != Shutdown::Write {
            socket.read_closed = true;
            socket.pending = Vec::new();
            socket.consumed = 0;
        }
        Ok(())
    }

    fn tcp_set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError> {
        let socket = self.sockets.tcp(id).ok_or(SocketError::NotConnected)?;
        if let TcpOption::Linger(Some(time)) = option
            && !time.is_zero()
        {
            // close(2) would block for this time.
            return Err(SocketError::Unsupported);
        }
        socket.options.set(option);
        apply(socket, option)
    }

    fn tcp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.local(id, false)
    }

    fn tcp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.peer(id, false)
    }

    fn tcp_close(&mut self, id: SocketId) {
        if self.sockets.tcp(id).is_none() {
            return;
        }
        let Some(socket) = self.sockets.remove(id) else {
            return;
        };
        if let Some(descriptor) = &socket.descriptor {
            // The kernel resets the connection if its receive queue is not empty. These bytes were
            // already read from it.
            if !socket.pending().is_empty() {
                let _ = sockopt::set_socket_linger(descriptor, Some(Duration::ZERO));
            }
        }
    }
}

fn received(error: ConnectionError) -> RecvError {
    match error {
        ConnectionError::Reset => RecvError::Reset,
        ConnectionError::TimedOut => RecvError::TimedOut,
    }
}

/// Sets an option of the descriptor, if there is one.
fn apply(socket: &Socket, option: TcpOption) -> Result<(), SocketError> {
    let Some(descriptor) = &socket.descriptor else {
        return Ok(());
    };
    match option {
        TcpOption::NoDelay(nodelay) => sockopt::set_tcp_nodelay(descriptor, nodelay),
        TcpOption::KeepAlive(None) => sockopt::set_socket_keepalive(descriptor, false),
        TcpOption::KeepAlive(Some(idle)) => {
            // TCP_KEEPIDLE is in seconds and must not be 0.
            let idle = Duration::from_secs(idle.as_secs_f64().ceil().max(1.0) as u64);
            sockopt::set_tcp_keepidle(descriptor, idle)
                .and_then(|()| sockopt::set_socket_keepalive(descriptor, true))
        }
        TcpOption::Linger(linger) => sockopt::set_socket_linger(descriptor, linger),
    }
    .map_err(errno::option)
}
