//! A UDP socket.

use core::cell::Cell;
use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use crate::error::{BindError, UdpRecvError, UdpSendError};
use crate::net::Net;
use crate::stack::{Readiness, SocketId, Stack};

/// A UDP socket. It blocks until it is told otherwise; dropping it closes it.
pub struct UdpSocket<S: Stack> {
    net: Net<S>,
    id: SocketId,
    patience: Cell<Option<Duration>>,
}

impl<S: Stack> UdpSocket<S> {
    pub(crate) fn new(net: Net<S>, id: SocketId) -> Self {
        Self {
            net,
            id,
            patience: Cell::new(None),
        }
    }

    /// Its name in the stack's events.
    pub fn id(&self) -> SocketId {
        self.id
    }

    /// Say `WouldBlock` instead of waiting, or wait again without an end.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.patience.set(nonblocking.then_some(Duration::ZERO));
    }

    /// Wait so long for anything, and say `TimedOut` then; `None` waits without an end.
    ///
    /// # Panics
    ///
    /// If the time is zero: that is what [`UdpSocket::set_nonblocking`] is for.
    pub fn set_timeout(&self, patience: Option<Duration>) {
        assert!(
            patience != Some(Duration::ZERO),
            "a time-out of zero is a non-blocking socket"
        );
        self.patience.set(patience);
    }

    /// Give it a local address; port 0 chooses a free one, and an unspecified address stands for all.
    ///
    /// # Errors
    ///
    /// The port is taken, the address not ours, or the socket is bound already.
    pub fn bind(&self, address: SocketAddr) -> Result<(), BindError> {
        self.net.with(|stack| stack.udp_bind(self.id, address))
    }

    /// Choose the only peer that it hears from and sends to.
    ///
    /// # Errors
    ///
    /// There is no free port for it.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), BindError> {
        self.net
            .with(|stack| stack.udp_connect(self.id, Some(peer)))
    }

    /// Hear from everybody again.
    ///
    /// # Errors
    ///
    /// None that a bound socket could have.
    pub fn disconnect(&self) -> Result<(), BindError> {
        self.net.with(|stack| stack.udp_connect(self.id, None))
    }

    /// Send a datagram to `peer`.
    ///
    /// # Errors
    ///
    /// It is too large, or there is no room or no way now.
    pub fn send_to(&self, bytes: &[u8], peer: SocketAddr) -> Result<(), UdpSendError> {
        self.send_parts(&[bytes], Some(peer))
    }

    /// Send a datagram to the peer that the socket is connected to.
    ///
    /// # Errors
    ///
    /// As of [`UdpSocket::send_to`], or there is no such peer.
    pub fn send(&self, bytes: &[u8]) -> Result<(), UdpSendError> {
        self.send_parts(&[bytes], None)
    }

    /// Send a datagram that lies in several pieces.
    ///
    /// # Errors
    ///
    /// As of [`UdpSocket::send_to`].
    pub fn send_parts(
        &self,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        self.net.wait(
            self.patience.get(),
            UdpSendError::WouldBlock,
            UdpSendError::TimedOut,
            |stack| stack.udp_send(self.id, parts, peer),
        )
    }

    /// Receive a datagram into `buffer`: how many bytes it has and who sent it. What does not fit is lost, and counts.
    ///
    /// # Errors
    ///
    /// None arrived, or the socket has no port.
    pub fn recv_from(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), UdpRecvError> {
        self.receive(buffer, true)
    }

    /// Look at a datagram as [`UdpSocket::recv_from`] does, and leave it there.
    ///
    /// # Errors
    ///
    /// As of `recv_from`.
    pub fn peek_from(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), UdpRecvError> {
        self.receive(buffer, false)
    }

    /// Look at a datagram where it is, then drop it; returns what `look` does.
    ///
    /// # Errors
    ///
    /// As of [`UdpSocket::recv_from`].
    pub fn recv_with<T>(
        &self,
        mut look: impl FnMut(&[u8], SocketAddr) -> T,
    ) -> Result<T, UdpRecvError> {
        let mut seen = None;
        self.net.wait(
            self.patience.get(),
            UdpRecvError::WouldBlock,
            UdpRecvError::TimedOut,
            |stack| {
                stack.udp_receive(self.id, &mut |bytes, sender| {
                    seen = Some(look(bytes, sender));
                    true
                })
            },
        )?;
        seen.ok_or(UdpRecvError::WouldBlock)
    }

    fn receive(&self, buffer: &mut [u8], take: bool) -> Result<(usize, SocketAddr), UdpRecvError> {
        let mut seen = None;
        self.net.wait(
            self.patience.get(),
            UdpRecvError::WouldBlock,
            UdpRecvError::TimedOut,
            |stack| {
                stack.udp_receive(self.id, &mut |bytes, sender| {
                    let size = bytes.len().min(buffer.len());
                    buffer[..size].copy_from_slice(&bytes[..size]);
                    seen = Some((bytes.len(), sender));
                    take
                })
            },
        )?;
        seen.ok_or(UdpRecvError::WouldBlock)
    }

    /// Its own address; `None` before it has one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.net.with(|stack| stack.udp_local(self.id))
    }

    /// The peer that it is connected to.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.net.with(|stack| stack.udp_peer(self.id))
    }

    /// What can be done with it without waiting.
    pub fn readiness(&self) -> Readiness {
        self.net.with(|stack| stack.readiness(self.id))
    }
}

impl<S: Stack> Drop for UdpSocket<S> {
    fn drop(&mut self) {
        self.net.with(|stack| stack.udp_close(self.id));
    }
}

impl<S: Stack> fmt::Debug for UdpSocket<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "UdpSocket({}.{})", self.id.index, self.id.generation)
    }
}
