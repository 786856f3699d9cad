// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP sockets: the operations of their owners.

use core::net::{IpAddr, SocketAddr};

use smoltcp::iface::Interface;
use smoltcp::socket::tcp::State;
use swapstone_net::backend::{EPHEMERAL_PORTS, NO_EPHEMERAL_PORT, TcpOptions, is_connectable};
use swapstone_net::device::Device;
use swapstone_net::error::{
    AcceptError, BindError, ConnectError, Limit, ListenError, OpenError, RecvError, Resource,
    SendError, SocketError,
};
use swapstone_net::{Shutdown, SocketId, TcpOption, TcpQueues, TcpStack};

use crate::conn::IN_TIME_WAIT;
use crate::keys::{Key, Realm, seed_for};
use crate::slots::{Conn, Failure, Kind, Listener, Phase, duration};
use crate::stack::{Smoltcp, micros};

/// The number of free ports to search before one in TIME-WAIT is reused.
const SEARCHED_PORTS: usize = 64;

/// The selected local address of a connection.
struct Choice {
    local: SocketAddr,
    /// The record in TIME-WAIT that it replaces.
    after: Option<u32>,
}

impl<D: Device> Smoltcp<D> {
    /// Returns whether a socket can be bound to an address.
    pub(crate) fn bindable(&self, address: IpAddr) -> bool {
        address.is_unspecified() || self.is_local(address)
    }

    fn begin(
        &mut self,
        index: u32,
        local: Option<SocketAddr>,
        bound: Option<Key>,
        options: TcpOptions,
        peer: SocketAddr,
    ) -> Result<(), ConnectError> {
        if !is_connectable(peer) {
            return Err(ConnectError::Unreachable);
        }
        let source = self.source(peer.ip()).ok_or(ConnectError::Unreachable)?;
        let (ip, port) = match local {
            Some(local) if local.ip().is_unspecified() => (source, Some(local.port())),
            Some(local) if local.is_ipv4() != peer.is_ipv4() => {
                return Err(ConnectError::Unreachable);
            }
            Some(local) => (local.ip(), Some(local.port())),
            None => (source, None),
        };
        let choice = self.choose(ip, port, peer)?;
        let mut floor = None;
        if let Some(place) = choice.after {
            floor = Some(self.time_wait.get(place).seq);
            self.remove_time_wait(place);
        }
        let mut conn = self.spare_conn();
        let phase = Phase::Connecting;
        conn.renew((choice.local, peer), phase, options, self.now);
        conn.timestamps = self.fixes.on(crate::fixes::TIMESTAMPS);
        conn.bound = bound;
        conn.isn = self.sequence(&conn.key, floor);
        conn.highest = conn.isn;
        conn.peer_ack.0 = conn.isn;
        conn.una.0 = conn.isn;
        conn.segment = self.output.largest_segment(peer.is_ipv6());
        // smoltcp generates the sequence number from this interface.
        let mut opener: Interface = self.opener(seed_for(conn.isn));
        let begun = conn
            .socket
            .tcp()
            .connect(opener.context(), peer, choice.local);
        if begun.is_err() {
            self.spare_tcp.push(conn);
            return Err(ConnectError::Unreachable);
        }
        conn.socket
            .clear_neighbor(&mut self.clock, micros(self.now));
        conn.state = State::SynSent;
        self.table.insert(conn.key, index);
        let slot = &mut self.slots[index];
        slot.kind = Kind::Conn(conn);
        self.queue_output(index);
        Err(ConnectError::WouldBlock)
    }

    /// Selects the local address: the bound port, or one without a connection to this peer.
    fn choose(
        &mut self,
        ip: IpAddr,
        port: Option<u16>,
        peer: SocketAddr,
    ) -> Result<Choice, ConnectError> {
        let mut fallback = None;
        if let Some(port) = port {
            let local = SocketAddr::new(ip, port);
            match self.table.get(&Key::connection(local, peer)) {
                None => return Ok(Choice { local, after: None }),
                Some(place) if place & IN_TIME_WAIT != 0 => fallback = Some((local, *place)),
                Some(_) => {}
            }
        } else {
            let look = Key::connection(SocketAddr::new(ip, 0), peer);
            for (tried, port) in self.secrets.ports(&look).enumerate() {
                if tried >= SEARCHED_PORTS && fallback.is_some() {
                    break;
                }
                let local = SocketAddr::new(ip, port);
                if self.taken(Realm::TcpPort, local) {
                    continue;
                }
                match self.table.get(&Key::connection(local, peer)) {
                    None => return Ok(Choice { local, after: None }),
                    Some(place) if place & IN_TIME_WAIT != 0 && fallback.is_none() => {
                        fallback = Some((local, *place));
                    }
                    Some(_) => {}
                }
            }
        }
        let most = if port.is_some() {
            1
        } else {
            EPHEMERAL_PORTS as usize
        };
        let of = Resource::Ports;
        let (local, place) = fallback.ok_or(ConnectError::Limit(Limit { of, most }))?;
        Ok(Choice {
            local,
            after: Some(place & !IN_TIME_WAIT),
        })
    }

