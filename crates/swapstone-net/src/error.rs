// SPDX-License-Identifier: MIT OR Apache-2.0
//! Errors. Each operation has its own enum with exactly the errors that it can return.

use core::fmt;

/// A resource that a stack can run out of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// TCP sockets: listening, connected, and closing ones with unacknowledged data.
    TcpSockets,
    /// UDP sockets.
    UdpSockets,
    /// Connections in an accept queue.
    Backlog,
    /// Local ports for connections to one peer.
    Ports,
    /// Packet memory of the stack.
    PacketMemory,
    /// Bytes of one datagram.
    DatagramBytes,
}

/// A limit that was reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// The resource.
    pub of: Resource,
    /// The highest possible number.
    pub most: usize,
}

impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, setting) = match self.of {
            Resource::TcpSockets => ("TCP sockets", "Limits::tcp_sockets"),
            Resource::UdpSockets => ("UDP sockets", "Limits::udp_sockets"),
            Resource::Backlog => (
                "connections in the accept queue",
                "the stack's own, Limits::tcp_sockets or net.core.somaxconn",
            ),
            Resource::Ports => ("local ports to this peer", "the range 49152 to 65535"),
            Resource::PacketMemory => ("bytes of packet memory", "Limits::packet_memory"),
            Resource::DatagramBytes => ("bytes in a datagram", "the protocol's or the path MTU"),
        };
        write!(
            out,
            "more than {} {what}; the limit is {setting}",
            self.most
        )
    }
}

/// Declares the error enum of one operation with its messages.
macro_rules! errors {
    ($(#[$of:meta])* $name:ident { $($variant:ident $(($held:ty))? = $text:literal),+ $(,)? }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name {
            $(#[doc = $text] $variant $(($held))?,)+
        }

        impl fmt::Display for $name {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $(errors!(@pattern limit $variant $(($held))?) => errors!(@write out limit $text $(($held))?),)+
                }
            }
        }

        impl core::error::Error for $name {}
    };
    (@pattern $limit:ident $variant:ident) => { Self::$variant };
    (@pattern $limit:ident $variant:ident ($held:ty)) => { Self::$variant($limit) };
    (@write $out:ident $limit:ident $text:literal) => { $out.write_str($text) };
    (@write $out:ident $limit:ident $text:literal ($held:ty)) => { write!($out, "{}: {}", $text, $limit) };
}

errors! {
    /// Why a socket can't be opened.
    OpenError {
        Limit(Limit) = "too many sockets",
    }
}

errors! {
    /// Why a socket can't be bound.
    BindError {
        InUse = "address in use",
        NotLocal = "not a local address",
        AlreadyBound = "the socket is already bound or connected",
        Limit(Limit) = "no free port",
    }
}

errors! {
    /// Why a socket can't listen.
    ListenError {
        NotBound = "the socket is not bound to a port",
        AlreadyActive = "the socket already listens or is connected",
        InUse = "address in use",
        Limit(Limit) = "the accept queue is too large",
    }
}

errors! {
    /// Why no connection is accepted.
    AcceptError {
        WouldBlock = "the accept queue is empty",
        TimedOut = "no connection arrived within the timeout",
        NotListening = "the socket does not listen",
        Limit(Limit) = "too many sockets",
    }
}

errors! {
    /// Why a connection is not established.
    ConnectError {
        WouldBlock = "the connection is in progress; the socket becomes writable when it is established",
        Refused = "connection refused",
        TimedOut = "connection timed out",
        Unreachable = "no route to host",
        AlreadyActive = "the socket already listens or is connected",
        Limit(Limit) = "a limit is reached",
    }
}

errors! {
    /// Why nothing is sent on a connection.
    SendError {
        WouldBlock = "the send buffer is full",
        TimedOut = "the send buffer stayed full within the timeout, or the peer acknowledged nothing",
        NotConnected = "the socket is not connected",
        Closed = "the socket is shut down for sending",
        Reset = "connection reset by peer",
    }
}

errors! {
    /// Why nothing is received on a connection. The end of data is not an error: it is 0 bytes.
    RecvError {
        WouldBlock = "no data is available",
        TimedOut = "no data arrived within the timeout, or the connection timed out",
        NotConnected = "the socket is not connected",
        Reset = "connection reset by peer",
    }
}

errors! {
    /// Why an option or a shutdown is rejected.
    SocketError {
        NotConnected = "the socket is not connected",
        Unsupported = "the stack does not support this; see its capabilities",
    }
}

errors! {
    /// Why a datagram is not sent.
    UdpSendError {
        WouldBlock = "the send queue is full",
        TimedOut = "the send queue stayed full within the timeout",
        NoPeer = "the socket is not connected, so a destination address is required",
        Unreachable = "no route to host",
        Limit(Limit) = "a limit is reached",
    }
}

/// A datagram needs a local port first: without one, the datagram is not sent.
impl From<BindError> for UdpSendError {
    fn from(error: BindError) -> Self {
        match error {
            BindError::Limit(limit) => Self::Limit(limit),
            _ => Self::Unreachable,
        }
    }
}

errors! {
    /// Why no datagram is received.
    UdpRecvError {
        WouldBlock = "no datagram is available",
        TimedOut = "no datagram arrived within the timeout",
        NotBound = "the socket is not bound to a port",
    }
}

errors! {
    /// Why a name can't be resolved.
    ResolveError {
        WouldBlock = "the query is in progress",
        InvalidName = "not a valid domain name",
        NoServer = "no DNS server is configured",
        TooManyQueries = "too many queries are in progress; the limit is Settings::queries",
        UnknownQuery = "the query has ended or was cancelled",
        NxDomain = "no such domain name (NXDOMAIN)",
        NoData = "the name has no address of this type (NODATA)",
        TimedOut = "no DNS server answered",
        Truncated = "the response is truncated",
        CnameLoop = "the chain of CNAME records is a loop or too long",
        ServerError(u8) = "the server returned an error, RCODE",
        Limit(Limit) = "no socket is available for the query",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_limit_names_its_resource_and_its_setting() {
        let limit = Limit {
            of: Resource::TcpSockets,
            most: 8,
        };
        assert_eq!(
            OpenError::Limit(limit).to_string(),
            "too many sockets: more than 8 TCP sockets; the limit is Limits::tcp_sockets"
        );
        assert_eq!(RecvError::WouldBlock.to_string(), "no data is available");
    }

    #[test]
    fn errors_are_small() {
        assert!(size_of::<ConnectError>() <= 16);
        assert_eq!(size_of::<RecvError>(), 1);
    }
}
