//! A TCP socket.

use core::cell::Cell;
use core::fmt;
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;

use crate::error::{
    AcceptError, BindError, ConnectError, ListenError, RecvError, SendError, SocketError,
};
use crate::net::Net;
use crate::stack::{Readiness, Shared, Shutdown, SocketId, Stack, TcpOption};

/// A TCP socket: listening or connected.
///
/// It blocks until it is told otherwise ([`TcpSocket::set_nonblocking`], [`TcpSocket::set_timeout`]). Dropping it closes it in order: what
/// was sent is delivered while the stack is polled.
pub struct TcpSocket<S: Stack> {
    net: Net<S>,
    id: SocketId,
    patience: Cell<Option<Duration>>,
}

impl<S: Stack> TcpSocket<S> {
    pub(crate) fn new(net: Net<S>, id: SocketId) -> Self {
        Self {
            net,
            id,
            patience: Cell::new(None),
        }
    }

    /// Take charge of a socket of the stack, as an event loop has them.
    pub fn from_id(net: &Net<S>, id: SocketId) -> Self {
        Self::new(net.clone(), id)
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
    /// If the time is zero: that is what [`TcpSocket::set_nonblocking`] is for.
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
    /// The port is taken, the address not ours, or the socket is not new.
    pub fn bind(&self, address: SocketAddr) -> Result<(), BindError> {
        self.net.with(|stack| stack.tcp_bind(self.id, address))
    }

    /// Listen: up to `backlog` connections are completed before they are accepted.
    ///
    /// # Errors
    ///
    /// The socket has no port, is not new, or there is no room.
    pub fn listen(&self, backlog: usize) -> Result<(), ListenError> {
        self.net.with(|stack| stack.tcp_listen(self.id, backlog))
    }

    /// Take the connection that has waited longest, and its peer's address. The new socket blocks.
    ///
    /// # Errors
    ///
    /// None came, or the socket does not listen.
    pub fn accept(&self) -> Result<(Self, SocketAddr), AcceptError> {
        self.net
            .wait(
                self.patience.get(),
                AcceptError::WouldBlock,
                AcceptError::TimedOut,
                |stack| stack.tcp_accept(self.id),
            )
            .map(|(id, peer)| (Self::new(self.net.clone(), id), peer))
    }

    /// Connect. A non-blocking socket begins, says `WouldBlock`, and tells when it is called again, at best once it is writable.
    ///
    /// # Errors
    ///
    /// It did not come about, and why.
    pub fn connect(&self, peer: SocketAddr) -> Result<(), ConnectError> {
        self.net.wait(
            self.patience.get(),
            ConnectError::WouldBlock,
            ConnectError::TimedOut,
            |stack| stack.tcp_connect(self.id, peer),
        )
    }

    /// Send some bytes: as many as there is room for, at least one if there are any.
    ///
    /// # Errors
    ///
    /// There was no room, or it can't be sent any more.
    pub fn send(&self, bytes: &[u8]) -> Result<usize, SendError> {
        self.send_vectored(&[bytes])
    }

    /// Send some bytes of several pieces, as if they were one.
    ///
    /// # Errors
    ///
    /// As of [`TcpSocket::send`].
    pub fn send_vectored(&self, parts: &[&[u8]]) -> Result<usize, SendError> {
        self.net.wait(
            self.patience.get(),
            SendError::WouldBlock,
            SendError::TimedOut,
            |stack| stack.tcp_send(self.id, parts),
        )
    }

    /// Send some bytes from where they are, without a copy if the stack can.
    ///
    /// # Errors
    ///
    /// As of [`TcpSocket::send`].
    ///
    /// # Panics
    ///
    /// If the range is not inside the bytes.
    pub fn send_shared(&self, bytes: &Shared, range: Range<usize>) -> Result<usize, SendError> {
        self.net.wait(
            self.patience.get(),
            SendError::WouldBlock,
            SendError::TimedOut,
            |stack| stack.tcp_send_shared(self.id, bytes, range.clone()),
        )
    }

    /// Have `fill` write what is sent: it gets room for at most `most` bytes and returns to how many of its first bytes it wrote.
    ///
    /// Returns how many of those were taken; `fill` has to write what was not again. With a stack that shows its send buffer
    /// ([`crate::Capabilities::send_in_place`]) data that are made here are copied nowhere else.
    ///
    /// # Errors
    ///
    /// As of [`TcpSocket::send`].
    ///
    /// # Panics
    ///
    /// If `fill` returns more than it had room for, or uses the stack.
    pub fn send_with(
        &self,
        most: usize,
        mut fill: impl FnMut(&mut [u8]) -> usize,
    ) -> Result<usize, SendError> {
        self.net.wait(
            self.patience.get(),
            SendError::WouldBlock,
            SendError::TimedOut,
            |stack| stack.tcp_send_with(self.id, most, &mut fill),
        )
    }

    /// Send all bytes, however often that means waiting.
    ///
    /// # Errors
    ///
    /// As of [`TcpSocket::send`]; a part may have been sent.
    pub fn send_all(&self, mut bytes: &[u8]) -> Result<(), SendError> {
        while !bytes.is_empty() {
            bytes = &bytes[self.send(bytes)?..];
        }
        Ok(())
    }

    /// Receive some bytes into `buffer`; 0 is the end of data (or an empty buffer).
    ///
    /// # Errors
    ///
    /// Nothing arrived, or the connection failed.
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

    /// Look at what has arrived, where it is, and take as many bytes as `look` returns. An empty slice is the end of data.
    ///
    /// # Errors
    ///
    /// As of [`TcpSocket::recv`].
    ///
    /// # Panics
    ///
    /// If `look` returns more than it was shown, or uses the stack.
    pub fn recv_with(&self, mut look: impl FnMut(&[u8]) -> usize) -> Result<usize, RecvError> {
        self.net.wait(
            self.patience.get(),
            RecvError::WouldBlock,
            RecvError::TimedOut,
            |stack| stack.tcp_receive(self.id, &mut look),
        )
    }

    /// Look at what has arrived without taking it, at most a buffer full.
    ///
    /// # Errors
    ///
    /// As of [`TcpSocket::recv`].
    pub fn peek(&self, buffer: &mut [u8]) -> Result<usize, RecvError> {
        let mut seen = 0;
        self.recv_with(|bytes| {
            seen = bytes.len().min(buffer.len());
            buffer[..seen].copy_from_slice(&bytes[..seen]);
            0
        })?;
        Ok(seen)
    }

    /// End one half of the connection, or both.
    ///
    /// # Errors
    ///
    /// The socket is not connected.
    pub fn shutdown(&self, which: Shutdown) -> Result<(), SocketError> {
        self.net.with(|stack| stack.tcp_shutdown(self.id, which))
    }

    /// Send small pieces at once, without waiting for more or for an acknowledgement.
    ///
    /// # Errors
    ///
    /// The stack can't do that.
    pub fn set_nodelay(&self, at_once: bool) -> Result<(), SocketError> {
        self.set(TcpOption::NoDelay(at_once))
    }

    /// Ask a silent peer after so long whether it is still there; `None` never asks.
    ///
    /// # Errors
    ///
    /// The stack can't do that.
    pub fn set_keep_alive(&self, after: Option<Duration>) -> Result<(), SocketError> {
        self.set(TcpOption::KeepAlive(after))
    }

    /// Choose what closing does with undelivered bytes; see [`TcpOption::Linger`].
    ///
    /// # Errors
    ///
    /// The stack can't do that.
    pub fn set_linger(&self, linger: Option<Duration>) -> Result<(), SocketError> {
        self.set(TcpOption::Linger(linger))
    }

    fn set(&self, option: TcpOption) -> Result<(), SocketError> {
        self.net.with(|stack| stack.tcp_set(self.id, option))
    }

    /// Its own address; `None` before it has one.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.net.with(|stack| stack.tcp_local(self.id))
    }

    /// Its peer's address; `None` if it was never connected.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.net.with(|stack| stack.tcp_peer(self.id))
    }

    /// What can be done with it without waiting.
    pub fn readiness(&self) -> Readiness {
        self.net.with(|stack| stack.readiness(self.id))
    }
}

impl<S: Stack> Drop for TcpSocket<S> {
    fn drop(&mut self) {
        self.net.with(|stack| stack.tcp_close(self.id));
    }
}

impl<S: Stack> fmt::Debug for TcpSocket<S> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "TcpSocket({}.{})", self.id.index, self.id.generation)
    }
}