    fn connection(&mut self, id: SocketId) -> Option<&mut Conn> {
        match &mut self.slots.get_mut(id)?.kind {
            Kind::Conn(conn) => Some(conn),
            _ => None,
        }
    }

    /// Returns the connection if it can send, or why it can't.
    fn sendable(&mut self, id: SocketId) -> Result<&mut Conn, SendError> {
        let conn = self.connection(id).ok_or(SendError::NotConnected)?;
        match (conn.phase, conn.failure) {
            (Phase::Over, Some(Failure::Reset)) => Err(SendError::Reset),
            (Phase::Over, Some(Failure::TimedOut)) if conn.established => Err(SendError::TimedOut),
            (Phase::Over, Some(_)) => Err(SendError::NotConnected),
            (Phase::Over, None) => Err(SendError::Closed),
            _ if conn.shut_write => Err(SendError::Closed),
            (Phase::Open(_), _) if conn.aborting => Err(SendError::TimedOut),
            (Phase::Open(_), _) => Ok(conn),
            _ => Err(SendError::WouldBlock),
        }
    }

    fn queued(&mut self, id: SocketId, sent: usize, full: bool) -> Result<usize, SendError> {
        if let Some(conn) = self.connection(id) {
            conn.undelivered += sent;
        }
        if sent > 0 {
            self.queue_output(id.index);
        }
        self.seen(id.index);
        if full {
            Err(SendError::WouldBlock)
        } else {
            Ok(sent)
        }
    }

    /// Removes a socket that is not a connection.
    fn release(&mut self, index: u32, bound: Option<Key>) {
        self.slots.remove(index);
        self.statistics.tcp_sockets -= 1;
        if let Some(bound) = bound {
            self.table.remove(&bound);
        }
    }

    /// Resets the connections in SYN-RECEIVED of a closed listener. It examines all sockets, but
    /// only if there are such connections.
    fn refuse_half_open(&mut self, listening: u32) {
        for index in 0..self.slots.len() {
            if let Some(conn) = self.slots.conn(index)
                && conn.phase == Phase::Handshaking(listening)
            {
                conn.phase = Phase::Open(Some(listening));
                self.close_connection(index);
            }
        }
    }

    /// Closes a connection after its owner has closed the socket, or resets it.
    fn close_connection(&mut self, index: u32) {
        let now = self.now;
        self.slots.close(index);
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        conn.orphan = true;
        let unread = conn.socket.get().can_recv() && !conn.shut_read;
        let waiting = matches!(conn.phase, Phase::Open(Some(_)));
        let (linger, bound) = (conn.options.linger, conn.bound.take());
        let over = matches!(conn.phase, Phase::Over | Phase::Connecting);
        let reset = unread || waiting || linger.is_some_and(|linger| linger.is_zero());
        if !over && !reset {
            conn.linger_until = linger.map(|linger| now + linger);
            conn.socket.tcp().close();
            conn.state = conn.socket.get().state();
            conn.shut_write = true;
            conn.fails_at = None;
        }
        self.statistics.orphans += 1;
        if let Some(bound) = bound {
            self.table.remove(&bound);
        }
        if over {
            self.discard(index);
        } else if reset {
            self.abort(index);
        } else {
            self.queue_output(index);
        }
    }
}

impl<D: Device> TcpStack for Smoltcp<D> {
    fn tcp_open(&mut self) -> Result<SocketId, OpenError> {
        let most = self.limits.tcp_sockets;
        if self.statistics.tcp_sockets >= most as u64 {
            let of = Resource::TcpSockets;
            return Err(OpenError::Limit(Limit { of, most }));
        }
        self.statistics.tcp_sockets += 1;
        let new = Kind::New {
            local: None,
            bound: None,
            options: TcpOptions::default(),
        };
        let index = self.slots.add(new);
        Ok(self.slots.open(index))
    }

