//! DNS messages (RFC 1035): a question to bytes, bytes to an answer. Nothing here trusts a length or a pointer.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Which addresses are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Want {
    /// IPv4: records of type A.
    V4,
    /// IPv6: records of type AAAA.
    V6,
}

impl Want {
    const fn kind(self) -> u16 {
        match self {
            Self::V4 => 1,
            Self::V6 => 28,
        }
    }
}

const CNAME: u16 = 5;
const SOA: u16 = 6;
const INTERNET: u16 = 1;
/// Bytes of a message's header.
const HEADER: usize = 12;
/// The longest name on the wire, in bytes.
const LONGEST: usize = 255;
/// How many aliases in one answer are followed.
const ALIASES: usize = 16;
/// How many addresses of one answer are kept.
const ADDRESSES: usize = 32;

/// A name as it is on the wire, in lower case: labels with their lengths, and the root at the end.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Name {
    bytes: [u8; LONGEST],
    length: u8,
}

impl core::fmt::Debug for Name {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(out, "{}", self.wire().escape_ascii())
    }
}

impl Name {
    const EMPTY: Self = Self {
        bytes: [0; LONGEST],
        length: 0,
    };

    /// A name of text such as `www.example.org`, with or without a dot at its end; `None` if it can't be one.
    pub(super) fn new(text: &str) -> Option<Self> {
        let mut name = Self::EMPTY;
        for label in text.strip_suffix('.').unwrap_or(text).split('.') {
            if label.is_empty() {
                return None;
            }
            name.push(label.as_bytes())?;
        }
        name.end()
    }

    fn wire(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Add a label; `None` if it or the name gets too long.
    fn push(&mut self, label: &[u8]) -> Option<()> {
        let size = u8::try_from(label.len()).ok().filter(|size| *size <= 63)?;
        let at = usize::from(self.length);
        // There has to be room for the root.
        if at + 1 + label.len() >= LONGEST {
            return None;
        }
        self.bytes[at] = size;
        let place = &mut self.bytes[at + 1..at + 1 + label.len()];
        place.copy_from_slice(label);
        place.make_ascii_lowercase();
        self.length += size + 1;
        Some(())
    }

    /// Add the root.
    fn end(mut self) -> Option<Self> {
        *self.bytes.get_mut(usize::from(self.length))? = 0;
        self.length += 1;
        Some(self)
    }
}

/// What is wrong with a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It answers another question, or none.
    NotOurs,
    /// It ends too early, or contradicts itself.
    Malformed,
}

/// What a server says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// These, for so many seconds.
    Addresses(Vec<IpAddr>, u32),
    /// Ask for another name; true for so many seconds.
    Alias(Box<Name>, u32),
    /// There is no such name; true for so many seconds, if it may be remembered.
    NoName(Option<u32>),
    /// The name has no such address; true for so many seconds, if it may be remembered.
    NoData(Option<u32>),
    /// The answer did not fit in a datagram.
    Truncated,
    /// The server can't or won't tell: its code.
    Failed(u8),
    /// Its aliases lead in a circle, or are too many.
    AliasLoop,
}

/// A question: the message's bytes.
pub(super) fn question(id: u16, name: &Name, want: Want) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + name.wire().len() + 4);
    bytes.extend(id.to_be_bytes());
    // Recursion desired; one question.
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(name.wire());
    bytes.extend(want.kind().to_be_bytes());
    bytes.extend(INTERNET.to_be_bytes());
    bytes
}

/// Reads a message from its start.
#[derive(Clone, Copy)]
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

/// A resource record; what it holds starts at `data`.
struct Record<'a> {
    name: Name,
    kind: u16,
    class: u16,
    ttl: u32,
    /// A reader at its data, which may point back into the message.
    data: Reader<'a>,
    length: usize,
}

impl<'a> Reader<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Bad> {
        let end = self.at.checked_add(count).ok_or(Bad::Malformed)?;
        let bytes = self.message.get(self.at..end).ok_or(Bad::Malformed)?;
        self.at = end;
        Ok(bytes)
    }

    fn half(&mut self) -> Result<u16, Bad> {
        let bytes = self.bytes(2)?;
        Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
    }

    fn word(&mut self) -> Result<u32, Bad> {
        Ok(u32::from(self.half()?) << 16 | u32::from(self.half()?))
    }

    /// A name, compressed or not.
    ///
    /// A pointer has to lead to before the part that it ends. So there is no circle, and no need to count.
    fn name(&mut self) -> Result<Name, Bad> {
        let mut name = Name::EMPTY;
        let mut part = self.at;
        let mut reader = *self;
        let mut after = None;
        loop {
            let length = usize::from(reader.bytes(1)?[0]);
            match length >> 6 {
                0 if length == 0 => break,
                0 => name.push(reader.bytes(length)?).ok_or(Bad::Malformed)?,
                3 => {
                    let low = usize::from(reader.bytes(1)?[0]);
                    after.get_or_insert(reader.at);
                    let to = (length & 0x3f) << 8 | low;
                    if to >= part {
                        return Err(Bad::Malformed);
                    }
                    part = to;
                    reader.at = to;
                }
                _ => return Err(Bad::Malformed),
            }
        }
        self.at = after.unwrap_or(reader.at);
        name.end().ok_or(Bad::Malformed)
    }

    fn record(&mut self) -> Result<Record<'a>, Bad> {
        let name = self.name()?;
        let kind = self.half()?;
        let class = self.half()?;
        let ttl = self.word()?;
        let length = usize::from(self.half()?);
        let data = *self;
        self.bytes(length)?;
        // A TTL with its highest bit set is zero (RFC 2181, 8).
        let ttl = if ttl > i32::MAX as u32 { 0 } else { ttl };
        Ok(Record {
            name,
            kind,
            class,
            ttl,
            data,
            length,
        })
    }
}

