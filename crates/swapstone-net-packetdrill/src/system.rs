// SPDX-License-Identifier: MIT OR Apache-2.0
//! What a script is run against: sockets of a stack, its device, and its clock.

use std::net::SocketAddr;

/// An error of a call, by the name of its `errno`.
pub type Errno = &'static str;

/// The result of a call.
pub type Called<T> = Result<T, Errno>;

/// A socket of a [`System`].
pub type Handle = usize;

/// The error of a call that would block.
pub const AGAIN: Errno = "EAGAIN";

/// The result of a call that the sockets of a stack don't have. No script expects it.
pub const UNSUPPORTED: Errno = "unsupported";

/// A number that a socket has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Bytes that can be read: `SIOCINQ`.
    Unread,
    /// Sent bytes that are not acknowledged: `SIOCOUTQ`.
    Unacknowledged,
    /// An option whose value is an int: level and name, as numbers of Linux.
    Option(i32, i32),
}

/// An option of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// `TCP_NODELAY`.
    NoDelay(bool),
    /// `SO_KEEPALIVE`.
    KeepAlive(bool),
    /// `TCP_KEEPIDLE`, in seconds.
    KeepIdle(u32),
    /// `SO_LINGER`: off, or seconds.
    Linger(Option<u16>),
    /// Another option: level, name and value, as numbers of Linux.
    Other(i32, i32, i32),
}

/// The direction of `shutdown`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// `SHUT_RD`.
    Read,
    /// `SHUT_WR`.
    Write,
    /// `SHUT_RDWR`.
    Both,
}

/// The events of `poll`.
pub const POLLIN: i64 = 1;
/// Writable.
pub const POLLOUT: i64 = 4;
/// An error.
pub const POLLERR: i64 = 8;
/// Both directions are closed.
pub const POLLHUP: i64 = 16;

/// The peer sends no more data, or the direction is shut down.
pub const POLLRDHUP: i64 = 0x2000;

/// Counters of a socket, each of which is larger if something has happened since that an
/// edge-triggered `epoll` reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Edges {
    /// Data, its end, or a connection to accept has arrived.
    pub input: u64,
    /// There is room again in a send buffer that had been full, or the connection is established.
    pub output: u64,
    /// The connection has ended or failed.
    pub state: u64,
}

/// A stack under test with its device and clock. No call blocks: `EAGAIN` means that it would.
pub trait System {
    /// Returns the time since the start in microseconds.
    fn now(&mut self) -> u64;

    /// Waits until `until`, or until a frame has been received.
    fn wait(&mut self, until: u64);

    /// Delivers a frame to the stack.
    ///
    /// # Errors
    ///
    /// Why the link can't carry it.
    fn inject(&mut self, frame: &[u8]) -> Result<(), String>;

    /// Returns the next frame that the stack has sent, and its time.
    fn take(&mut self) -> Option<(u64, Vec<u8>)>;

    /// Whether the clock is virtual: calls take no time, and times are exact.
    fn exact(&self) -> bool;

    /// Sets what a shell command of the script says, as far as the stack has such settings.
    fn configure(&mut self, _command: &str) {}

    /// Whether its sockets have `TCP_INFO`.
    fn has_info(&self) -> bool {
        false
    }

    /// Returns the `tcp_info` of a socket, as Linux has it.
    fn info(&mut self, _at: Handle) -> Called<Vec<u8>> {
        Err(UNSUPPORTED)
    }

    /// Opens a socket.
    fn socket(&mut self, ipv6: bool, udp: bool) -> Called<Handle>;
    /// Binds it.
    fn bind(&mut self, at: Handle, address: SocketAddr) -> Called<()>;
    /// Listens.
    fn listen(&mut self, at: Handle, backlog: usize) -> Called<()>;
    /// Accepts a connection.
    fn accept(&mut self, at: Handle) -> Called<Handle>;
    /// Connects. A second call returns the result of the first one.
    fn connect(&mut self, at: Handle, peer: SocketAddr) -> Called<()>;
    /// Sends bytes; with a destination, a datagram, or data with the SYN of a connection. The flags are
    /// `MSG_*` of Linux; [`UNSUPPORTED`] if its sockets have none like them.
    fn send(
        &mut self,
        at: Handle,
        bytes: &[u8],
        to: Option<SocketAddr>,
        flags: i32,
    ) -> Called<usize>;
    /// Receives at most this many bytes. An empty result of TCP is the end. The flags are as in `send`.
    fn receive(&mut self, at: Handle, most: usize, flags: i32) -> Called<Vec<u8>>;
    /// Shuts down a direction.
    fn shutdown(&mut self, at: Handle, which: Direction) -> Called<()>;
    /// Closes it.
    fn close(&mut self, at: Handle) -> Called<()>;
    /// Sets an option; [`UNSUPPORTED`] if its sockets have none like it.
    fn set(&mut self, at: Handle, setting: Setting) -> Called<()>;
    /// Returns a number; [`UNSUPPORTED`] if its sockets don't have it.
    fn count(&mut self, at: Handle, count: Count) -> Called<i64>;
    /// Returns the events of `poll`.
    fn poll(&mut self, at: Handle) -> i64;
    /// Returns the counters for an edge-triggered `epoll`; [`UNSUPPORTED`] if it has none.
    fn edges(&mut self, at: Handle) -> Called<Edges>;
    /// Returns and clears `SO_ERROR`; `None` without an error.
    fn error(&mut self, at: Handle) -> Called<Option<Errno>>;
    /// Returns the local port.
    fn local_port(&mut self, at: Handle) -> Option<u16>;
}
