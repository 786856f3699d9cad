// SPDX-License-Identifier: MIT OR Apache-2.0
//! Packets in the notation of scripts, for messages.

use std::fmt::Write;

use crate::parse_packet::FLAGS;
use crate::script::{Body, Icmp, Packet, Tcp, TcpOption};

/// Returns a packet in the notation of scripts.
pub fn packet(packet: &Packet) -> String {
    let ecn = match packet.ecn {
        None => "",
        Some(0) => "[noecn] ",
        Some(1) => "[ect1] ",
        Some(2) => "[ect0] ",
        Some(_) => "[ce] ",
    };
    let body = match &packet.body {
        Body::Tcp(tcp) => segment(tcp),
        Body::Udp(length) => format!("udp ({length})"),
        Body::Icmp(icmp) => message(icmp),
    };
    format!("{ecn}{body}")
}

fn segment(tcp: &Tcp) -> String {
    let mut text: String = FLAGS
        .chars()
        .enumerate()
        .filter(|(bit, _)| tcp.flags & (1 << bit) != 0)
        .map(|(_, letter)| letter)
        .collect();
    if text.is_empty() {
        text.push('-');
    }
    let end = tcp.seq.wrapping_add(tcp.length.into());
    let _ = write!(text, " {}:{end}({})", tcp.seq, tcp.length);
    if let Some(ack) = tcp.ack {
        let _ = write!(text, " ack {ack}");
    }
    if let Some(window) = tcp.window {
        let _ = write!(text, " win {window}");
    }
    if let Some(urgent) = tcp.urgent {
        let _ = write!(text, " urg {urgent}");
    }
    match &tcp.options {
        None => text.push_str(" <...>"),
        Some(options) if !options.is_empty() => {
            let all: Vec<_> = options.iter().map(option).collect();
            let _ = write!(text, " <{}>", all.join(","));
        }
        Some(_) => {}
    }
    text
}

fn option(option: &TcpOption) -> String {
    match option {
        TcpOption::Eol => "eol".into(),
        TcpOption::Nop => "nop".into(),
        TcpOption::Mss(mss) => format!("mss {mss}"),
        TcpOption::WindowScale(shift) => format!("wscale {shift}"),
        TcpOption::SackPermitted => "sackOK".into(),
        TcpOption::Sack(blocks) => {
            let edges = blocks
                .iter()
                .map(|(left, right)| format!(" {left}:{right}"));
            format!("sack{}", edges.collect::<String>())
        }
        TcpOption::Timestamp(value, echo) => format!("TS val {value} ecr {echo}"),
        TcpOption::Other(kind, bytes) => {
            let (name, bytes) = match (kind, &bytes[..]) {
                (34, cookie) => ("FO".into(), cookie),
                (254, [0xf9, 0x89, cookie @ ..]) => ("FOEXP".into(), cookie),
                (19, digest) => ("md5".into(), digest),
                (kind, content) => (format!("option-{kind}"), content),
            };
            let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{name} {digits}").trim_end().into()
        }
    }
}

fn message(icmp: &Icmp) -> String {
    let mut text = format!("icmp type_{} code_{}", icmp.kind, icmp.code);
    if let Some(mtu) = icmp.mtu {
        let _ = write!(text, " mtu {mtu}");
    }
    if let Some((seq, length)) = icmp.quoted {
        let _ = write!(text, " [{seq}:{}({length})]", seq.wrapping_add(length));
    }
    text
}
