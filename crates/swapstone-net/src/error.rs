//! Errors: small, and of each operation only those that it can have.

use core::fmt;

/// What there can be too little of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Resource {
    /// TCP sockets: listening, connected, and closing ones that live on until their peer has the last byte.
    TcpSockets,
    /// UDP sockets.
    UdpSockets,
    /// Connections that wait to be accepted.
    Backlog,
    /// Local ports for connections to one peer.
    Ports,
    /// Memory of the stack for packets.
    PacketMemory,
    /// The bytes that one datagram can have.
    DatagramBytes,
}

/// A limit that was hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Limit {
    /// Of what.
    pub of: Resource,
    /// How many there can be at most.
    pub most: usize,
}

impl fmt::Display for Limit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (what, setting) = match self.of {
            Resource::TcpSockets => ("TCP sockets", "Limits::tcp_sockets"),
            Resource::UdpSockets => ("UDP sockets", "Limits::udp_sockets"),
            Resource::Backlog => (
                "connections that wait to be accepted",
                "the stack's own, Limits::tcp_sockets or the kernel's somaxconn",
            ),
            Resource::Ports => ("local ports to this peer", "the range 49152 to 65535"),
            Resource::PacketMemory => ("bytes of packet memory", "Limits::packet_memory"),
            Resource::DatagramBytes => ("bytes in a datagram", "UDP and the path"),
        };
        write!(
            out,
            "more than {} {what}; the limit is {setting}",
            self.most
        )
    }
}

/// Declares one operation's errors, with what each means.
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
        Limit(Limit) = "there is no room for another socket",
    }
}

errors! {
    /// Why a socket can't be bound.
    BindError {
        InUse = "another socket has this address and port",
        NotLocal = "this address is none of ours",
        NotNew = "the socket is bound or connected already",
        Limit(Limit) = "there is no free port",
    }
}

errors! {
    /// Why a socket can't listen.
    ListenError {
        NotBound = "it is bound to no port",
        NotNew = "it listens or is connected already",
        InUse = "another socket listens on this port",
        Limit(Limit) = "there is no room for what waits to be accepted",
    }
}

errors! {
    /// Why no connection is accepted.
    AcceptError {
        WouldBlock = "none waits to be accepted",
        TimedOut = "none came in time",
        NotListening = "the socket does not listen",
        Limit(Limit) = "there is no room for another socket",
    }
}

errors! {
    /// Why a connection does not come about.
    ConnectError {
        WouldBlock = "it is under way; the socket becomes writable when it is there",
        Refused = "the peer refuses it",
        TimedOut = "the peer does not answer",
        Unreachable = "there is no way to the peer",
        NotNew = "the socket listens or is connected already",
        Limit(Limit) = "there is no room for it",
    }
}

errors! {
    /// Why nothing is sent on a connection.
    SendError {
        WouldBlock = "there is no room in the send buffer",
        TimedOut = "there was no room in time, or the peer acknowledges nothing",
        NotConnected = "the socket is not connected",
        Closed = "this side was shut down for sending",
        Reset = "the peer has reset the connection",
    }
}

errors! {
    /// Why nothing is received on a connection. (Its end is no error: it is zero bytes.)
    RecvError {
        WouldBlock = "nothing has arrived",
        TimedOut = "nothing arrived in time, or the peer is gone",
        NotConnected = "the socket is not connected",
        Reset = "the peer has reset the connection",
    }
}

errors! {
    /// Why an option or a shutdown is refused.
    SocketError {
        NotConnected = "the socket is not connected",
        Unsupported = "this stack can't do that; see its capabilities",
    }
}

errors! {
    /// Why a datagram is not sent.
    UdpSendError {
        WouldBlock = "there is no room for it now",
        TimedOut = "there was no room in time",
        NoPeer = "the socket is not connected, so the datagram needs an address",
        Unreachable = "there is no way to the peer",
        Limit(Limit) = "it is too large",
    }
}

errors! {
    /// Why no datagram is received.
    UdpRecvError {
        WouldBlock = "none has arrived",
        TimedOut = "none arrived in time",
        NotBound = "the socket is bound to no port",
    }
}

errors! {
    /// Why a name has no address.
    ResolveError {
        WouldBlock = "it is being asked for",
        BadName = "this can't be a name",
        NoServer = "there is no server to ask",
        TooMany = "too many questions are under way; the limit is Settings::questions",
        Unknown = "this is no question that is under way",
        NoName = "there is no such name",
        NoData = "the name has no such address",
        TimedOut = "no server answers",
        Truncated = "the answer does not fit in a datagram",
        AliasLoop = "it is an alias of an alias, and so on without an end",
        Failed(u8) = "the server can't tell; its code",
        Limit(Limit) = "there is no room for a socket to ask with",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn a_limit_is_named() {
        let limit = Limit {
            of: Resource::TcpSockets,
            most: 8,
        };
        assert_eq!(
            OpenError::Limit(limit).to_string(),
            "there is no room for another socket: more than 8 TCP sockets; the limit is Limits::tcp_sockets"
        );
        assert_eq!(RecvError::WouldBlock.to_string(), "nothing has arrived");
    }

    #[test]
    fn errors_are_small() {
        assert!(size_of::<ConnectError>() <= 16);
        assert_eq!(size_of::<RecvError>(), 1);
    }
}
