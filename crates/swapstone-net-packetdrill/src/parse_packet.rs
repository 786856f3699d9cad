// SPDX-License-Identifier: MIT OR Apache-2.0
//! The packets of a script.

use crate::icmp_names;
use crate::scan::{Parsed, Scanner};
use crate::script::{Body, Icmp, Packet, Tcp, TcpOption, Version};

/// The letters of the flags, from FIN.
pub const FLAGS: &str = "FSRP.UEW";
/// The most SACK blocks in 40 bytes of options.
const MOST_BLOCKS: usize = 4;
/// The largest payload in bytes: an IPv4 packet has 65535, with its header and one of TCP with options.
const LARGEST: u64 = 65535 - 20 - 60;

/// Parses a packet after `<` or `>`.
pub fn packet(scan: &mut Scanner<'_>, version: Version, inject: bool) -> Parsed<Packet> {
    let ecn = ecn(scan)?;
    if scan.keyword("icmp")? {
        let icmp = icmp(scan, version)?;
        return Ok(Packet {
            ecn,
            body: Body::Icmp(icmp),
        });
    }
    if scan.keyword("udp")? {
        scan.expect("(")?;
        let length = scan.number("the length of a datagram", LARGEST)?;
        scan.expect(")")?;
        let length = u16::try_from(length).expect("it was checked");
        return Ok(Packet {
            ecn,
            body: Body::Udp(length),
        });
    }
    if scan.peek()?.is_some_and(|each| each.is_ascii_digit()) {
        return scan.error("ports are not supported: a packet begins with its flags, icmp or udp");
    }
    for word in ["ipv4", "ipv6", "gre", "GREv0", "mpls"] {
        if scan.keyword(word)? {
            return scan.error(format!(
                "encapsulation ({word}) is not supported by this runner"
            ));
        }
    }
    let tcp = tcp(scan, inject)?;
    if scan.peek()? == Some('{') {
        return scan.error("changed bytes ({mut ...}, {trun ...}, {ins ...}) are not supported");
    }
    Ok(Packet {
        ecn,
        body: Body::Tcp(tcp),
    })
}

fn ecn(scan: &mut Scanner<'_>) -> Parsed<Option<u8>> {
    let end = match scan.peek()? {
        Some('[') => "]",
        Some('(') => ")",
        _ => return Ok(None),
    };
    scan.word(|each| each == '[' || each == '(')?;
    let word = scan.name()?.unwrap_or("");
    let bits = match word {
        "noecn" => 0,
        "ect1" => 1,
        "ect0" => 2,
        "ce" => 3,
        _ => {
            return scan.error(format!(
                "expected noecn, ect0, ect1 or ce, found {word:?}; other fields of IP are not supported"
            ));
        }
    };
    scan.expect(end)?;
    Ok(Some(bits))
}

fn flags(scan: &mut Scanner<'_>) -> Parsed<u8> {
    let word = scan.word(|each| !each.is_whitespace())?;
    if word == "-" {
        return Ok(0);
    }
    let mut flags = 0u8;
    for letter in word.chars() {
        let Some(bit) = FLAGS.find(letter) else {
            return scan.error(format!(
                "{:?} are no TCP flags: expected some of {FLAGS}, or -",
                word.chars().take(20).collect::<String>()
            ));
        };
        flags |= 1 << bit;
    }
    if word.is_empty() {
        return scan.error("expected the flags of a TCP segment, icmp or udp");
    }
    Ok(flags)
}

fn tcp(scan: &mut Scanner<'_>, inject: bool) -> Parsed<Tcp> {
    let flags = flags(scan)?;
    let place = scan.place();
    let seq = scan.whole("a sequence number")?;
    scan.expect(":")?;
    let end = scan.whole("a sequence number")?;
    scan.expect("(")?;
    let length = scan.number("the length of a segment", LARGEST)?;
    scan.expect(")")?;
    let length = u16::try_from(length).expect("it was checked");
    if end != seq.wrapping_add(length.into()) {
        let range = end.wrapping_sub(seq);
        let text = format!("the range {seq}:{end} has {range} bytes, and the length is {length}");
        return scan.error_at(place, text);
    }
    let ack = match scan.keyword("ack")? {
        true => Some(scan.whole("an acknowledgement number")?),
        false => None,
    };
    let window = match scan.keyword("win")? {
        true => Some(scan.half("a window")?),
        false if inject => {
            return scan.error_at(place, "a segment that arrives needs a window: win N");
        }
        false => None,
    };
    let urgent = match scan.keyword("urg")? {
        true => Some(scan.half("an urgent pointer")?),
        false => None,
    };
    let options = options(scan)?;
    if inject && options.is_none() {
        return scan.error_at(place, "<...> is for segments that the stack sends");
    }
    Ok(Tcp {
        flags,
        seq,
        length,
        ack,
        window,
        urgent,
        options,
    })
}

