// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets.

use alloc::boxed::Box;
use core::net::SocketAddr;
use core::time::Duration;

use smoltcp::iface::PollResult;
use smoltcp::socket::udp::UdpMetadata;
use swapstone_net::backend::wildcard_for;
use swapstone_net::device::{Device, Frame};
use swapstone_net::error::{BindError, Limit, OpenError, Resource, UdpRecvError, UdpSendError};
use swapstone_net::{Readiness, SocketId, UdpStack};

use crate::keys::Realm;
use crate::port::Port;
use crate::slots::{Kind, Udp, UdpSet};
use crate::stack::{Smoltcp, micros};
use crate::tcp::no_port;
use crate::wire::Datagram;

/// How long a datagram waits for neighbor discovery before it is dropped.
const DISCOVERY: Duration = Duration::from_secs(3);

impl Udp {
    /// Creates a socket with queues of `datagrams` datagrams of at most `size` bytes.
    fn new(datagrams: usize, size: usize) -> Box<Self> {
        Box::new(Self {
            socket: UdpSet::new(datagrams, size),
            local: None,
            bound: None,
            peer: None,
            received: 0,
            unsent: 0,
            fails_at: None,
        })
    }

    /// Resets the socket.
    fn renew(&mut self) {
        self.socket.renew();
        (self.local, self.bound, self.peer) = (None, None, None);
        (self.received, self.unsent) = (0, 0);
        self.fails_at = None;
    }

    pub(crate) fn readiness(&self, most: usize) -> Readiness {
        let mut ready = Readiness::NONE;
        if self.received > 0 {
            ready |= Readiness::READABLE;
        }
        if self.unsent < most {
            ready |= Readiness::WRITABLE;
        }
        ready
    }

    /// Returns whether the socket accepts datagrams of this sender.
    fn accepts_from(&self, sender: SocketAddr) -> bool {
        self.peer.is_none_or(|peer| peer == sender)
    }
}

impl<D: Device> Smoltcp<D> {
    fn udp_at(&mut self, index: u32) -> Option<&mut Udp> {
        match &mut self.slots[index].kind {
            Kind::Udp(udp) => Some(udp),
            _ => None,
        }
    }

    pub(crate) fn udp(&mut self, id: SocketId) -> Option<&mut Udp> {
        match &mut self.slots.get_mut(id)?.kind {
            Kind::Udp(udp) => Some(udp),
            _ => None,
        }
    }

    /// Returns the maximum datagram length. Fragmentation is not supported.
    fn largest_datagram(&self, v6: bool) -> usize {
        let tcp = usize::from(self.output.largest_segment(v6));
        // A TCP header is 12 bytes longer than a UDP header.
        tcp + 12
    }

    /// Binds an unbound socket to a free port of the peer's family.
    fn ensure_bound(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), BindError> {
        if self.udp(id).is_some_and(|udp| udp.local.is_some()) {
            return Ok(());
        }
        self.udp_bind(id, wildcard_for(peer.ip()))
    }

    /// Processes a received datagram.
    pub(crate) fn process_udp(&mut self, frame: &Frame, datagram: &Datagram) {
        let broadcast = !self.is_local(datagram.local.ip());
        let mut found = self.bound(Realm::UdpPort, datagram.local).next();
        if found.is_none() && broadcast {
            let port = datagram.local.port();
            found = self.addresses.iter().find_map(|own| {
                self.bound(Realm::UdpPort, SocketAddr::new(own.address, port))
                    .next()
            });
        }
        let datagrams = self.limits.datagrams;
        let Some(index) = found else {
            return self.process_unassigned(&frame.bytes);
        };
        let Some(udp) = self.udp_at(index) else {
            return;
        };
        if !udp.accepts_from(datagram.remote) {
            return self.process_unassigned(&frame.bytes);
        }
        if udp.received >= datagrams {
            self.statistics.no_room += 1;
            return;
        }
        let Kind::Udp(udp) = &mut self.slots[index].kind else {
            return;
        };
        let (before, empty) = (udp.socket.udp().recv_queue(), !udp.socket.udp().can_recv());
        let mut port = Port {
            device: &mut self.device,
            output: &mut self.output,
            frame: Some(&frame.bytes),
        };
        self.iface
            .poll_ingress_single(micros(self.now), &mut port, &mut udp.socket.set);
        let socket = udp.socket.udp();
        let received = socket.recv_queue() > before || (datagram.payload == 0 && socket.can_recv());
        // smoltcp rejects some valid datagrams, such as those from a multicast address.
        if received && (socket.can_recv() || empty) {
            udp.received += 1;
            self.notify(index, true);
        }
    }

    /// Lets smoltcp send the queued datagrams of a socket.
    pub(crate) fn send_udp(&mut self, index: u32) {
        let now = self.now;
        let Kind::Udp(udp) = &mut self.slots[index].kind else {
            return;
        };
        let mut held = false;
        while udp.unsent > 0 {
            if !self.output.retry(&mut self.device) {
                held = true;
                break;
            }
            let mut port = Port {
                device: &mut self.device,
                output: &mut self.output,
                frame: None,
            };
            let set = &mut udp.socket.set;
            if self.iface.poll_egress(micros(now), &mut port, set) == PollResult::None {
                if udp.fails_at.is_some_and(|at| at <= now) {
                    // Neighbor discovery failed: the datagram is dropped.
                    self.drain.poll_egress(micros(now), &mut self.sink, set);
                    udp.unsent -= 1;
                    udp.fails_at = None;
                    continue;
                }
                break;
            }
            udp.unsent -= 1;
            udp.fails_at = None;
        }
        if held {
            self.queue_output(index);
        } else if udp.unsent > 0 {
            let fails_at = *udp.fails_at.get_or_insert(now + DISCOVERY);
            self.await_neighbor(index);
            let due = self.due(index).filter(|at| *at > now.micros());
            let at = fails_at.micros();
            self.timers
                .set(index, Some(due.map_or(at, |due| due.min(at))));
        } else {
            self.timers.set(index, None);
        }
        self.notify(index, false);
    }
}

