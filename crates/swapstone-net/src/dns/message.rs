// SPDX-License-Identifier: MIT OR Apache-2.0
//! DNS messages (RFC 1035): encoding of queries and decoding of responses. Every length and
//! compression pointer is checked.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The record type to query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RecordType {
    /// IPv4 addresses.
    A,
    /// IPv6 addresses.
    Aaaa,
}

impl RecordType {
    const fn code(self) -> u16 {
        match self {
            Self::A => 1,
            Self::Aaaa => 28,
        }
    }
}

const CNAME: u16 = 5;
const SOA: u16 = 6;
const INTERNET: u16 = 1;
/// The length of a message header in bytes.
const HEADER: usize = 12;
/// The maximum length of an encoded name in bytes.
const LONGEST: usize = 255;
/// How many CNAME records of one response are followed.
const MAX_CNAMES: usize = 16;
/// How many addresses of one response are used.
const MAX_ADDRESSES: usize = 32;

/// A domain name in wire format and lower case: labels with their lengths, ending with the root.
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

    /// Encodes a name such as `www.example.org`, with or without a trailing dot; `None` if it is
    /// invalid.
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

    /// Appends a label; `None` if the label or the name is too long.
    fn push(&mut self, label: &[u8]) -> Option<()> {
        let size = u8::try_from(label.len()).ok().filter(|size| *size <= 63)?;
        let at = usize::from(self.length);
        // One byte stays free for the root.
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

    /// Appends the root label.
    fn end(mut self) -> Option<Self> {
        *self.bytes.get_mut(usize::from(self.length))? = 0;
        self.length += 1;
        Some(self)
    }
}

/// Why a message is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bad {
    /// It is not a response to this query.
    NotOurs,
    /// It is truncated or inconsistent.
    Malformed,
}

/// A decoded response. TTLs are in seconds; a negative response has one if it may be cached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Response {
    /// Addresses and their TTL.
    Addresses(Vec<IpAddr>, u32),
    /// The target of a CNAME record without address records, and its TTL.
    Cname(Box<Name>, u32),
    /// NXDOMAIN.
    NxDomain(Option<u32>),
    /// The name has no record of this type (NODATA).
    NoData(Option<u32>),
    /// The TC bit is set.
    Truncated,
    /// Any other RCODE.
    ServerError(u8),
    /// The CNAME records are a loop or too many.
    CnameLoop,
}

/// Encodes a query.
pub(super) fn request(id: u16, name: &Name, record_type: RecordType) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + name.wire().len() + 4);
    bytes.extend(id.to_be_bytes());
    // Recursion desired; one question.
    bytes.extend([1, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
    bytes.extend(name.wire());
    bytes.extend(record_type.code().to_be_bytes());
    bytes.extend(INTERNET.to_be_bytes());
    bytes
}

/// A cursor into a message.
#[derive(Clone, Copy)]
struct Reader<'a> {
    message: &'a [u8],
    at: usize,
}

/// A resource record.
struct Record<'a> {
    name: Name,
    kind: u16,
    class: u16,
    ttl: u32,
    /// A reader at RDATA, which may hold compression pointers into the message.
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

    /// Reads a name with optional compression (RFC 1035, 4.1.4).
    ///
    /// A pointer must refer to a position before the labels that it ends, so loops are impossible.
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
    /// Decodes RDATA as one name.
    fn target(mut self) -> Result<Name, Bad> {
        let end = self.data.at + self.length;
        let name = self.data.name()?;
        if self.data.at == end {
            Ok(name)
        } else {
            Err(Bad::Malformed)
        }
    }

    /// Decodes RDATA as an address.
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

    /// Decodes the negative TTL of a SOA record (RFC 2308, section 5).
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

/// Decodes the response to a query.
///
/// # Errors
///
/// The message is malformed, or it is not a response to this query.
pub(super) fn response(
    message: &[u8],
    id: u16,
    name: &Name,
    record_type: RecordType,
) -> Result<Response, Bad> {
    let mut reader = Reader { message, at: 0 };
    let (its, flags) = (reader.half()?, reader.half()?);
    let [questions, answers, authorities, others] = [
        reader.half()?,
        reader.half()?,
        reader.half()?,
        reader.half()?,
    ];
    // QR = 1, OPCODE = 0, one question.
    if its != id || flags & 0xf800 != 0x8000 || questions != 1 {
        return Err(Bad::NotOurs);
    }
    let queried = reader.name()?;
    if (queried, reader.half()?, reader.half()?) != (*name, record_type.code(), INTERNET) {
        return Err(Bad::NotOurs);
    }
    let records = reader;
    // Every record must be well-formed, including those that are not used.
    for _ in 0..answers {
        check(reader.record()?, record_type)?;
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
        _ if flags & 0x0200 != 0 => Ok(Response::Truncated),
        0 => follow(records, answers, name, record_type, negative),
        3 => Ok(Response::NxDomain(negative)),
        _ => Ok(Response::ServerError(code)),
    }
}

/// Checks that RDATA is valid for the record types that are used.
fn check(record: Record<'_>, record_type: RecordType) -> Result<(), Bad> {
    let size = match record_type {
        RecordType::A => 4,
        RecordType::Aaaa => 16,
    };
    match record.kind {
        CNAME => record.target().map(drop),
        kind if kind == record_type.code() && record.length != size => Err(Bad::Malformed),
        _ => Ok(()),
    }
}

/// Follows CNAME records from the queried name to addresses.
fn follow(
    records: Reader<'_>,
    count: u16,
    name: &Name,
    record_type: RecordType,
    negative: Option<u32>,
) -> Result<Response, Bad> {
    let mut at = *name;
    let mut ttl = u32::MAX;
    for _ in 0..MAX_CNAMES {
        let mut addresses = Vec::new();
        let mut cname = None;
        let mut reader = records;
        for _ in 0..count {
            let record = reader.record()?;
            if record.name != at || record.class != INTERNET {
                continue;
            }
            if record.kind == record_type.code() && addresses.len() < MAX_ADDRESSES {
                ttl = ttl.min(record.ttl);
                addresses.push(record.address()?);
            } else if record.kind == CNAME && cname.is_none() {
                cname = Some((record.ttl, record.target()?));
            }
        }
        match cname {
            _ if !addresses.is_empty() => return Ok(Response::Addresses(addresses, ttl)),
            Some((its, target)) => {
                ttl = ttl.min(its);
                at = target;
            }
            None if at == *name => return Ok(Response::NoData(negative)),
            // A SOA record means that the CNAME target has no address of this type.
            None if negative.is_some() => return Ok(Response::NoData(negative)),
            None => return Ok(Response::Cname(Box::new(at), ttl)),
        }
    }
    Ok(Response::CnameLoop)
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