    fn tcp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        let bindable = self.bindable(address.ip());
        match self.slots.get(id).map(|slot| &slot.kind) {
            Some(Kind::New { bound: None, .. }) if bindable => {}
            Some(Kind::New { bound: None, .. }) => return Err(BindError::NotLocal),
            _ => return Err(BindError::AlreadyBound),
        }
        let (local, key) = self
            .take_port(Realm::TcpPort, address, id.index)
            .ok_or_else(|| no_port(address))?;
        if let Kind::New {
            local: at, bound, ..
        } = &mut self.slots[id.index].kind
        {
            (*at, *bound) = (Some(local), Some(key));
        }
        Ok(())
    }

    fn tcp_listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError> {
        let Some(slot) = self.slots.get_mut(id) else {
            return Err(ListenError::NotBound);
        };
        match slot.kind {
            Kind::New {
                local: Some(local),
                bound: Some(bound),
                ..
            } => {
                let most = self.limits.tcp_sockets;
                if backlog > most {
                    let of = Resource::Backlog;
                    return Err(ListenError::Limit(Limit { of, most }));
                }
                let listener = Listener {
                    local,
                    backlog: backlog.max(1),
                    half_open: 0,
                    ready: Default::default(),
                };
                slot.kind = Kind::Listener(listener, bound);
                Ok(())
            }
            Kind::New { .. } => Err(ListenError::NotBound),
            _ => Err(ListenError::AlreadyActive),
        }
    }

    fn tcp_accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError> {
        let Some(slot) = self.slots.get_mut(id) else {
            return Err(AcceptError::NotListening);
        };
        let Kind::Listener(listener, _) = &mut slot.kind else {
            return Err(AcceptError::NotListening);
        };
        let taken = listener.ready.pop_front();
        self.seen(id.index);
        let index = taken.ok_or(AcceptError::WouldBlock)?;
        let accepted = self.slots.open(index);
        let Some(conn) = self.slots.conn(index) else {
            return Err(AcceptError::WouldBlock);
        };
        if conn.phase != Phase::Over {
            conn.phase = Phase::Open(None);
        }
        let remote = conn.remote;
        self.slots[index].seen = swapstone_net::Readiness::NONE;
        self.notify(index, false);
        Ok((accepted, remote))
    }

    fn tcp_connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError> {
        let slot = self.slots.get_mut(id).ok_or(ConnectError::AlreadyActive)?;
        match &mut slot.kind {
            Kind::New {
                local,
                bound,
                options,
            } => {
                let (local, bound, options) = (*local, *bound, *options);
                self.begin(id.index, local, bound, options, peer)
            }
            Kind::Conn(conn) => match (conn.phase, conn.failure) {
                _ if conn.reported => Err(ConnectError::AlreadyActive),
                _ if conn.established => {
                    conn.reported = true;
                    Ok(())
                }
                (Phase::Over, Some(Failure::TimedOut)) => Err(ConnectError::TimedOut),
                (Phase::Over, Some(Failure::Unreachable)) => Err(ConnectError::Unreachable),
                (Phase::Over, _) => Err(ConnectError::Refused),
                _ => Err(ConnectError::WouldBlock),
            },
            _ => Err(ConnectError::AlreadyActive),
        }
    }

    fn tcp_send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError> {
        let conn = self.sendable(id)?;
        let mut sent = 0;
        for part in parts {
            let taken = conn.socket.write(part);
            sent += taken;
            if taken < part.len() {
                break;
            }
        }
        let full = sent == 0 && parts.iter().any(|part| !part.is_empty());
        self.queued(id, sent, full)
    }

    fn tcp_send_with(
        &mut self,
        id: SocketId,
        most: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<usize, SendError> {
        let conn = self.sendable(id)?;
        let sent = conn.socket.fill(most, fill);
        self.queued(id, sent.unwrap_or(0), sent.is_none() && most > 0)
    }

    fn tcp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError> {
        let conn = self.connection(id).ok_or(RecvError::NotConnected)?;
        if conn.socket.get().can_recv() && !conn.shut_read && conn.established {
            let taken = conn.socket.tcp().recv(|bytes| {
                let taken = look(bytes);
                assert!(taken <= bytes.len(), "more was taken than was shown");
                (taken, taken)
            });
            let over = conn.phase == Phase::Over;
            let taken = taken.unwrap_or(0);
            if taken > 0 && !over {
                self.queue_output(id.index);
            }
            self.seen(id.index);
            return Ok(taken);
        }
        let result = match (conn.phase, conn.failure) {
            _ if conn.ended() || conn.shut_read => Ok(0),
            (Phase::Over, Some(Failure::TimedOut)) if conn.established => Err(RecvError::TimedOut),
            (Phase::Over, Some(Failure::Reset)) => Err(RecvError::Reset),
            (Phase::Over, Some(_)) => Err(RecvError::NotConnected),
            (Phase::Over, None) => Ok(0),
            _ => Err(RecvError::WouldBlock),
        };
        self.seen(id.index);
        if result.is_ok() {
            look(&[]);
        }
        result
    }

    fn tcp_shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError> {
        let conn = self.connection(id).ok_or(SocketError::NotConnected)?;
        if !matches!(conn.phase, Phase::Open(_)) {
            return Err(SocketError::NotConnected);
        }
        if which != Shutdown::Write {
            conn.shut_read = true;
            while conn.socket.get().can_recv() {
                let _ = conn.socket.tcp().recv(|bytes| (bytes.len(), ()));
            }
        }
        if which != Shutdown::Read && !conn.shut_write {
            conn.shut_write = true;
            conn.socket.tcp().close();
            conn.state = conn.socket.get().state();
            conn.fails_at = None;
        }
        self.queue_output(id.index);
        self.notify(id.index, false);
        Ok(())
    }

    fn tcp_set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError> {
        let now = self.now;
        let slot = self.slots.get_mut(id).ok_or(SocketError::NotConnected)?;
        let options = match &mut slot.kind {
            Kind::New { options, .. } => options,
            Kind::Conn(conn) => {
                match option {
                    TcpOption::NoDelay(on) => conn.socket.tcp().set_nagle_enabled(!on),
                    TcpOption::KeepAlive(each) => {
                        conn.last_segment_at = now;
                        conn.probing &= each.is_some();
                        if each.is_none() || conn.probing {
                            conn.socket.tcp().set_keep_alive(each.map(duration));
                        }
                    }
                    TcpOption::Linger(_) => {}
                }
                &mut conn.options
            }
            _ => return Err(SocketError::NotConnected),
        };
        options.set(option);
        self.queue_output(id.index);
        Ok(())
    }

    fn tcp_local(&self, id: SocketId) -> Option<SocketAddr> {
        match &self.slots.get(id)?.kind {
            Kind::New { local, .. } => *local,
            Kind::Listener(listener, _) => Some(listener.local),
            Kind::Conn(conn) => Some(conn.local),
            Kind::Free | Kind::Udp(_) => None,
        }
    }

    fn tcp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        match &self.slots.get(id)?.kind {
            Kind::Conn(conn) => Some(conn.remote),
            _ => None,
        }
    }

    fn tcp_queues(&self, id: SocketId) -> Option<TcpQueues> {
        let mut queues = TcpQueues::default();
        match &self.slots.get(id)?.kind {
            Kind::Conn(conn) => {
                let socket = conn.socket.get();
                queues.ended = conn.ended() || conn.shut_read;
                queues.unread = if conn.shut_read {
                    0
                } else {
                    socket.recv_queue()
                };
                queues.unacknowledged = socket.send_queue();
            }
            Kind::Listener(listener, _) => queues.waiting = listener.ready.len(),
            _ => {}
        }
        Some(queues)
    }

    fn tcp_close(&mut self, id: SocketId) {
        let Some(slot) = self.slots.get_mut(id) else {
            return;
        };
        match &mut slot.kind {
            Kind::New { bound, .. } => {
                let bound = *bound;
                self.release(id.index, bound);
            }
            Kind::Listener(listener, bound) => {
                let (ready, bound) = (core::mem::take(&mut listener.ready), *bound);
                let half_open = listener.half_open > 0;
                self.release(id.index, Some(bound));
                for index in ready {
                    self.close_connection(index);
                }
                if half_open {
                    self.refuse_half_open(id.index);
                }
            }
            Kind::Conn(_) => self.close_connection(id.index),
            Kind::Free | Kind::Udp(_) => {}
        }
    }
}

/// The error for a port that can't be bound.
pub(crate) fn no_port(address: SocketAddr) -> BindError {
    if address.port() != 0 {
        return BindError::InUse;
    }
    BindError::Limit(NO_EPHEMERAL_PORT)
}
