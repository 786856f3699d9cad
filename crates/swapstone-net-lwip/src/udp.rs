// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets.

use core::net::SocketAddr;

use swapstone_net::backend::{NO_EPHEMERAL_PORT, wildcard_for};
use swapstone_net::error::{BindError, Limit, OpenError, Resource, UdpRecvError, UdpSendError};
use swapstone_net::{Device, Readiness, SocketId, UdpStack};
use swapstone_net_lwip_sys::Sent;

use crate::Lwip;

/// A datagram with more parts is copied to one buffer.
const PARTS: usize = 32;

/// A UDP socket.
#[derive(Debug, Default)]
pub(crate) struct Udp {
    local: Option<SocketAddr>,
    peer: Option<SocketAddr>,
}

impl<D: Device> Lwip<D> {
    fn udp_index(&self, id: SocketId) -> Option<usize> {
        let handle = self.handles.index_of(id)?;
        (handle as usize).checked_sub(self.tcp.len())
    }

    fn udp(&self, id: SocketId) -> Option<&Udp> {
        self.udp_index(id).map(|index| &self.udp[index])
    }

    /// Binds an unbound socket to a free port of the peer's family.
    fn ensure_bound(
        &mut self,
        id: SocketId,
        index: usize,
        peer: SocketAddr,
    ) -> Result<(), BindError> {
        if self.udp[index].local.is_some() {
            return Ok(());
        }
        self.udp_bind(id, wildcard_for(peer.ip()))
    }

    pub(crate) fn readiness_udp(&self, id: SocketId) -> Readiness {
        let Some(index) = self.udp_index(id) else {
            return Readiness::NONE;
        };
        let mut ready = Readiness::WRITABLE;
        if self.core.udp_waiting(index as u32) > 0 {
            ready |= Readiness::READABLE;
        }
        ready
    }
}

impl<D: Device> UdpStack for Lwip<D> {
    fn udp_open(&mut self) -> Result<SocketId, OpenError> {
        let full = |of, most| OpenError::Limit(Limit { of, most });
        if self.udp_count() == self.udp.len() {
            return Err(full(Resource::UdpSockets, self.limits.udp_sockets));
        }
        let index = self.active().udp_open();
        let index = index.ok_or(full(Resource::PacketMemory, self.limits.packet_memory))?;
        self.udp[index as usize] = Udp::default();
        Ok(self.handles.open(self.udp_handle(index)))
    }

    fn udp_bind(&mut self, id: SocketId, mut address: SocketAddr) -> Result<(), BindError> {
        let index = self.udp_index(id).ok_or(BindError::AlreadyBound)?;
        if self.udp[index].local.is_some() {
            return Err(BindError::AlreadyBound);
        }
        if !self.is_local(address.ip()) {
            return Err(BindError::NotLocal);
        }
        if address.port() == 0 {
            let begin = self.core.random();
            let free = |this: &Self, port| {
                !this
                    .udp
                    .iter()
                    .any(|other| other.local.is_some_and(|local| local.port() == port))
            };
            let port = self
                .choose_port(begin, free)
                .ok_or(BindError::Limit(NO_EPHEMERAL_PORT))?;
            address.set_port(port);
        }
        if !self.active().udp_bind(index as u32, address) {
            return Err(BindError::InUse);
        }
        self.udp[index].local = Some(address);
        Ok(())
    }

    fn udp_connect(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError> {
        let index = self.udp_index(id).ok_or(BindError::AlreadyBound)?;
        if let Some(peer) = peer {
            self.ensure_bound(id, index, peer)?;
        }
        self.active().udp_connect(index as u32, peer);
        self.udp[index].peer = peer;
        Ok(())
    }

    fn udp_send(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        let index = self.udp_index(id).ok_or(UdpSendError::NoPeer)?;
        let peer = peer.or(self.udp[index].peer).ok_or(UdpSendError::NoPeer)?;
        let size: usize = parts.iter().map(|part| part.len()).sum();
        // The maximum IP packet length, minus the headers of IPv4 and UDP, or of IPv6 fragments.
        let most = if peer.is_ipv4() { 65507 } else { 65487 };
        if size > most {
            return Err(UdpSendError::Limit(Limit {
                of: Resource::DatagramBytes,
                most,
            }));
        }
        if peer.ip().is_unspecified() || self.core.source_for(peer.ip()).is_none() {
            return Err(UdpSendError::Unreachable);
        }
        self.ensure_bound(id, index, peer)?;
        let mut joined = core::mem::take(&mut self.scratch);
        let sent = if parts.len() > PARTS {
            joined.clear();
            parts.iter().for_each(|part| joined.extend_from_slice(part));
            self.active().udp_send(index as u32, &[&joined], peer)
        } else {
            self.active().udp_send(index as u32, parts, peer)
        };
        self.scratch = joined;
        match sent {
            Sent::Done => Ok(()),
            Sent::NoRoom => {
                self.wait_for_memory(id.index);
                Err(UdpSendError::WouldBlock)
            }
            Sent::NoRoute => Err(UdpSendError::Unreachable),
        }
    }

    fn udp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError> {
        let index = self.udp_index(id).ok_or(UdpRecvError::NotBound)?;
        if self.udp[index].local.is_none() {
            return Err(UdpRecvError::NotBound);
        }
        let mut scratch = core::mem::take(&mut self.scratch);
        let seen = self.active().udp_read(index as u32, &mut scratch, look);
        self.scratch = scratch;
        seen.ok_or(UdpRecvError::WouldBlock)
    }

    fn udp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.udp(id)?.local
    }

    fn udp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.udp(id)?.peer
    }

    fn udp_close(&mut self, id: SocketId) {
        if let Some(index) = self.udp_index(id) {
            self.udp[index] = Udp::default();
            self.handles.close(id.index);
            self.active().udp_close(index as u32);
        }
    }
}
