// SPDX-License-Identifier: MIT OR Apache-2.0
//! Neighbors of connections. smoltcp sends one ARP request or neighbor solicitation a second for all
//! neighbors together, and has no way to enter one in its cache. So it gets replies that are made
//! here, and connections solicit their neighbors themselves.

use core::net::IpAddr;

use smoltcp::wire::IpCidr;
use swapstone_net::device::{Device, HardwareAddress};

use crate::discovery;
use crate::slots::Conn;
use crate::stack::Smoltcp;

/// The interval of solicitations of a connection: that of RFC 4861, section 10.
const SOLICITATION_INTERVAL: core::time::Duration = core::time::Duration::from_secs(1);

impl<D: Device> Smoltcp<D> {
    /// Returns whether an address is on the link.
    fn is_on_link(&self, address: IpAddr) -> bool {
        let near = |cidr: &IpCidr| cidr.contains_addr(&address.into());
        self.iface.ip_addrs().iter().any(near)
    }

    /// Returns the link-layer address of the sender of a frame, if it is unicast and its IP address is
    /// on the link.
    pub(crate) fn link_of(&self, frame: &[u8], remote: IpAddr) -> Option<HardwareAddress> {
        let link: HardwareAddress = *frame.get(6..)?.first_chunk()?;
        (link[0] & 1 == 0 && self.is_on_link(remote)).then_some(link)
    }

    /// Enters the link-layer address that the peer's segments come from in smoltcp's cache. Call this
    /// only if smoltcp knows no address, so that none is replaced. Returns whether it was entered.
    pub(crate) fn learn_neighbor(&mut self, index: u32) -> bool {
        let now = self.now;
        let Some(Conn {
            link: Some(link),
            learned_at,
            local,
            remote,
            ..
        }) = self.slots.conn(index)
        else {
            return false;
        };
        if *learned_at == Some(now) {
            return false;
        }
        *learned_at = Some(now);
        let sender = (*link, remote.ip());
        let target = (self.hardware, local.ip());
        let (frame, length) = discovery::reply(sender, target);
        self.process_unassigned(&frame[..length]);
        true
    }

    /// Solicits the neighbor of a connection that could not send.
    pub(crate) fn solicit_neighbor(&mut self, index: u32) {
        let now = self.now;
        let Some(conn) = self.slots.conn(index) else {
            return;
        };
        if conn
            .solicited_at
            .is_some_and(|at| now < at + SOLICITATION_INTERVAL)
        {
            return;
        }
        conn.solicited_at = Some(now);
        let (local, remote) = (conn.local.ip(), conn.remote.ip());
        let Some(hop) = self.next_hop(remote) else {
            return;
        };
        let sender = (self.hardware, local);
        let length = discovery::request_length(hop);
        self.output.emit(&mut self.device, length, |frame| {
            discovery::request(frame, sender, hop);
        });
    }

    fn next_hop(&self, remote: IpAddr) -> Option<IpAddr> {
        if self.is_on_link(remote) {
            return Some(remote);
        }
        let routes = self.iface.routes();
        let route = match remote {
            IpAddr::V4(_) => routes.get_default_ipv4_route(),
            IpAddr::V6(_) => routes.get_default_ipv6_route(),
        };
        route.map(|route| route.via_router.into())
    }
}
