// SPDX-License-Identifier: MIT OR Apache-2.0
//! The works: pairs of a server and a client, with a fixed amount.

use serde_json::Value;

/// The client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Client {
    /// This program over the kernel's sockets, with a role and arguments.
    Own(&'static [&'static str]),
    /// ab with arguments before the URL.
    Ab(&'static [&'static str]),
}

/// How output is converted to figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Requests,
    Ab,
    BulkIn,
    BulkOut,
    /// As many bytes as the receiver reads within a fixed time, from before the connection.
    TimedIn,
    TimedOut,
    Datagrams,
    /// Copies and allocations of the server.
    Counts,
    /// Copies and allocations of the client.
    ClientCounts,
}

/// A server, a client and the fixed amount of work. One of the two is measured, and is over the stack
/// under test; the other is over the kernel's.
#[derive(Debug)]
pub struct Work {
    pub name: &'static str,
    pub server: &'static [&'static str],
    pub client: Client,
    /// Requests, bytes, datagrams; or seconds where the time is fixed.
    pub amount: u64,
    /// How its output is converted.
    pub kind: Kind,
}

impl Work {
    /// Returns whether the client is measured, and not the server.
    pub fn measures_client(&self) -> bool {
        self.kind == Kind::ClientCounts
    }

    /// Returns the arguments of the measured process.
    pub fn measured(&self) -> &'static [&'static str] {
        let (Client::Own(client) | Client::Ab(client)) = self.client;
        if self.measures_client() {
            client
        } else {
            self.server
        }
    }

    /// Returns whether its server is a machine without an operating system.
    pub fn is_bare(&self) -> bool {
        self.server == BARE
    }
}

impl Client {
    /// Returns the arguments with another number of connections at once; `None` for a client that
    /// has one connection.
    pub fn arguments_with(&self, clients: usize) -> Option<Vec<String>> {
        let (Self::Own(arguments) | Self::Ab(arguments)) = self;
        let at = arguments.iter().position(|argument| *argument == "-c")? + 1;
        let mut arguments: Vec<String> =
            arguments.iter().map(|&argument| argument.into()).collect();
        *arguments.get_mut(at)? = clients.to_string();
        Some(arguments)
    }

    /// Returns the number of connections at once that a client reports; `None` if it reports none.
    pub fn reported_clients(&self, text: &str) -> Option<u64> {
        match self {
            Self::Own(_) => {
                let last: Value = serde_json::from_str(text.lines().next_back()?).ok()?;
                last["most_open"].as_u64()
            }
            Self::Ab(_) => {
                let prefix = "Concurrency Level:";
                let line = text.lines().find(|line| line.starts_with(prefix))?;
                line[prefix.len()..].trim().parse().ok()
            }
        }
    }
}

pub const WORKS: [Work; 22] = [
    Work {
        name: "http-keepalive",
        server: &["http"],
        client: Client::Own(&["http-client", "-c", "100", "-n", "40000"]),
        amount: 40_000,
        kind: Kind::Requests,
    },
    Work {
        name: "http-churn",
        server: &["http"],
        client: Client::Own(&churn("10000")),
        amount: 10_000,
        kind: Kind::Requests,
    },
    Work {
        name: "ab",
        server: &["http"],
        client: Client::Ab(&["-q", "-s", "20", "-c", "100", "-n", "10000", "-e", CSV]),
        amount: 10_000,
        kind: Kind::Ab,
    },
    Work {
        name: "bulk-in",
        server: BULK_IN,
        client: Client::Own(&["source", "--bytes", "500000000"]),
        amount: 500_000_000,
        kind: Kind::BulkIn,
    },
    Work {
        name: "bulk-out",
        server: &bulk_out("500000000"),
        client: Client::Own(&["sink"]),
        amount: 500_000_000,
        kind: Kind::BulkOut,
    },
    Work {
        name: "udp-in",
        server: &["udp-sink"],
        client: Client::Own(&["udp-blast", "-n", "200000"]),
        amount: 200_000,
        kind: Kind::Datagrams,
    },
    Work {
        name: "round-trip",
        server: &["echo"],
        client: Client::Own(&["ping", "-n", "20000"]),
        amount: 20_000,
        kind: Kind::Requests,
    },
    Work {
        name: "counts-plain",
        server: &[
            "--receive",
            "copy",
            "--send",
            "copy",
            "--no-offload",
            "http",
        ],
        client: Client::Own(ONE_BY_ONE),
        amount: 2_000,
        kind: Kind::Counts,
    },
    Work {
        name: "counts-tuned",
        server: &["http"],
        client: Client::Own(ONE_BY_ONE),
        amount: 2_000,
        kind: Kind::Counts,
    },
    Work {
        name: "counts-client-plain",
        server: &["http"],
        client: Client::Own(&[
            "--receive",
            "copy",
            "--send",
            "copy",
            "--no-offload",
            "http-client",
            "--close",
            "server",
            "-c",
            "1",
            "-n",
            "2000",
        ]),
        amount: 2_000,
        kind: Kind::ClientCounts,
    },
    Work {
        name: "counts-client-tuned",
        server: &["http"],
        client: Client::Own(ONE_BY_ONE),
        amount: 2_000,
        kind: Kind::ClientCounts,
    },
    Work {
        name: "fixes-churn",
        server: &["http"],
        client: Client::Own(&churn("5000")),
        amount: 5_000,
        kind: Kind::Requests,
    },
    Work {
        name: "fixes-bulk-in",
        server: BULK_IN,
        client: Client::Own(&["source", "--bytes", "200000000"]),
        amount: 200_000_000,
        kind: Kind::BulkIn,
    },
    Work {
        name: "fixes-bulk-out",
        server: &bulk_out("200000000"),
        client: Client::Own(&["sink"]),
        amount: 200_000_000,
        kind: Kind::BulkOut,
    },
    Work {
        name: "fixes-round-trip",
        server: &["echo"],
        client: Client::Own(&["ping", "-n", "5000"]),
        amount: 5_000,
        kind: Kind::Requests,
    },
    Work {
        name: "clients-keepalive",
        server: MANY,
        client: Client::Own(&["http-client", "-c", "100", "-n", "20000"]),
        amount: 20_000,
        kind: Kind::Requests,
    },
    Work {
        name: "clients-churn",
        server: MANY,
        client: Client::Own(&churn("5000")),
        amount: 5_000,
        kind: Kind::Requests,
    },
    Work {
        name: "link-out",
        server: &[
            "--send-buffer",
            BUFFER,
            "--receive-buffer",
            BUFFER,
            "source",
        ],
        client: Client::Own(&["sink", "--seconds", "2"]),
        amount: 2,
        kind: Kind::TimedOut,
    },
    Work {
        name: "link-in",
        server: &["--send-buffer", BUFFER, "--receive-buffer", BUFFER, "sink"],
        client: Client::Own(&["source", "--abandon", "--seconds", "2"]),
        amount: 2,
        kind: Kind::TimedIn,
    },
    Work {
        name: "bare-keepalive",
        server: BARE,
        client: Client::Own(&["http-client", "-c", "50", "-n", "5000"]),
        amount: 5_000,
        kind: Kind::Requests,
    },
    Work {
        name: "bare-churn",
        server: BARE,
        client: Client::Own(&["http-client", "--close", "server", "-c", "50", "-n", "2000"]),
        amount: 2_000,
        kind: Kind::Requests,
    },
    Work {
        name: "bare-ab",
        server: BARE,
        client: Client::Ab(&["-q", "-s", "20", "-c", "50", "-n", "2000", "-e", CSV]),
        amount: 2_000,
        kind: Kind::Ab,
    },
];

