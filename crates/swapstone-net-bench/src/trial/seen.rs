// SPDX-License-Identifier: MIT OR Apache-2.0
//! Observations of the measured process from outside: its open device and its sockets.

use std::collections::HashSet;
use std::error::Error;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde_json::Value;

use super::figures::Fact;

/// The kernel's sockets that show a process to use the kernel's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sockets {
    /// Those of a server, by their own ports.
    Listening,
    /// Those of a client that are connected, by the ports of their peers.
    Connected,
}

/// Observes a process: its open TAP, and the kernel's sockets that it holds.
///
/// # Errors
///
/// It can't be observed, for example because it has ended.
pub fn of(process: u32, which: Sockets) -> Result<Vec<Fact>, Box<dyn Error>> {
    let folder = format!("/proc/{process}");
    let failed = |error| format!("the measured process can't be observed: {error}");
    let (mut taps, mut sockets) = (Vec::new(), HashSet::new());
    for entry in fs::read_dir(Path::new(&folder).join("fd")).map_err(failed)? {
        let entry = entry?;
        let target = match fs::read_link(entry.path()) {
            Ok(target) => target,
            // Closed since, as connections are; the TAP and listening sockets stay open.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(failed(error).into()),
        };
        let target = target.to_string_lossy();
        if target == "/dev/net/tun" {
            let number = entry.file_name();
            let info = fs::read_to_string(Path::new(&folder).join("fdinfo").join(number))?;
            taps.push(interface(&info).unwrap_or("unnamed").to_owned());
        } else if let Some(inode) = number_in(&target) {
            sockets.insert(inode);
        }
    }
    let mut found = Vec::new();
    for (table, state) in which.states() {
        let text = fs::read_to_string(format!("{folder}/net/{table}")).unwrap_or_default();
        let ports = ports(&text, state, which, &sockets);
        found.extend(ports.into_iter().map(|port| format!("{table}:{port}")));
    }
    Ok(vec![
        ("tap".into(), or_none(taps)),
        ("kernel_sockets".into(), or_none(found)),
    ])
}

impl Sockets {
    /// Returns pairs of a table in /proc/net and a state. TCP listens in state 0A and is connected
    /// in 01; an unconnected UDP socket has state 07 (net/tcp_states.h).
    fn states(self) -> [(&'static str, &'static str); 4] {
        match self {
            Self::Listening => [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")],
            Self::Connected => [("tcp", "01"), ("tcp6", "01"), ("udp", "01"), ("udp6", "01")],
        }
    }

    /// Returns the column of the address.
    const fn column(self) -> usize {
        match self {
            Self::Listening => 1,
            Self::Connected => 2,
        }
    }
}

/// The name and version that the stack of the measured process reports.
pub fn named(measured: &Value) -> String {
    let of = |field| {
        measured["capabilities"][field]
            .as_str()
            .unwrap_or("unnamed")
            .replace(char::is_whitespace, "_")
    };
    format!("{} {}", of("name"), of("version"))
}

fn or_none(mut found: Vec<String>) -> String {
    found.sort();
    found.dedup(); // a file may be open twice
    if found.is_empty() {
        "none".into()
    } else {
        found.join(",")
    }
}

fn interface(info: &str) -> Option<&str> {
    info.lines()
        .find_map(|line| line.strip_prefix("iff:"))
        .map(str::trim)
        .filter(|name| !name.is_empty())
}

/// Returns the number of `socket:[NUMBER]`.
fn number_in(target: &str) -> Option<u64> {
    let number = target.strip_prefix("socket:[")?.strip_suffix(']')?;
    number.parse().ok()
}

/// Returns the ports of those rows of a table in /proc/net that have this state and one of these
/// sockets.
fn ports(table: &str, state: &str, which: Sockets, sockets: &HashSet<u64>) -> Vec<u16> {
    let row = |line: &str| -> Option<u16> {
        let words: Vec<&str> = line.split_whitespace().collect();
        let inode: u64 = words.get(9)?.parse().ok()?;
        if words.get(3) != Some(&state) || !sockets.contains(&inode) {
            return None;
        }
        u16::from_str_radix(words.get(which.column())?.rsplit_once(':')?.1, 16).ok()
    };
    table.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:0050 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4711 1 0000000000000000 100 0 0 10 0
   1: 00000000:0051 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4712 1 0000000000000000 100 0 0 10 0
   2: 0200090A:0050 0100090A:A000 01 00000000:00000000 00:00000000 00000000     0        0 4713 1 0000000000000000 100 0 0 10 0
";

    #[test]
    fn only_a_listening_socket_of_the_process_counts() {
        let of = |state, inodes: &[u64]| {
            ports(
                TABLE,
                state,
                Sockets::Listening,
                &inodes.iter().copied().collect(),
            )
        };
        assert_eq!(of("0A", &[4711, 4713]), [80]);
        assert_eq!(of("0A", &[4713]), [] as [u16; 0]);
        assert_eq!(of("01", &[4713]), [80]);
        assert_eq!(of("0A", &[]), [] as [u16; 0]);
    }

    #[test]
    fn a_connected_socket_is_named_by_the_port_of_its_peer() {
        let inodes = [4711, 4713].into_iter().collect();
        let found = ports(TABLE, "01", Sockets::Connected, &inodes);
        assert_eq!(found, [0xa000]);
    }

    #[test]
    fn this_process_is_seen() {
        let _taps = crate::trial::tests::TAPS.lock();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = of(std::process::id(), Sockets::Listening).unwrap();
        assert_eq!(seen[0], ("tap".to_owned(), "none".to_owned()));
        let listed: Vec<&str> = seen[1].1.split(',').collect();
        assert!(listed.contains(&format!("tcp:{port}").as_str()), "{seen:?}");
        assert!(of(u32::MAX, Sockets::Listening).is_err());
        let peer = std::net::TcpStream::connect(("127.0.0.1", port)).unwrap();
        let seen = of(std::process::id(), Sockets::Connected).unwrap();
        assert!(
            seen[1]
                .1
                .split(',')
                .any(|text| text == format!("tcp:{port}")),
            "{seen:?} {peer:?}"
        );
    }

    #[test]
    fn a_tap_is_named_by_its_interface() {
        assert_eq!(interface("pos:\t0\nflags:\t02\niff:\ttap0\n"), Some("tap0"));
        assert_eq!(interface("pos:\t0\niff:\n"), None);
        assert_eq!(number_in("socket:[123]"), Some(123));
        assert_eq!(number_in("pipe:[123]"), None);
    }
}
