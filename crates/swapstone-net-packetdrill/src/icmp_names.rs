// SPDX-License-Identifier: MIT OR Apache-2.0
//! The names of ICMP types and codes (RFC 792, RFC 1122, RFC 1812, RFC 4443).

use crate::script::Version;

const KINDS_V4: &[(&str, u8)] = &[
    ("echo_reply", 0),
    ("unreachable", 3),
    ("source_quench", 4),
    ("redirect", 5),
    ("echo_request", 8),
    ("time_exceeded", 11),
    ("parameter_problem", 12),
];
const KINDS_V6: &[(&str, u8)] = &[
    ("unreachable", 1),
    ("packet_too_big", 2),
    ("time_exceeded", 3),
    ("parameter_problem", 4),
    ("echo_request", 128),
    ("echo_reply", 129),
];
/// Codes of destination unreachable.
const UNREACHABLE_V4: &[(&str, u8)] = &[
    ("net_unreachable", 0),
    ("host_unreachable", 1),
    ("protocol_unreachable", 2),
    ("port_unreachable", 3),
    ("frag_needed", 4),
    ("source_route_failed", 5),
    ("net_unknown", 6),
    ("host_unknown", 7),
    ("source_host_isolated", 8),
    ("net_prohibited", 9),
    ("host_prohibited", 10),
    ("net_unreachable_for_tos", 11),
    ("host_unreachable_for_tos", 12),
    ("packet_filtered", 13),
    ("precedence_violation", 14),
    ("precedence_cutoff", 15),
];
const UNREACHABLE_V6: &[(&str, u8)] = &[
    ("no_route", 0),
    ("admin_prohibited", 1),
    ("not_neighbour", 2),
    ("address_unreachable", 3),
    ("port_unreachable", 4),
];

fn find(table: &[(&str, u8)], prefix: &str, name: &str) -> Option<u8> {
    if let Some(number) = name.strip_prefix(prefix) {
        return number.parse().ok();
    }
    let found = table.iter().find(|(each, _)| *each == name);
    found.map(|(_, number)| *number)
}

/// Returns the number of a type: a name, or `type_` and a number.
pub fn kind(version: Version, name: &str) -> Option<u8> {
    let table = match version {
        Version::V4 => KINDS_V4,
        Version::V6 => KINDS_V6,
    };
    find(table, "type_", name)
}

/// Returns the number of a code of a type: a name, or `code_` and a number.
pub fn code(version: Version, kind: u8, name: &str) -> Option<u8> {
    let table = match (version, kind) {
        (Version::V4, 3) => UNREACHABLE_V4,
        (Version::V6, 1) => UNREACHABLE_V6,
        _ => &[],
    };
    find(table, "code_", name)
}