fn options(scan: &mut Scanner<'_>) -> Parsed<Option<Vec<TcpOption>>> {
    let mut options = Vec::new();
    // A `<` after a time begins the next event, so this one belongs to the segment.
    if !scan.take("<")? {
        return Ok(Some(options));
    }
    if scan.take("...")? {
        scan.expect(">")?;
        return Ok(None);
    }
    if scan.take(">")? {
        return Ok(Some(options));
    }
    loop {
        options.push(option(scan)?);
        if scan.take(">")? {
            break;
        }
        scan.expect(",")?;
    }
    let size: usize = options.iter().map(crate::wire::option_size).sum();
    if size > 40 {
        return scan.error(format!(
            "the options have {size} bytes; TCP has room for 40"
        ));
    }
    Ok(Some(options))
}

fn option(scan: &mut Scanner<'_>) -> Parsed<TcpOption> {
    let word = scan.name()?.unwrap_or("");
    Ok(match word {
        "eol" => TcpOption::Eol,
        "nop" => TcpOption::Nop,
        "mss" => TcpOption::Mss(scan.half("an MSS")?),
        "wscale" => {
            let shift = scan.number("a window scale", u8::MAX.into())?;
            TcpOption::WindowScale(u8::try_from(shift).expect("it was checked"))
        }
        "sackOK" => TcpOption::SackPermitted,
        "sack" => {
            let mut blocks = Vec::new();
            while scan.peek()?.is_some_and(|each| each.is_ascii_digit()) {
                let left = scan.whole("a sequence number")?;
                scan.expect(":")?;
                blocks.push((left, scan.whole("a sequence number")?));
            }
            if blocks.is_empty() || blocks.len() > MOST_BLOCKS {
                return scan.error(format!("sack has 1 to {MOST_BLOCKS} blocks LEFT:RIGHT"));
            }
            TcpOption::Sack(blocks)
        }
        "TS" => {
            scan.expect("val")?;
            let value = scan.whole("a timestamp")?;
            scan.expect("ecr")?;
            TcpOption::Timestamp(value, scan.whole("a timestamp")?)
        }
        "FO" => TcpOption::Other(34, hexadecimal(scan, 38)?),
        "FOEXP" => {
            let magic = vec![0xf9, 0x89];
            TcpOption::Other(254, [magic, hexadecimal(scan, 36)?].concat())
        }
        "md5" => TcpOption::Other(19, hexadecimal(scan, 16)?),
        _ => {
            let found = if word.is_empty() {
                scan.found()
            } else {
                format!("{word:?}")
            };
            return scan.error(format!(
                "expected mss, wscale, sackOK, sack, TS, FO, FOEXP, md5, nop or eol, found {found}"
            ));
        }
    })
}

/// Takes at most `most` bytes in hexadecimal digits; they may be missing.
fn hexadecimal(scan: &mut Scanner<'_>, most: usize) -> Parsed<Vec<u8>> {
    let digits = scan.word(|each| each.is_ascii_hexdigit())?;
    if digits.len() % 2 != 0 || digits.len() > 2 * most {
        return scan.error(format!(
            "expected at most {most} bytes as hexadecimal digits"
        ));
    }
    let pairs = (0..digits.len()).step_by(2);
    let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
    Ok(pairs.map(byte).collect())
}

fn icmp(scan: &mut Scanner<'_>, version: Version) -> Parsed<Icmp> {
    let Some(kind) = scan.name()? else {
        return scan.error("expected the type of an ICMP message");
    };
    let Some(kind_number) = icmp_names::kind(version, kind) else {
        return scan.error(format!("no type of ICMP has the name {kind:?}"));
    };
    let mut icmp = Icmp {
        kind: kind_number,
        code: 0,
        mtu: None,
        id: None,
        quoted: None,
    };
    loop {
        if scan.keyword("mtu")? {
            icmp.mtu = Some(scan.whole("an MTU")?);
        } else if scan.keyword("id")? {
            icmp.id = Some(scan.half("an identifier")?);
        } else if scan.take("[")? {
            if scan.keyword("udp")? {
                scan.expect("(")?;
                let length = scan.number("the length of a datagram", LARGEST)?;
                scan.expect(")")?;
                scan.expect("]")?;
                let length = u32::try_from(length).expect("it was checked");
                icmp.quoted = Some((0, length));
                continue;
            }
            let left = scan.whole("a sequence number")?;
            scan.expect(":")?;
            let right = scan.whole("a sequence number")?;
            scan.expect("(")?;
            let length = scan.whole("the length of a segment")?;
            scan.expect(")")?;
            scan.expect("]")?;
            if right != left.wrapping_add(length) {
                return scan.error(format!("{left}:{right} and ({length}) don't agree"));
            }
            icmp.quoted = Some((left, length));
        } else if scan.peek()?.is_some_and(|each| each.is_ascii_alphabetic()) {
            let word = scan.name()?.unwrap_or("");
            match icmp_names::code(version, kind_number, word) {
                Some(code) => icmp.code = code,
                None => return scan.error(format!("{kind} has no code {word:?}")),
            }
        } else {
            return Ok(icmp);
        }
    }
}
