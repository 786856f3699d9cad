// SPDX-License-Identifier: MIT OR Apache-2.0
//! A parsed script: options, and events in the order of the file.

use std::net::Ipv4Addr;

use crate::assertions::Assertions;

/// The IP version of a script.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Version {
    /// IPv4, the default.
    #[default]
    V4,
    /// IPv6.
    V6,
}

/// A script.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// `--ip_version`.
    pub version: Version,
    /// `--tolerance_usecs`: how far a time may deviate, in microseconds.
    pub tolerance: Option<u64>,
    /// `--mtu`: the MTU of the device in bytes.
    pub mtu: Option<u16>,
    /// The events.
    pub events: Vec<Event>,
    /// The shell commands before the first event.
    pub commands: Vec<String>,
    /// How many shell commands and pieces of Python code are not executed.
    pub skipped: usize,
    /// How many of these are pieces of Python code that is left out.
    pub unevaluated: usize,
    /// How many of these are assertions that a stack with `TCP_INFO` can make.
    pub assertions: usize,
    /// The names that they assign.
    pub assigned: Vec<String>,
    /// `--local_ip` and `--remote_ip`: the addresses of the stack and of its peer.
    pub addresses: [Option<Ipv4Addr>; 2],
    /// `--strict_segments`: a segment that the stack splits is not the expected one.
    pub strict: bool,
}

impl Script {
    /// Returns the window scale of the first SYN that the stack shall send.
    pub fn window_scale(&self) -> Option<u8> {
        self.events.iter().find_map(|event| match &event.action {
            Action::Expect(Packet {
                body: Body::Tcp(tcp),
                ..
            }) => tcp.options.iter().flatten().find_map(|each| match each {
                TcpOption::WindowScale(shift) => Some(*shift),
                _ => None,
            }),
            _ => None,
        })
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// The line of the file, from 1.
    pub line: usize,
    /// The character of the line with which the packet or call begins, from 1.
    pub column: usize,
    /// When it happens.
    pub when: When,
    /// The end of a call that blocks, on the same scale as its start.
    pub until: Option<u64>,
    /// What happens.
    pub action: Action,
}

/// The time of an event in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// `*`: at any time.
    Any,
    /// Since the start of the script.
    Absolute(u64),
    /// Within a range since the start of the script.
    AbsoluteRange(u64, u64),
    /// Since the event before.
    Relative(u64),
    /// Within a range since the event before.
    RelativeRange(u64, u64),
}

/// What happens in an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// `<`: a packet arrives at the stack.
    Inject(Packet),
    /// `>`: the stack sends a packet.
    Expect(Packet),
    /// The program makes a system call.
    Call(Call),
    /// A shell command, which is not executed; `None` for Python code that is left out.
    Code(Option<String>),
    /// Assertions in Python code.
    Assert(Assertions),
}

/// A packet of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The ECN bits of the IP header; `None`: not set and not checked.
    pub ecn: Option<u8>,
    /// The protocol and its fields.
    pub body: Body,
}

/// The protocol of a packet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// TCP.
    Tcp(Tcp),
    /// A UDP datagram with this many bytes.
    Udp(u16),
    /// ICMP or ICMPv6.
    Icmp(Icmp),
}

/// A TCP segment of a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    /// The flags byte.
    pub flags: u8,
    /// The sequence number of the script.
    pub seq: u32,
    /// The payload's length in bytes.
    pub length: u16,
    /// The acknowledgement number.
    pub ack: Option<u32>,
    /// The window field.
    pub window: Option<u16>,
    /// The urgent pointer.
    pub urgent: Option<u16>,
    /// The options; `None` for `<...>`: not checked.
    pub options: Option<Vec<TcpOption>>,
}

/// A TCP option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpOption {
    /// End of the list.
    Eol,
    /// No operation.
    Nop,
    /// The maximum segment size.
    Mss(u16),
    /// The window scale.
    WindowScale(u8),
    /// SACK permitted.
    SackPermitted,
    /// SACK blocks: left and right edges.
    Sack(Vec<(u32, u32)>),
    /// A timestamp and its echo.
    Timestamp(u32, u32),
    /// Another option: its kind and its bytes.
    Other(u8, Vec<u8>),
}

/// An ICMP message of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// The type.
    pub kind: u8,
    /// The code.
    pub code: u8,
    /// The MTU of the next hop.
    pub mtu: Option<u32>,
    /// The identifier of an echo.
    pub id: Option<u16>,
    /// The sequence number and length of the quoted segment.
    pub quoted: Option<(u32, u32)>,
}

/// A system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub arguments: Vec<Value>,
    /// The expected result.
    pub result: Value,
    /// The expected error, if the result is -1.
    pub errno: Option<String>,
}

/// A value in a system call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `...`
    Ellipsis,
    /// A number.
    Number(i64),
    /// A string.
    Text(String),
    /// A constant by its name.
    Name(String),
    /// Values combined by `|`.
    Or(Vec<Value>),
    /// `[...]`
    List(Vec<Value>),
    /// `{...}` with fields.
    Fields(Vec<(String, Value)>),
    /// A function of values, such as `htons(80)`.
    Function(String, Vec<Value>),
}
