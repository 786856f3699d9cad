// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observers of a stack and of a device: allocations, and the memory of received and sent bytes.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::ops::Range;
use std::rc::Rc;

use swapstone_net::device::{Device, DeviceLimits, Frame, Full, Outgoing, Segmentation};
use swapstone_net::error::{
    AcceptError, BindError, ConnectError, ListenError, OpenError, RecvError, SendError,
    SocketError, UdpRecvError, UdpSendError,
};
use swapstone_net::{
    Capabilities, Cidr, Instant, Limits, Readiness, Shared, Shutdown, SocketId, Stack, Statistics,
    TcpOption, TcpQueues, TcpStack, UdpStack,
};
use swapstone_net_link::Port;

use crate::memory;

/// The number of received frames that are recorded.
const REMEMBERED: usize = 64;

/// Observations of a device.
#[derive(Debug)]
pub struct Seen {
    received: [Range<usize>; REMEMBERED],
    next: usize,
    /// Memory of the caller that should be sent without a copy.
    pub shared: Range<usize>,
    /// Bytes that were sent from that memory.
    pub sent_from_shared: usize,
    /// Frames that were sent with a partial checksum.
    pub partial: usize,
    /// Frames that were sent for segmentation by the device, and their lengths.
    pub segmented: Vec<(Segmentation, usize)>,
    /// The length of the longest other frame in bytes.
    pub largest: usize,
}

impl Seen {
    /// Returns whether these bytes are in the buffer of a received frame.
    pub fn in_a_frame(&self, bytes: &[u8]) -> bool {
        let at = bytes.as_ptr() as usize;
        self.received
            .iter()
            .any(|frame| frame.start <= at && at + bytes.len() <= frame.end)
    }
}

/// A port whose frames are recorded.
#[derive(Debug)]
pub struct WatchedPort {
    port: Port,
    seen: Rc<RefCell<Seen>>,
}

impl WatchedPort {
    /// Records the frames of a port.
    pub fn new(port: Port) -> Self {
        let seen = Seen {
            received: [const { 0..0 }; REMEMBERED],
            next: 0,
            shared: 0..0,
            sent_from_shared: 0,
            partial: 0,
            segmented: Vec::new(),
            largest: 0,
        };
        Self {
            port,
            seen: Rc::new(RefCell::new(seen)),
        }
    }

    /// Returns the observations, which are updated.
    pub fn seen(&self) -> Rc<RefCell<Seen>> {
        Rc::clone(&self.seen)
    }
}

impl Device for WatchedPort {
    fn limits(&self) -> DeviceLimits {
        self.port.limits()
    }

    fn receive(&mut self) -> Option<Frame> {
        let frame = self.port.receive()?;
        let mut seen = self.seen.borrow_mut();
        let next = seen.next;
        let at = frame.bytes.as_ptr() as usize;
        seen.received[next] = at..at + frame.bytes.len();
        seen.next = (next + 1) % REMEMBERED;
        Some(frame)
    }

    fn transmit(&mut self, frame: Outgoing<'_>) -> Result<(), Full> {
        self.port.transmit(frame)?;
        let mut seen = self.seen.borrow_mut();
        for part in frame.parts {
            let at = part.as_ptr() as usize;
            if seen.shared.start <= at && at + part.len() <= seen.shared.end {
                seen.sent_from_shared += part.len();
            }
        }
        seen.partial += usize::from(frame.partial.is_some());
        match frame.segmentation {
            Some(how) => {
                let _outside = memory::enter(false);
                seen.segmented.push((how, frame.len()));
            }
            None => seen.largest = seen.largest.max(frame.len()),
        }
        Ok(())
    }

    fn flush(&mut self) {
        self.port.flush();
    }
}

/// A stack whose allocations are counted if it is under test.
pub struct Watched {
    inner: Box<dyn Stack>,
    under_test: bool,
}

impl Watched {
    /// Counts the allocations of a stack.
    pub fn new(inner: Box<dyn Stack>, under_test: bool) -> Self {
        Self { inner, under_test }
    }
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "Watched({})", self.inner.capabilities().name)
    }
}

