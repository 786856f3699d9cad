//! UDP sockets.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use swapstone_net::error::{BindError, Limit, OpenError, Resource, UdpRecvError, UdpSendError};
use swapstone_net::{Device, Readiness, SocketId};
use swapstone_net_lwip_sys::Sent;

use crate::{Lwip, PORTS};

/// The pieces that a datagram may have before it is joined.
const PARTS: usize = 32;

/// A UDP socket.
#[derive(Debug, Default)]
pub(crate) struct Udp {
    pub(crate) open: bool,
    pub(crate) announced: bool,
    pub(crate) starving: bool,
    pub(crate) local: Option<SocketAddr>,
    pub(crate) peer: Option<SocketAddr>,
    generation: u32,
}

impl Udp {
    /// It is taken from the queue of events: whose it is now.
    pub(crate) fn announcement(&mut self, number: u32) -> Option<SocketId> {
        self.announced = false;
        self.open.then_some(SocketId {
            index: number,
            generation: self.generation,
        })
    }
}

impl<D: Device> Lwip<D> {
    fn udp_index(&self, id: SocketId) -> Option<usize> {
        let index = (id.index as usize).checked_sub(self.tcp.len())?;
        let socket = self.udp.get(index)?;
        (socket.open && socket.generation == id.generation).then_some(index)
    }

    pub(crate) fn udp(&self, id: SocketId) -> Option<&Udp> {
        self.udp_index(id).map(|index| &self.udp[index])
    }

    pub(crate) fn open_udp(&mut self) -> Result<SocketId, OpenError> {
        let full = |of, most| OpenError::Limit(Limit { of, most });
        if self.udp.iter().all(|socket| socket.open) {
            return Err(full(Resource::UdpSockets, self.limits.udp_sockets));
        }
        let index = self.active().udp_open();
        let index = index.ok_or(full(Resource::PacketMemory, self.limits.packet_memory))?;
        let socket = &mut self.udp[index as usize];
        *socket = Udp {
            open: true,
            announced: socket.announced,
            starving: socket.starving,
            generation: socket.generation.wrapping_add(1),
            ..Udp::default()
        };
        Ok(SocketId {
            index: self.tcp.len() as u32 + index,
            generation: socket.generation,
        })
    }

    pub(crate) fn bind_udp(
        &mut self,
        id: SocketId,
        mut address: SocketAddr,
    ) -> Result<(), BindError> {
        let index = self.udp_index(id).ok_or(BindError::NotNew)?;
        if self.udp[index].local.is_some() {
            return Err(BindError::NotNew);
        }
        if !self.is_local(address.ip()) {
            return Err(BindError::NotLocal);
        }
        if address.port() == 0 {
            let begin = self.core.random();
            let free = |this: &Self, port| {
                !this.udp.iter().any(|other| {
                    other.open && other.local.is_some_and(|local| local.port() == port)
                })
            };
            let port = self
                .choose_port(begin, free)
                .ok_or(BindError::Limit(Limit {
                    of: Resource::Ports,
                    most: PORTS as usize,
                }))?;
            address.set_port(port);
        }
        if !self.active().udp_bind(index as u32, address) {
            return Err(BindError::InUse);
        }
        self.udp[index].local = Some(address);
        Ok(())
    }

    /// Give it a port of its own if it has none.
    fn ensure_port(&mut self, id: SocketId, index: usize, peer: IpAddr) -> Result<(), BindError> {
        if self.udp[index].local.is_some() {
            return Ok(());
        }
        let all = match peer {
            IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        };
        self.bind_udp(id, SocketAddr::new(all, 0))
    }

    pub(crate) fn connect_udp(
        &mut self,
        id: SocketId,
        peer: Option<SocketAddr>,
    ) -> Result<(), BindError> {
        let index = self.udp_index(id).ok_or(BindError::NotNew)?;
        if let Some(peer) = peer {
            self.ensure_port(id, index, peer.ip())?;
        }
        self.active().udp_connect(index as u32, peer);
        self.udp[index].peer = peer;
        Ok(())
    }

    pub(crate) fn send_udp(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        let index = self.udp_index(id).ok_or(UdpSendError::NoPeer)?;
        let peer = peer.or(self.udp[index].peer).ok_or(UdpSendError::NoPeer)?;
        let size: usize = parts.iter().map(|part| part.len()).sum();
        // What a packet's 16-bit length leaves behind the headers of IPv4 and UDP, or of IPv6's fragments.
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
        self.ensure_port(id, index, peer.ip())
            .map_err(|error| match error {
                BindError::Limit(limit) => UdpSendError::Limit(limit),
                _ => UdpSendError::Unreachable,
            })?;
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
                self.starve(id.index);
                Err(UdpSendError::WouldBlock)
            }
            Sent::NoRoute => Err(UdpSendError::Unreachable),
        }
    }

    pub(crate) fn receive_udp(
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

    pub(crate) fn close_udp(&mut self, id: SocketId) {
        if let Some(index) = self.udp_index(id) {
            self.udp[index].open = false;
            self.active().udp_close(index as u32);
        }
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
