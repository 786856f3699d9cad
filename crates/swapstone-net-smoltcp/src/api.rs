//! The contract of `swapstone-net`, as this stack keeps it.

use alloc::vec::Vec;
use core::net::SocketAddr;

use swapstone_net::device::Device;
use swapstone_net::error::{
    AcceptError, BindError, ConnectError, ListenError, OpenError, RecvError, SendError,
    SocketError, UdpRecvError, UdpSendError,
};
use swapstone_net::{
    Capabilities, Cidr, Instant, Limits, Readiness, Shutdown, SocketId, Stack, Statistics,
    TcpOption,
};

use crate::slots::Kind;
use crate::stack::Smoltcp;

/// What [`Stack::capabilities`] says.
const CAPABILITIES: Capabilities = Capabilities {
    name: "smoltcp",
    version: "0.14.0",
    zero_copy_receive: false,
    zero_copy_send: false,
    send_in_place: true,
    congestion_control: if cfg!(feature = "std") {
        "cubic"
    } else {
        "reno"
    },
    selective_acknowledgements: false,
    many_instances: true,
    keep_alive: true,
    ipv6: true,
    segmentation_offload: true,
};

impl<D: Device> Stack for Smoltcp<D> {
    fn capabilities(&self) -> Capabilities {
        CAPABILITIES
    }

    fn limits(&self) -> Limits {
        self.limits
    }

    fn statistics(&self) -> Statistics {
        let mut statistics = self.statistics;
        statistics.frames_out = self.output.frames;
        statistics.bytes_out = self.output.bytes;
        statistics.no_room += self.output.no_room;
        statistics
    }

    fn poll(&mut self, now: Instant) -> bool {
        self.poll_now(now)
    }

    fn deadline(&mut self, now: Instant) -> Option<Instant> {
        self.next_deadline(now)
    }

    fn next_event(&mut self) -> Option<(SocketId, Readiness)> {
        while let Some(index) = self.events.pop_front() {
            let slot = self.slots.at(index);
            slot.queued = false;
            let owned = slot.owned;
            let ready = self.ready(index);
            if owned && !ready.is_empty() {
                return Some((self.slots.id(index), ready));
            }
        }
        None
    }

    fn addresses(&self) -> Vec<Cidr> {
        self.addresses.clone()
    }

    fn tcp_open(&mut self) -> Result<SocketId, OpenError> {
        self.open_tcp()
    }

    fn tcp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        self.bind_tcp(id, address)
    }

    fn tcp_listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError> {
        self.listen(id, backlog)
    }

    fn tcp_accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError> {
        self.accept(id)
    }

    fn tcp_connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError> {
        self.connect(id, peer)
    }

    fn tcp_send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError> {
        self.send(id, parts)
    }

    fn tcp_send_with(
        &mut self,
        id: SocketId,
        most: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<usize, SendError> {
        self.send_with(id, most, fill)
    }

    fn tcp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError> {
        self.receive(id, look)
    }

    fn tcp_shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError> {
        self.shutdown(id, which)
    }

    fn tcp_set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError> {
        self.set_option(id, option)
    }

    fn tcp_local(&self, id: SocketId) -> Option<SocketAddr> {
        match &self.slots.find(id)?.kind {
            Kind::New { local, .. } => *local,
            Kind::Listener(listener, _) => Some(listener.local),
            Kind::Conn(conn) => Some(conn.local),
            Kind::Free | Kind::Udp(_) => None,
        }
    }

    fn tcp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        match &self.slots.find(id)?.kind {
            Kind::Conn(conn) => Some(conn.remote),
            _ => None,
        }
    }

    fn tcp_close(&mut self, id: SocketId) {
        self.close_tcp(id);
    }

    fn udp_open(&mut self) -> Result<SocketId, OpenError> {
        self.open_udp()
    }

    fn udp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError> {
        self.bind_udp(id, address)
    }

    fn udp_connect(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError> {
        self.connect_udp(id, peer)
    }

    fn udp_send(
        &mut self,
        id: SocketId,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        self.send_udp(id, parts, peer)
    }

    fn udp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError> {
        self.receive_udp(id, look)
    }

    fn udp_local(&self, id: SocketId) -> Option<SocketAddr> {
        match &self.slots.find(id)?.kind {
            Kind::Udp(udp) => udp.local,
            _ => None,
        }
    }

    fn udp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        match &self.slots.find(id)?.kind {
            Kind::Udp(udp) => udp.peer,
            _ => None,
        }
    }

    fn udp_close(&mut self, id: SocketId) {
        self.close_udp(id);
    }

    fn readiness(&self, id: SocketId) -> Readiness {
        match self.slots.find(id) {
            Some(_) => self.ready(id.index),
            None => Readiness::NONE,
        }
    }
}