/// Forwards a method and counts its allocations.
macro_rules! delegate {
    ($(fn $name:ident(&mut self $(, $argument:ident: $of:ty)*) $(-> $result:ty)?;)*) => {
        $(fn $name(&mut self $(, $argument: $of)*) $(-> $result)? {
            let _inside = memory::enter(self.under_test);
            self.inner.$name($($argument),*)
        })*
    };
}

impl Stack for Watched {
    fn capabilities(&self) -> Capabilities {
        self.inner.capabilities()
    }

    fn limits(&self) -> Limits {
        self.inner.limits()
    }

    fn statistics(&self) -> Statistics {
        self.inner.statistics()
    }

    // The list of addresses is allocated for the caller.
    fn addresses(&self) -> Vec<Cidr> {
        self.inner.addresses()
    }

    fn readiness(&self, id: SocketId) -> Readiness {
        self.inner.readiness(id)
    }

    delegate! {
        fn poll(&mut self, now: Instant) -> bool;
        fn deadline(&mut self, now: Instant) -> Option<Instant>;
        fn next_event(&mut self) -> Option<(SocketId, Readiness)>;
    }
}

impl TcpStack for Watched {
    fn tcp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.inner.tcp_local(id)
    }

    fn tcp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.inner.tcp_peer(id)
    }

    fn tcp_queues(&self, id: SocketId) -> Option<TcpQueues> {
        self.inner.tcp_queues(id)
    }

    // Allocations of the callbacks belong to the test, not to the stack.
    fn tcp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8]) -> usize,
    ) -> Result<usize, RecvError> {
        let _inside = memory::enter(self.under_test);
        self.inner.tcp_receive(id, &mut |bytes| {
            let _outside = memory::enter(false);
            look(bytes)
        })
    }

    fn tcp_send_with(
        &mut self,
        id: SocketId,
        most: usize,
        fill: &mut dyn FnMut(&mut [u8]) -> usize,
    ) -> Result<usize, SendError> {
        let _inside = memory::enter(self.under_test);
        self.inner.tcp_send_with(id, most, &mut |room| {
            let _outside = memory::enter(false);
            fill(room)
        })
    }

    delegate! {
        fn tcp_open(&mut self) -> Result<SocketId, OpenError>;
        fn tcp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError>;
        fn tcp_listen(&mut self, id: SocketId, backlog: usize) -> Result<(), ListenError>;
        fn tcp_accept(&mut self, id: SocketId) -> Result<(SocketId, SocketAddr), AcceptError>;
        fn tcp_connect(&mut self, id: SocketId, peer: SocketAddr) -> Result<(), ConnectError>;
        fn tcp_send(&mut self, id: SocketId, parts: &[&[u8]]) -> Result<usize, SendError>;
        fn tcp_send_shared(&mut self, id: SocketId, bytes: &Shared, range: Range<usize>) -> Result<usize, SendError>;
        fn tcp_shutdown(&mut self, id: SocketId, which: Shutdown) -> Result<(), SocketError>;
        fn tcp_set(&mut self, id: SocketId, option: TcpOption) -> Result<(), SocketError>;
        fn tcp_close(&mut self, id: SocketId);
    }
}

impl UdpStack for Watched {
    fn udp_local(&self, id: SocketId) -> Option<SocketAddr> {
        self.inner.udp_local(id)
    }

    fn udp_peer(&self, id: SocketId) -> Option<SocketAddr> {
        self.inner.udp_peer(id)
    }

    fn udp_receive(
        &mut self,
        id: SocketId,
        look: &mut dyn FnMut(&[u8], SocketAddr) -> bool,
    ) -> Result<(), UdpRecvError> {
        let _inside = memory::enter(self.under_test);
        self.inner.udp_receive(id, &mut |bytes, sender| {
            let _outside = memory::enter(false);
            look(bytes, sender)
        })
    }

    delegate! {
        fn udp_open(&mut self) -> Result<SocketId, OpenError>;
        fn udp_bind(&mut self, id: SocketId, address: SocketAddr) -> Result<(), BindError>;
        fn udp_connect(&mut self, id: SocketId, peer: Option<SocketAddr>) -> Result<(), BindError>;
        fn udp_send(&mut self, id: SocketId, parts: &[&[u8]], peer: Option<SocketAddr>) -> Result<(), UdpSendError>;
        fn udp_close(&mut self, id: SocketId);
    }
}
