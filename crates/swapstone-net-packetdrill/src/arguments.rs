// SPDX-License-Identifier: MIT OR Apache-2.0
//! The arguments of calls: sizes and flags of transfers, and options of sockets.

use crate::calls::Unsupported;
use crate::constants::number;
use crate::script::{Call, Value};
use crate::system::Setting;

/// The most bytes of a read or write.
const MOST_BYTES: i64 = 64 << 20;

fn unsupported<T>(what: impl Into<String>) -> Result<T, Unsupported> {
    Err(what.into())
}

/// Returns a field of a struct.
pub fn field<'a>(fields: &'a [(String, Value)], name: &str) -> Option<&'a Value> {
    let found = fields.iter().find(|(each, _)| each == name);
    found.map(|(_, value)| value)
}

/// What a call reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// The number of bytes, or the size of the buffer.
    pub size: usize,
    /// `MSG_DONTWAIT` is set.
    pub dont_wait: bool,
    /// The other flags, of which not all stacks have each.
    pub flags: i32,
}

impl Transfer {
    /// Reads the arguments of `read`, `write`, and calls like them.
    ///
    /// # Errors
    ///
    /// The size is not a number, or a flag is not supported.
    pub fn of(call: &Call) -> Result<Self, Unsupported> {
        let arguments = &call.arguments;
        let (size, flags) = match call.name.as_str() {
            "readv" | "writev" => (arguments.get(1).and_then(vector), None),
            "recvmsg" | "sendmsg" => (message(arguments.get(1))?, arguments.get(2)),
            _ => (arguments.get(2).and_then(number), arguments.get(3)),
        };
        let Some(size) = size else {
            return unsupported(format!("{} needs a number of bytes", call.name));
        };
        let flags = flags.map_or(Ok(0), supported)?;
        Ok(Self {
            size: usize::try_from(size.clamp(0, MOST_BYTES)).expect("it was clamped"),
            dont_wait: flags & libc::MSG_DONTWAIT != 0,
            flags: flags & !(libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL),
        })
    }
}

/// Returns the number of bytes in the parts of an iovec: `[{..., 100}, {..., 50}]`.
fn vector(parts: &Value) -> Option<i64> {
    let Value::List(parts) = parts else {
        return None;
    };
    let size = |part: &Value| match part {
        Value::List(fields) if fields.len() == 2 => number(&fields[1]).filter(|size| *size >= 0),
        _ => None,
    };
    parts
        .iter()
        .try_fold(0i64, |all, part| all.checked_add(size(part)?))
}

/// Returns the number of bytes of a msghdr.
fn message(header: Option<&Value>) -> Result<Option<i64>, Unsupported> {
    let Some(Value::Fields(fields)) = header else {
        return unsupported(
            "a message needs {msg_name(...)=..., msg_iov(1)=[{..., N}], msg_flags=0}",
        );
    };
    if field(fields, "msg_control").is_some() {
        return unsupported("ancillary data (msg_control) is not supported");
    }
    match field(fields, "msg_flags").map(number) {
        None | Some(Some(0)) => Ok(field(fields, "msg_iov").and_then(vector)),
        Some(_) => unsupported("msg_flags is supported with 0 only"),
    }
}

/// Returns the flags of a call.
fn supported(flags: &Value) -> Result<i32, Unsupported> {
    let all = [
        libc::MSG_DONTWAIT,
        libc::MSG_NOSIGNAL,
        libc::MSG_PEEK,
        libc::MSG_EOR,
        libc::MSG_MORE,
        libc::MSG_FASTOPEN,
        libc::MSG_ZEROCOPY,
    ];
    let all = all.into_iter().fold(0, |all, flag| all | flag);
    let flags = number(flags).and_then(|flags| i32::try_from(flags).ok());
    match flags {
        Some(flags) if flags & !all == 0 => Ok(flags),
        _ => unsupported(
            "the supported flags are MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, MSG_EOR, MSG_MORE, MSG_FASTOPEN and MSG_ZEROCOPY",
        ),
    }
}

/// Reads the arguments of `setsockopt`.
///
/// # Errors
///
/// The value has another form.
pub fn setting(arguments: &[Value]) -> Result<Setting, Unsupported> {
    let level = arguments.get(1).and_then(number);
    let name = arguments.get(2).and_then(number);
    let (Some(level), Some(name)) = (level, name) else {
        return unsupported("this option of setsockopt is not supported by this runner");
    };
    // As C does: [0xffffffff] is -1.
    let narrow = |number: i64| number as i32;
    let (level, name) = (narrow(level), narrow(name));
    if (level, name) == (libc::SOL_SOCKET, libc::SO_LINGER) {
        return linger(arguments.get(3));
    }
    let Some(value) = arguments.get(3).and_then(number) else {
        return unsupported("the value of setsockopt is a number in brackets");
    };
    let value = narrow(value);
    Ok(match (level, name) {
        (libc::IPPROTO_TCP, libc::TCP_NODELAY) => Setting::NoDelay(value != 0),
        (libc::IPPROTO_TCP, libc::TCP_KEEPIDLE) => {
            Setting::KeepIdle(u32::try_from(value).unwrap_or(0))
        }
        (libc::SOL_SOCKET, libc::SO_KEEPALIVE) => Setting::KeepAlive(value != 0),
        _ => Setting::Other(level, name, value),
    })
}

fn linger(value: Option<&Value>) -> Result<Setting, Unsupported> {
    let Some(Value::Fields(fields)) = value else {
        return unsupported("SO_LINGER needs {onoff=, linger=}");
    };
    let field = |name: &str| {
        let found = fields.iter().find(|(each, _)| each.ends_with(name));
        found.and_then(|(_, value)| number(value))
    };
    let (Some(on), Some(seconds)) = (field("onoff"), field("linger")) else {
        return unsupported("SO_LINGER needs {onoff=, linger=}");
    };
    let seconds = u16::try_from(seconds).unwrap_or(u16::MAX);
    Ok(Setting::Linger((on != 0).then_some(seconds)))
}