impl Record<'_> {
    /// The name that is all of its data.
    fn target(mut self) -> Result<Name, Bad> {
        let end = self.data.at + self.length;
        let name = self.data.name()?;
        if self.data.at == end {
            Ok(name)
        } else {
            Err(Bad::Malformed)
        }
    }

    /// The address that is its data.
    fn address(mut self) -> Result<IpAddr, Bad> {
        let bytes = self.data.bytes(self.length)?;
        if let Ok(octets) = <[u8; 4]>::try_from(bytes) {
            return Ok(Ipv4Addr::from(octets).into());
        }
        match <[u8; 16]>::try_from(bytes) {
            Ok(octets) => Ok(Ipv6Addr::from(octets).into()),
            Err(_) => Err(Bad::Malformed),
        }
    }

    /// For how long its absence may be remembered (RFC 2308, 5), if it is a zone's start.
    fn negative(mut self) -> Result<u32, Bad> {
        let end = self.data.at + self.length;
        self.data.name()?;
        self.data.name()?;
        self.data.bytes(16)?;
        let minimum = self.data.word()?;
        if self.data.at == end {
            Ok(minimum.min(self.ttl))
        } else {
            Err(Bad::Malformed)
        }
    }
}

/// Read the answer to a question.
///
/// # Errors
///
/// It is malformed anywhere, or not the answer to this question.
pub(super) fn answer(message: &[u8], id: u16, name: &Name, want: Want) -> Result<Answer, Bad> {
    let mut reader = Reader { message, at: 0 };
    let (its, flags) = (reader.half()?, reader.half()?);
    let [questions, answers, authorities, others] = [
        reader.half()?,
        reader.half()?,
        reader.half()?,
        reader.half()?,
    ];
    // A response to a standard query, with the same question.
    if its != id || flags & 0xf800 != 0x8000 || questions != 1 {
        return Err(Bad::NotOurs);
    }
    let asked = reader.name()?;
    if (asked, reader.half()?, reader.half()?) != (*name, want.kind(), INTERNET) {
        return Err(Bad::NotOurs);
    }
    let records = reader;
    // All of it has to be well-formed, whatever is needed of it.
    for _ in 0..answers {
        check(reader.record()?, want)?;
    }
    let mut negative = None;
    for _ in 0..authorities {
        let record = reader.record()?;
        if (record.kind, record.class) == (SOA, INTERNET) {
            negative = Some(record.negative()?);
        }
    }
    for _ in 0..others {
        reader.record()?;
    }
    let code = (flags & 15) as u8;
    match code {
        _ if flags & 0x0200 != 0 => Ok(Answer::Truncated),
        0 => follow(records, answers, name, want, negative),
        3 => Ok(Answer::NoName(negative)),
        _ => Ok(Answer::Failed(code)),
    }
}

/// Whether a record's data is what its type says, if it matters.
fn check(record: Record<'_>, want: Want) -> Result<(), Bad> {
    let size = match want {
        Want::V4 => 4,
        Want::V6 => 16,
    };
    match record.kind {
        CNAME => record.target().map(drop),
        kind if kind == want.kind() && record.length != size => Err(Bad::Malformed),
        _ => Ok(()),
    }
}

/// Go from the name that was asked for, alias by alias, to addresses.
fn follow(
    records: Reader<'_>,
    count: u16,
    name: &Name,
    want: Want,
    negative: Option<u32>,
) -> Result<Answer, Bad> {
    let mut at = *name;
    let mut ttl = u32::MAX;
    for _ in 0..ALIASES {
        let mut addresses = Vec::new();
        let mut alias = None;
        let mut reader = records;
        for _ in 0..count {
            let record = reader.record()?;
            if record.name != at || record.class != INTERNET {
                continue;
            }
            if record.kind == want.kind() && addresses.len() < ADDRESSES {
                ttl = ttl.min(record.ttl);
                addresses.push(record.address()?);
            } else if record.kind == CNAME && alias.is_none() {
                alias = Some((record.ttl, record.target()?));
            }
        }
        match alias {
            _ if !addresses.is_empty() => return Ok(Answer::Addresses(addresses, ttl)),
            Some((its, target)) => {
                ttl = ttl.min(its);
                at = target;
            }
            None if at == *name => return Ok(Answer::NoData(negative)),
            // A start of authority says that the alias leads to a name without such addresses.
            None if negative.is_some() => return Ok(Answer::NoData(negative)),
            None => return Ok(Answer::Alias(Box::new(at), ttl)),
        }
    }
    Ok(Answer::AliasLoop)
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