impl<D: Device> UdpStack for Smoltcp<D> {
    fn udp_open(&mut self) -> Result<SocketId, OpenError> {
        let most = self.limits.udp_sockets;
        if self.statistics.udp_sockets >= most as u64 {
            let of = Resource::UdpSockets;
            return Err(OpenError::Limit(Limit { of, most }));
        }
        let size = self.largest_datagram(false);
        let datagrams = self.limits.datagrams;
        let mut udp = self
            .spare_udp
            .pop()
            .unwrap_or_else(|| Udp::new(datagrams, size));
        udp.renew();
        self.statistics.udp_sockets += 1;
        let index = self.slots.add(Kind::Udp(udp));
        Ok(self.slots.open(index))
    }

    fn udp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        let bindable = self.bindable(address.ip());
        match self.udp(id) {
            Some(udp) if udp.local.is_some() => return Err(BindError::AlreadyBound),
            Some(_) if !bindable => return Err(BindError::NotLocal),
            Some(_) => {}
            None => return Err(BindError::AlreadyBound),
        }
        let (local, key) = self
            .take_port(Realm::UdpPort, address, id.index)
            .ok_or_else(|| no_port(address))?;
        if let Some(udp) = self.udp(id) {
            udp.local = Some(local);
            udp.bound = Some(key);
            // This can't fail: the port is not 0, and the socket is closed.
            let _ = udp.socket.udp().bind(local.port());
        }
        Ok(())
    }

    fn udp_connect(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError> {
        if let Some(peer) = peer {
            self.ensure_bound(id, peer)?;
        }
        let udp = self.udp(id).ok_or(BindError::AlreadyBound)?;
        udp.peer = peer;
        Ok(())
    }

    fn udp_send(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        let udp = self.udp(id).ok_or(UdpSendError::NoPeer)?;
        let peer = peer.or(udp.peer).ok_or(UdpSendError::NoPeer)?;
        let size: usize = parts.iter().map(|part| part.len()).sum();
        let most = self.largest_datagram(peer.is_ipv6());
        if size > most {
            let of = Resource::DatagramBytes;
            return Err(UdpSendError::Limit(Limit { of, most }));
        }
        self.ensure_bound(id, peer)?;
        let source = self.source(peer.ip()).ok_or(UdpSendError::Unreachable)?;
        let datagrams = self.limits.datagrams;
        let udp = self.udp(id).ok_or(UdpSendError::NoPeer)?;
        let source = match udp.local {
            Some(local) if local.ip().is_unspecified() => source,
            Some(local) if local.is_ipv4() == peer.is_ipv4() => local.ip(),
            _ => return Err(UdpSendError::Unreachable),
        };
        if peer.port() == 0 {
            return Err(UdpSendError::Unreachable);
        }
        if udp.unsent >= datagrams {
            return Err(UdpSendError::WouldBlock);
        }
        let mut to: UdpMetadata = smoltcp::wire::IpEndpoint::from(peer).into();
        to.local_address = Some(source.into());
        let Ok(room) = udp.socket.udp().send(size, to) else {
            return Err(UdpSendError::WouldBlock);
        };
        let mut at = 0;
        for part in parts {
            room[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        udp.unsent += 1;
        self.queue_output(id.index);
        self.seen(id.index);
        Ok(())
    }

    fn udp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError> {
        let udp = self.udp(id).ok_or(UdpRecvError::NotBound)?;
        if udp.local.is_none() {
            return Err(UdpRecvError::NotBound);
        }
        let mut result = Err(UdpRecvError::WouldBlock);
        while udp.received > 0 {
            let filter = udp.peer;
            let Ok((bytes, from)) = udp.socket.udp().peek() else {
                udp.received = 0;
                break;
            };
            let sender = SocketAddr::from(from.endpoint);
            // A datagram that arrived before `connect` set another peer.
            let unheard = filter.is_some_and(|peer| peer != sender);
            if unheard || look(bytes, sender) {
                let _ = udp.socket.udp().recv();
                udp.received -= 1;
            }
            if !unheard {
                result = Ok(());
                break;
            }
        }
        self.seen(id.index);
        result
    }

    fn udp_local(&self, id: SocketId) -> Option<SocketAddr> {
        match &self.slots.get(id)?.kind {
            Kind::Udp(udp) => udp.local,
            _ => None,
        }
    }

    fn udp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        match &self.slots.get(id)?.kind {
            Kind::Udp(udp) => udp.peer,
            _ => None,
        }
    }

    fn udp_close(&mut self, id: SocketId) {
        if self.udp(id).is_none() {
            return;
        }
        self.timers.set(id.index, None);
        if let Kind::Udp(udp) = self.slots.remove(id.index) {
            if let Some(bound) = udp.bound {
                self.table.remove(&bound);
            }
            self.statistics.udp_sockets -= 1;
            self.spare_udp.push(udp);
        }
    }
}