/// An HTTP server on a machine without an operating system; see [`super::guest`].
const BARE: &[&str] = &["bare"];

/// A server with room for 1000 clients that connect at the same time.
const MANY: &[&str] = &["--tcp-sockets", "4096", "--backlog", "2048", "http"];

/// The buffers of lwIP and smoltcp on an emulated link, in bytes. The kernel sets its own.
const BUFFER: &str = "2097152";

/// The buffers of lwIP and smoltcp for bulk data, in bytes. The kernel increases its own up to 4 and
/// 6 MiB.
const BULK_BUFFER: &str = "1048576";

/// The arguments of a server that sends bulk data.
const fn bulk_out(bytes: &'static str) -> [&'static str; 7] {
    [
        "--send-buffer",
        BULK_BUFFER,
        "--receive-buffer",
        BULK_BUFFER,
        "--bytes",
        bytes,
        "source",
    ]
}

/// The arguments of 100 clients, each of whose requests has a connection that the server closes.
const fn churn(requests: &'static str) -> [&'static str; 7] {
    [
        "http-client",
        "--close",
        "server",
        "-c",
        "100",
        "-n",
        requests,
    ]
}

/// The arguments of a server that receives bulk data.
const BULK_IN: &[&str] = &[
    "--send-buffer",
    BULK_BUFFER,
    "--receive-buffer",
    BULK_BUFFER,
    "sink",
];

/// The file of percentiles that ab writes to its working folder.
pub const CSV: &str = "ab.csv";

/// A connection per request, one at a time, so that no two requests share a frame, a buffer or a
/// wake-up.
const ONE_BY_ONE: &[&str] = &["http-client", "--close", "server", "-c", "1", "-n", "2000"];

/// Finds a work by name.
pub fn find(name: &str) -> Result<&'static Work, String> {
    let names = || WORKS.map(|work| work.name).join(", ");
    WORKS
        .iter()
        .find(|work| work.name == name)
        .ok_or_else(|| format!("there is no work {name}; there are {}", names()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_clients_is_set_and_read_back() {
        let of = |work: &str| find(work).unwrap().client.arguments_with(7);
        let churn = "http-client --close server -c 7 -n 5000";
        assert_eq!(of("clients-churn").unwrap().join(" "), churn);
        assert_eq!(
            of("ab").unwrap().join(" "),
            "-q -s 20 -c 7 -n 10000 -e ab.csv"
        );
        assert_eq!(of("bulk-in"), None);
        assert_eq!(of("round-trip"), None);
        let read = |work: &str, text: &str| find(work).unwrap().client.reported_clients(text);
        assert_eq!(read("http-churn", "{\"most_open\": 7}\n"), Some(7));
        assert_eq!(read("bulk-in", "{\"requests\": 7}\n"), None);
        assert_eq!(read("ab", "x\nConcurrency Level:      7\ny\n"), Some(7));
        assert_eq!(read("ab", ""), None);
    }

    #[test]
    fn the_measured_side_has_the_settings_of_a_plain_application() {
        for work in &WORKS {
            let plain = work.name.starts_with("counts") && work.name.ends_with("plain");
            assert_eq!(
                work.measured().contains(&"--no-offload"),
                plain,
                "{}",
                work.name
            );
            let client = work.name.starts_with("counts-client");
            assert_eq!(work.measures_client(), client);
        }
    }
}
