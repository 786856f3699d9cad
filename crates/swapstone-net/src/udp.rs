// SPDX-License-Identifier: MIT OR Apache-2.0
//! UDP sockets.

use core::fmt;
use core::net::SocketAddr;
use core::time::Duration;

use crate::error::{BindError, OpenError, UdpRecvError, UdpSendError};
use crate::net::{Handle, Net};
use crate::stack::{Readiness, SocketId, Stack, UdpStack};

impl<S: Stack> Net<S> {
    /// Opens a blocking UDP socket.
    ///
    /// # Errors
    ///
    /// The limit of sockets is reached.
    pub fn udp(&self) -> Result<UdpSocket<S>, OpenError> {
        let id = self.with(UdpStack::udp_open)?;
        Ok(UdpSocket {
            handle: Handle::new(self, id),
        })
    }
}

/// A UDP socket. It blocks unless [`UdpSocket::set_nonblocking`] or [`UdpSocket::set_timeout`] is
/// called. Dropping it closes it.
pub struct UdpSocket<S: Stack> {
    handle: Handle<S>,
}

impl<S: Stack> UdpSocket<S> {
    /// Returns the id that events of this socket carry.
    pub fn id(&self) -> SocketId {
        self.handle.id
    }

    /// Makes calls return `WouldBlock` instead of waiting; `false` makes them wait without a limit.
    pub fn set_nonblocking(&self, nonblocking: bool) {
        self.handle.set_nonblocking(nonblocking);
    }

    /// Sets how long a call waits before it returns `TimedOut`; `None` waits without a limit.
    ///
    /// # Panics
    ///
    /// If the timeout is zero: use [`UdpSocket::set_nonblocking`].
    pub fn set_timeout(&self, timeout: Option<Duration>) {
        self.handle.set_timeout(timeout);
    }

    /// Binds to a local address. Port 0 selects a free port. The unspecified address matches every
    /// local address.
    ///
    /// # Errors
    ///
    /// The port is in use, the address is not local, or the socket is already bound.
    pub fn bind(&self, address: SocketAddr) -> Result<(), BindError> {
        self.with(|stack, id| stack.udp_bind(id, address))
    }

    /// Sets the only peer to send to and receive from.
    ///
    /// # Errors
    ///
    /// No port is free.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), BindError> {
        self.with(|stack, id| stack.udp_connect(id, Some(peer)))
    }

    /// Removes the peer that [`UdpSocket::connect`] has set.
    ///
    /// # Errors
    ///
    /// A bound socket returns none.
    pub fn disconnect(&self) -> Result<(), BindError> {
        self.with(|stack, id| stack.udp_connect(id, None))
    }

    /// Sends a datagram to `peer`.
    ///
    /// # Errors
    ///
    /// The datagram is too large, the send queue is full, or the host is unreachable.
    pub fn send_to(&self, bytes: &[u8], peer: SocketAddr) -> Result<(), UdpSendError> {
        self.send_parts(&[bytes], Some(peer))
    }

    /// Sends a datagram to the connected peer.
    ///
    /// # Errors
    ///
    /// As of [`UdpSocket::send_to`], or the socket is not connected.
    pub fn send(&self, bytes: &[u8]) -> Result<(), UdpSendError> {
        self.send_parts(&[bytes], None)
    }

    /// Sends one datagram made of several parts.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket::send`].
    pub fn send_parts(
        &self,
        parts: &[&[u8]],
        peer: Option<SocketAddr>,
    ) -> Result<(), UdpSendError> {
        self.handle
            .wait(UdpSendError::WouldBlock, UdpSendError::TimedOut, |stack| {
                stack.udp_send(self.handle.id, parts, peer)
            })
    }

    /// Receives a datagram into `buffer`. Returns the datagram's full length and its sender; bytes
    /// that don't fit are lost.
    ///
    /// # Errors
    ///
    /// No datagram arrived, or the socket is not bound.
    pub fn recv_from(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), UdpRecvError> {
        self.copy(buffer, true)
    }

    /// As [`UdpSocket::recv_from`], without removing the datagram.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket::recv_from`].
    pub fn peek_from(&self, buffer: &mut [u8]) -> Result<(usize, SocketAddr), UdpRecvError> {
        self.copy(buffer, false)
    }

    /// Calls `look` with a datagram in the stack's buffer, removes the datagram, and returns the
    /// result of `look`.
    ///
    /// # Errors
    ///
    /// See [`UdpSocket::recv_from`].
    pub fn recv_with<T>(
        &self,
        mut look: impl FnMut(&[u8], SocketAddr) -> T,
    ) -> Result<T, UdpRecvError> {
        self.receive(|bytes, sender| (look(bytes, sender), true))
    }

    fn copy(&self, buffer: &mut [u8], remove: bool) -> Result<(usize, SocketAddr), UdpRecvError> {
        self.receive(|bytes, sender| {
            let size = bytes.len().min(buffer.len());
            buffer[..size].copy_from_slice(&bytes[..size]);
            ((bytes.len(), sender), remove)
        })
    }

    /// `look` returns its result, and whether the datagram is removed.
    fn receive<T>(
        &self,
        mut look: impl FnMut(&[u8], SocketAddr) -> (T, bool),
    ) -> Result<T, UdpRecvError> {
        let mut seen = None;
        self.handle
            .wait(UdpRecvError::WouldBlock, UdpRecvError::TimedOut, |stack| {
                stack.udp_receive(self.handle.id, &mut |bytes, sender| {
                    let (result, remove) = look(bytes, sender);
                    seen = Some(result);
                    remove
                })
            })?;
        seen.ok_or(UdpRecvError::WouldBlock)
    }

    /// Returns the local address; `None` before the socket is bound.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.with(|stack, id| stack.udp_local(id))
    }

    /// Returns the connected peer.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.with(|stack, id| stack.udp_peer(id))
    }

    /// Returns the operations that don't block.
    pub fn readiness(&self) -> Readiness {
        self.with(|stack, id| stack.readiness(id))
    }

    fn with<T>(&self, what: impl FnOnce(&mut S, SocketId) -> T) -> T {
        self.handle.net.with(|stack| what(stack, self.handle.id))
    }
}

impl<S: Stack> Drop for UdpSocket<S> {
    fn drop(&mut self) {
        self.with(|stack, id| stack.udp_close(id));
    }
}

impl<S: Stack> fmt::Debug for UdpSocket<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SocketId { index, generation } = self.handle.id;
        write!(out, "UdpSocket({index}.{generation})")
    }
}
