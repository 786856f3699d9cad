// SPDX-License-Identifier: MIT OR Apache-2.0
//! TCP sockets.

use core::fmt;
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;

use crate::error::{
    AcceptError, BindError, ConnectError, ListenError, OpenError, RecvError, SendError, SocketError,
};
use crate::net::{Handle, Net};
use crate::stack::{Readiness, Shared, Shutdown, SocketId, Stack, TcpOption, TcpStack};

impl<S: Stack> Net<S> {
    /// Opens a blocking TCP socket.
    ///
    /// # Errors
    ///
    /// The limit of sockets is reached.
    pub fn tcp(&self) -> Result<TcpSocket<S>, OpenError> {
        let id = self.with(TcpStack::tcp_open)?;
        Ok(TcpSocket::from_id(self, id))
    }
}

/// A TCP socket: listening or connected.
///
/// It blocks unless [`TcpSocket::set_nonblocking`] or [`TcpSocket::set_timeout`] is called. Dropping
/// it closes it in order: queued data is delivered while the stack is polled.
pub struct TcpSocket<S: Stack> {
    handle: Handle<S>,
}

impl<S: Stack> TcpSocket<S> {
    /// Takes ownership of a socket of the stack by its id, for event loops.
    pub fn from_id(net: &Net<S>, id: SocketId) -> Self {
        Self {
            handle: Handle::new(net, id),
        }
    }

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
    /// If the timeout is zero: use [`TcpSocket::set_nonblocking`].
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
        self.with(|stack, id| stack.tcp_bind(id, address))
    }

    /// Listens, with an accept queue of `backlog` connections.
    ///
    /// # Errors
    ///
    /// The socket is not bound, it already listens or is connected, or the backlog is too large.
    pub fn listen(&self, backlog: usize) -> Result<(), ListenError> {
        self.with(|stack, id| stack.tcp_listen(id, backlog))
    }

    /// Takes the first connection from the accept queue and returns it with the peer's address. The
    /// new socket blocks.
    ///
    /// # Errors
    ///
    /// No connection arrived, or the socket does not listen.
    pub fn accept(&self) -> Result<(Self, SocketAddr), AcceptError> {
        self.handle
            .wait(AcceptError::WouldBlock, AcceptError::TimedOut, |stack| {
                stack.tcp_accept(self.handle.id)
            })
            .map(|(id, peer)| (Self::from_id(&self.handle.net, id), peer))
    }

    /// Connects. A non-blocking socket sends a SYN and returns `WouldBlock`; call it again when the
    /// socket is writable to read the result.
    ///
    /// # Errors
    ///
    /// The connection is pending or has failed.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), ConnectError> {
        self.handle
            .wait(ConnectError::WouldBlock, ConnectError::TimedOut, |stack| {
                stack.tcp_connect(self.handle.id, peer)
            })
    }

    /// Queues as many bytes as fit into the send buffer, at least one unless `bytes` is empty.
    /// Returns their number.
    ///
    /// # Errors
    ///
    /// The send buffer is full, or the connection can't send.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, SendError> {
        self.send_vectored(&[bytes])
    }

    /// As [`TcpSocket::send`], from several consecutive parts.
    ///
    /// # Errors
    ///
    /// See [`TcpSocket::send`].
    pub fn send_vectored(&self, parts: &[&[u8]]) -> Result<usize, SendError> {
        self.wait_to_send(|stack, id| stack.tcp_send(id, parts))
    }

    /// As [`TcpSocket::send`], from immutable memory, without a copy if the stack has
    /// [`crate::Capabilities::zero_copy_send`].
    ///
    /// # Errors
    ///
    /// See [`TcpSocket::send`].
    ///
    /// # Panics
    ///
    /// If the range is out of bounds.
    pub fn send_shared(&self, bytes: &Shared, range: Range<usize>) -> Result<usize, SendError> {
        self.wait_to_send(|stack, id| stack.tcp_send_shared(id, bytes, range.clone()))
    }

    /// Calls `fill` with a buffer of at most `most` bytes and sends the bytes that it wrote. See
    /// [`TcpStack::tcp_send_with`].
    ///
    /// # Errors
    ///
    /// See [`TcpSocket::send`].
    ///
    /// # Panics
    ///
    /// If `fill` returns more than the length of the buffer, or uses the stack.
    pub fn send_with(
        &self,
        most: usize,
        mut fill: impl FnMut(&mut [u8]) -> usize,
    ) -> Result<usize, SendError> {
        self.wait_to_send(|stack, id| stack.tcp_send_with(id, most, &mut fill))
    }

    /// Sends all bytes, and waits as often as the send buffer is full.
    ///
    /// # Errors
    ///
    /// See [`TcpSocket::send`]. A part of the bytes may have been sent.
    pub fn send_all(&self, mut bytes: &[u8]) -> Result<(), SendError> {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes)?..];
        }
        Ok(())
    }

    /// Receives bytes into `buffer`. Returns 0 at the end of data (or for an empty buffer).
    ///
    /// # Errors
    ///
    /// No data arrived, or the connection failed.
    pub fn recv(&self, buffer: &mut [u8]) -> Result<usize, RecvError> {
        if buffer.is_empty() {
            return Ok(0);
        }
        self.recv_with(|bytes| {
            let size = bytes.len().min(buffer.len());
            buffer[..size].copy_from_slice(&bytes[..size]);
            size
        })
    }

    /// Calls `look` with received data in the stack's buffer, and removes as many bytes as it
    /// returns. An empty slice is the end of data.
    ///
    /// # Errors
    ///
    /// See [`TcpSocket::recv`].
    ///
    /// # Panics
    ///
    /// If `look` returns more than the length of the slice, or uses the stack.
    pub fn recv_with(&self, mut look: impl FnMut(&[u8]) -> usize) -> Result<usize, RecvError> {
        self.handle
            .wait(RecvError::WouldBlock, RecvError::TimedOut, |stack| {
                stack.tcp_receive(self.handle.id, &mut look)
            })
    }

    /// Copies received bytes into `buffer` without removing them.
    ///
    /// # Errors
    ///
    /// See [`TcpSocket::recv`].
    pub fn peek(&self, buffer: &mut [u8]) -> Result<usize, RecvError> {
        let mut seen = 0;
        self.recv_with(|bytes| {
            seen = bytes.len().min(buffer.len());
            buffer[..seen].copy_from_slice(&bytes[..seen]);
            0
        })?;
        Ok(seen)
    }

    /// Shuts down one or both directions.
    ///
    /// # Errors
    ///
    /// The socket is not connected.
    pub fn shutdown(&self, which: Shutdown) -> Result<(), SocketError> {
        self.with(|stack, id| stack.tcp_shutdown(id, which))
    }

    /// Disables Nagle's algorithm; see [`TcpOption::NoDelay`].
    ///
    /// # Errors
    ///
    /// The stack does not support it.
    pub fn set_nodelay(&self, nodelay: bool) -> Result<(), SocketError> {
        self.set(TcpOption::NoDelay(nodelay))
    }

    /// Sends keep-alive probes after this idle time; `None` disables them.
    ///
    /// # Errors
    ///
    /// The stack does not support it.
    pub fn set_keep_alive(&self, idle: Option<Duration>) -> Result<(), SocketError> {
        self.set(TcpOption::KeepAlive(idle))
    }

    /// Sets what closing does with unacknowledged data; see [`TcpOption::Linger`].
    ///
    /// # Errors
    ///
    /// The stack does not support it.
    pub fn set_linger(&self, linger: Option<Duration>) -> Result<(), SocketError> {
        self.set(TcpOption::Linger(linger))
    }

    fn set(&self, option: TcpOption) -> Result<(), SocketError> {
        self.with(|stack, id| stack.tcp_set(id, option))
    }

    /// Returns the local address; `None` before the socket is bound.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.with(|stack, id| stack.tcp_local(id))
    }

    /// Returns the peer's address; `None` if the socket was never connected.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.with(|stack, id| stack.tcp_peer(id))
    }

    /// Returns the operations that don't block.
    pub fn readiness(&self) -> Readiness {
        self.with(|stack, id| stack.readiness(id))
    }

    fn with<T>(&self, what: impl FnOnce(&mut S, SocketId) -> T) -> T {
        self.handle.net.with(|stack| what(stack, self.handle.id))
    }

    fn wait_to_send(
        &self,
        mut attempt: impl FnMut(&mut S, SocketId) -> Result<usize, SendError>,
    ) -> Result<usize, SendError> {
        self.handle
            .wait(SendError::WouldBlock, SendError::TimedOut, |stack| {
                attempt(stack, self.handle.id)
            })
    }
}

impl<S: Stack> Drop for TcpSocket<S> {
    fn drop(&mut self) {
        self.with(|stack, id| stack.tcp_close(id));
    }
}

impl<S: Stack> fmt::Debug for TcpSocket<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SocketId { index, generation } = self.handle.id;
        write!(out, "TcpSocket({index}.{generation})")
    }
}
