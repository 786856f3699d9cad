//! What UDP sockets do.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use rustix::io::Errno;
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags, sockopt};
use swapstone_net::SocketId;
use swapstone_net::error::{BindError, Limit, Resource, UdpRecvError, UdpSendError};

use crate::stack::{Kernel, PARTS, of, slices};
use crate::{address, fault};

impl Kernel {
    pub(crate) fn bind_udp(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        let socket = of(&mut self.table, id, true).ok_or(BindError::NotNew)?;
        if socket.descriptor.is_some() {
            return Err(BindError::NotNew);
        }
        let limit = self.datagram_limit();
        let fault = |error| fault::bind(error, address.port(), limit);
        let descriptor = self.create(true, address.is_ipv6()).map_err(fault)?;
        if address.is_ipv6() {
            let only = !address::is_everything(&address);
            sockopt::set_ipv6_v6only(&descriptor, only).map_err(fault)?;
        }
        rustix::net::bind(&descriptor, &address).map_err(fault)?;
        self.watch(id, &descriptor)
            .map_err(|_| BindError::Limit(limit))?;
        if let Some(socket) = of(&mut self.table, id, true) {
            socket.descriptor = Some(descriptor);
            socket.ipv6 = address.is_ipv6();
        }
        Ok(())
    }

    fn datagram_limit(&self) -> Limit {
        Limit {
            of: Resource::UdpSockets,
            most: self.table.udp,
        }
    }

    /// A socket without a port gets one, of the peer's family.
    fn have_port(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), BindError> {
        let socket = of(&mut self.table, id, true).ok_or(BindError::NotNew)?;
        if socket.descriptor.is_some() {
            return Ok(());
        }
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        self.bind_udp(id, SocketAddr::new(any, 0))
    }

    pub(crate) fn aim(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError> {
        if let Some(peer) = peer {
            self.have_port(id, peer)?;
        }
        let limit = self.datagram_limit();
        let socket = of(&mut self.table, id, true).ok_or(BindError::NotNew)?;
        let fault = |error| fault::bind(error, 0, limit);
        let Some(descriptor) = &socket.descriptor else {
            return Ok(()); // it hears from nobody, so from nobody in particular
        };
        match peer {
            Some(peer) => {
                rustix::net::connect(descriptor, &address::mapped(peer, socket.ipv6))
                    .map_err(fault)?;
            }
            None => rustix::net::connect_unspec(descriptor).map_err(fault)?,
        }
        socket.peer = peer;
        Ok(())
    }

    pub(crate) fn send_datagram(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        if let Some(peer) = peer {
            self.have_port(id, peer).map_err(|error| match error {
                BindError::Limit(limit) => UdpSendError::Limit(limit),
                _ => UdpSendError::Unreachable,
            })?;
        }
        let socket = of(&mut self.table, id, true).ok_or(UdpSendError::NoPeer)?;
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
        let mut refusals = 0;
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
                // That an earlier datagram met nobody; this one has not been tried.
                Err(Errno::CONNREFUSED) if refusals == 0 => refusals += 1,
                Err(error) => return Err(fault::send_datagram(error)),
            }
        }
    }

    pub(crate) fn receive_datagram(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError> {
        let socket = of(&mut self.table, id, true).ok_or(UdpRecvError::NotBound)?;
        let descriptor = socket.descriptor.as_ref().ok_or(UdpRecvError::NotBound)?;
        if let Some(sender) = socket.peeked {
            if look(&socket.left, sender) {
                socket.left.clear();
                socket.peeked = None;
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
                        socket.left.extend_from_slice(&self.scratch[..size]);
                        socket.peeked = Some(sender);
                    }
                    return Ok(());
                }
                // That a datagram of ours met nobody is no reason to hear nothing.
                Err(Errno::INTR | Errno::CONNREFUSED) => {}
                Err(_) => return Err(UdpRecvError::WouldBlock),
            }
        }
    }
}
