// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets.

use std::net::SocketAddr;

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};
use swapstone_net::backend::wildcard_for;
use swapstone_net::error::{BindError, Limit, OpenError, Resource, UdpRecvError, UdpSendError};
use swapstone_net::{SocketId, UdpStack};

use crate::socket::Socket;
use crate::stack::{Kernel, PARTS, slices};
use crate::{address, errno};

impl Kernel {
    fn datagram_limit(&self) -> Limit {
        Limit {
            of: Resource::UdpSockets,
            most: self.sockets.udp,
        }
    }

    /// Binds an unbound socket to a free port of the peer's family.
    fn ensure_bound(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), BindError> {
        let socket = self.sockets.udp(id).ok_or(BindError::AlreadyBound)?;
        if socket.descriptor.is_some() {
            return Ok(());
        }
        self.udp_bind(id, wildcard_for(peer.ip()))
    }
}

impl UdpStack for Kernel {
    fn udp_open(&mut self) -> Result<SocketId, OpenError> {
        self.room(true).map_err(OpenError::Limit)?;
        Ok(self.sockets.add(Socket::new(true)))
    }

    fn udp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        let socket = self.sockets.udp(id).ok_or(BindError::AlreadyBound)?;
        if socket.descriptor.is_some() {
            return Err(BindError::AlreadyBound);
        }
        let limit = self.datagram_limit();
        let convert = |error| errno::bind(error, address.port(), limit);
        let descriptor = self.create(true, address.is_ipv6()).map_err(convert)?;
        if address.is_ipv6() {
            let only = !address::is_dual_stack_wildcard(&address);
            sockopt::set_ipv6_v6only(&descriptor, only).map_err(convert)?;
        }
        rustix::net::bind(&descriptor, &address).map_err(convert)?;
        self.watch(id, &descriptor)
            .map_err(|_| BindError::Limit(limit))?;
        if let Some(socket) = self.sockets.udp(id) {
            socket.descriptor = Some(descriptor);
            socket.ipv6 = address.is_ipv6();
        }
        Ok(())
    }

    fn udp_connect(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError> {
        if let Some(peer) = peer {
            self.ensure_bound(id, peer)?;
        }
        let limit = self.datagram_limit();
        let socket = self.sockets.udp(id).ok_or(BindError::AlreadyBound)?;
        let convert = |error| errno::bind(error, 0, limit);
        let Some(descriptor) = &socket.descriptor else {
            return Ok(()); // an unbound socket has no peer to remove
        };
        match peer {
            Some(peer) => {
                rustix::net::connect(descriptor, &address::mapped(peer, socket.ipv6))
                    .map_err(convert)?;
            }
            None => rustix::net::connect_unspec(descriptor).map_err(convert)?,
        }
        socket.peer = peer;
        Ok(())
    }

    fn udp_send(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        if let Some(peer) = peer {
            self.ensure_bound(id, peer)?;
        }
        let socket = self.sockets.udp(id).ok_or(UdpSendError::NoPeer)?;
        let descriptor = socket.descriptor.as_ref().ok_or(UdpSendError::NoPeer)?;
        let joined;
        let whole: [&[u8]; 1];
        let parts = if parts.len() <= PARTS {
            parts
        } else {
            joined = parts.concat();
            whole = [&joined];
            &whole
        };
        let (slices, count) = slices(parts);
        let mut refused = 0;
        loop {
            let mut nothing = SendAncillaryBuffer::default();
            let result = match peer {
                Some(peer) => rustix::net::sendmsg_addr(
                    descriptor,
                    &address::mapped(peer, socket.ipv6),
                    &slices[..count],
                    &mut nothing,
                    SendFlags::NOSIGNAL,
                ),
                None => rustix::net::sendmsg(
                    descriptor,
                    &slices[..count],
                    &mut nothing,
                    SendFlags::NOSIGNAL,
                ),
            };
            match result {
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                // An ICMP error of an earlier datagram; this one was not sent.
                Err(Errno::CONNREFUSED) if refused == 0 => refused += 1,
                Err(error) => return Err(errno::send_datagram(error)),
            }
        }
    }

    fn udp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError> {
        let socket = self.sockets.udp(id).ok_or(UdpRecvError::NotBound)?;
        let descriptor = socket.descriptor.as_ref().ok_or(UdpRecvError::NotBound)?;
        if let Some(sender) = socket.pending_sender {
            if look(&socket.pending, sender) {
                socket.pending.clear();
                socket.pending_sender = None;
            }
            return Ok(());
        }
        loop {
            let result =
                rustix::net::recvfrom(descriptor, &mut self.scratch[..], RecvFlags::empty());
            match result {
                Ok((size, _, sender)) => {
                    let Some(sender) = sender.and_then(address::plain) else {
                        continue;
                    };
                    if !look(&self.scratch[..size], sender) {
                        socket.pending.extend_from_slice(&self.scratch[..size]);
                        socket.pending_sender = Some(sender);
                    }
                    return Ok(());
                }
                // An ICMP error of an earlier datagram.
                Err(Errno::INTR | Errno::CONNREFUSED) => {}
                Err(_) => return Err(UdpRecvError::WouldBlock),
            }
        }
    }

    fn udp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.local(id, true)
    }

    fn udp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.peer(id, true)
    }

    fn udp_close(&mut self, id: SocketId) {
        if self.sockets.udp(id).is_some() {
            self.sockets.remove(id);
        }
    }
}
