// SPDX-License-Identifier: MIT OR Apache-2.0
//! The figures in the output of the server and the client of a work.

use std::error::Error;

use serde_json::Value;

use super::figures::Figure;
use super::works::{CSV, Kind, Work};

/// Converts the client's output and the server's last line to figures.
///
/// # Errors
///
/// A request failed, or the output is unexpected.
pub fn read(work: &Work, client: &str, server: &Value) -> Result<Vec<Figure>, Box<dyn Error>> {
    if work.kind == Kind::Ab {
        let table = std::fs::read_to_string(CSV).unwrap_or_default();
        let _ = std::fs::remove_file(CSV);
        return Ok(of_ab(work, client, &table, server)?);
    }
    Ok(of_own(work, &last_line(client)?, server)?)
}

/// Parses the last line of the output of this program as a client.
///
/// # Errors
///
/// It is something else, for example because the client ended with an error.
pub fn last_line(client: &str) -> Result<Value, String> {
    let last = client.lines().next_back().unwrap_or_default();
    serde_json::from_str(last)
        .map_err(|_| format!("the client ended with {last:?} instead of its figures"))
}

fn of_own(work: &Work, client: &Value, server: &Value) -> Result<Vec<Figure>, String> {
    for (side, output) in [("client", client), ("server", server)] {
        let failed = number(output, "failed")?;
        if failed > 0.0 {
            let why = output["first_failure"]
                .as_str()
                .unwrap_or("no reason reported");
            return Err(format!("{failed} requests failed at the {side}: {why}"));
        }
    }
    let whole = |done: f64, what: &str| {
        if done == work.amount as f64 {
            Ok(())
        } else {
            Err(format!("{done} of {} {what} were done", work.amount))
        }
    };
    let requests = number(client, "requests")?;
    let mut figures = Vec::new();
    match work.kind {
        Kind::Requests | Kind::Counts | Kind::ClientCounts => whole(requests, "requests")?,
        Kind::Datagrams => whole(requests, "datagrams")?,
        Kind::BulkIn => whole(number(server, "bytes_in")?, "bytes")?,
        Kind::BulkOut => whole(number(client, "bytes_in")?, "bytes")?,
        Kind::Ab | Kind::TimedIn | Kind::TimedOut => {}
    }
    match work.kind {
        Kind::Requests | Kind::Ab => {
            figures.push(("rate", rate(requests, client)?));
            let latency = &client["latency_us"];
            for (figure, field) in [
                ("p50", "p50"),
                ("p99", "p99"),
                ("p99_9", "p99.9"),
                ("p99_99", "p99.99"),
                ("max", "max"),
            ] {
                figures.push((figure, Some(number(latency, field)? * 1e3)));
            }
            figures.extend(cost(server, requests)?);
        }
        Kind::BulkIn | Kind::BulkOut => {
            let receiver = if work.kind == Kind::BulkIn {
                server
            } else {
                client
            };
            let bytes = number(receiver, "bytes_in")?;
            figures.push(("rate", rate(bytes, receiver)?));
            figures.extend(processor(server, bytes / 1e6)?);
        }
        Kind::TimedIn | Kind::TimedOut => {
            let receiver = if work.kind == Kind::TimedIn {
                server
            } else {
                client
            };
            let bytes = number(receiver, "bytes_in")?;
            if bytes == 0.0 {
                return Err(format!("no byte arrived within {} s", work.amount));
            }
            // A pause at the end counts. The server reads for some milliseconds longer.
            let seconds = number(receiver, "active_s")?.max(work.amount as f64);
            figures.push(("rate", Some(bytes / seconds)));
            figures.extend(processor(server, bytes / 1e6)?);
        }
        Kind::Datagrams => {
            let received = number(server, "requests")?;
            figures.push(("rate", rate(received, server)?));
            figures.push(("lost", Some(requests - received)));
            figures.extend(processor(server, received)?);
        }
        Kind::Counts => figures.extend(counted(&server["counts"], requests)?),
        Kind::ClientCounts => figures.extend(counted(&client["counts"], requests)?),
    }
    Ok(figures)
}

fn of_ab(work: &Work, text: &str, table: &str, server: &Value) -> Result<Vec<Figure>, String> {
    let field = |name: &str| -> Option<f64> {
        let line = text.lines().find(|line| line.starts_with(name))?;
        line[name.len()..].split_whitespace().next()?.parse().ok()
    };
    let gave_up = || {
        let last = text.lines().rfind(|line| !line.trim().is_empty());
        format!("ab gave up: {}", last.unwrap_or("it printed nothing"))
    };
    let completed = field("Complete requests:").ok_or_else(gave_up)?;
    let failed =
        field("Failed requests:").unwrap_or(0.0) + field("Non-2xx responses:").unwrap_or(0.0);
    if failed > 0.0 || completed != work.amount as f64 {
        return Err(format!(
            "of ab's {} requests {completed} were completed, of which {failed} failed",
            work.amount
        ));
    }
    let percentile = |percent: &str| -> Result<Option<f64>, String> {
        let row = table.lines().find_map(|line| {
            let (share, time) = line.split_once(',')?;
            (share == percent).then(|| time.trim().parse::<f64>().ok())?
        });
        row.map(|ms| Some(ms * 1e6))
            .ok_or_else(|| format!("ab's percentiles lack {percent} %"))
    };
    let mut figures = vec![
        ("rate", field("Requests per second:")),
        ("p50", percentile("50")?),
        ("p99", percentile("99")?),
        ("max", percentile("100")?),
    ];
    figures.extend(cost(server, completed)?);
    Ok(figures)
}

/// The instructions of a machine for each request, or the CPU time of a process.
///
/// # Errors
///
/// The machine has counted another number of requests.
fn cost(server: &Value, requests: f64) -> Result<Vec<Figure>, String> {
    if server["instructions"].is_null() {
        return Ok(processor(server, requests)?.into());
    }
    let served = number(server, "requests")?;
    if served != requests {
        return Err(format!(
            "the guest counted {served} requests of the client's {requests}"
        ));
    }
    let each = number(server, "instructions")? / requests;
    Ok(vec![("instructions", Some(each))])
}

/// The server's CPU time in nanoseconds per request, or per unit.
fn processor(server: &Value, amount: f64) -> Result<[Figure; 3], String> {
    let (user, system) = (number(server, "user_s")?, number(server, "system_s")?);
    let each = |seconds: f64| (amount > 0.0).then(|| seconds.max(0.0) * 1e9 / amount);
    Ok([
        ("cpu", each(user + system)),
        ("user_cpu", each(user)),
        ("system_cpu", each(system)),
    ])
}

fn counted(counts: &Value, requests: f64) -> Result<Vec<Figure>, String> {
    if counts.is_null() {
        return Err("this build does not count; it needs the feature count".into());
    }
    let of = |what: &str, field: &str| -> Result<Option<f64>, String> {
        Ok(Some(number(&counts[what], field)? / requests))
    };
    Ok(vec![
        ("copies", of("copies", "calls")?),
        ("copied", of("copies", "bytes")?),
        ("heap_calls", of("heap", "calls")?),
        ("heap_bytes", of("heap", "bytes")?),
        ("store_calls", of("lwip", "calls")?),
        ("store_bytes", of("lwip", "bytes")?),
    ])
}

fn rate(amount: f64, side: &Value) -> Result<Option<f64>, String> {
    let seconds = number(side, "active_s")?;
    Ok((seconds > 0.0).then(|| amount / seconds))
}

fn number(of: &Value, field: &str) -> Result<f64, String> {
    of[field]
        .as_f64()
        .ok_or_else(|| format!("a side does not report {field}"))
}

#[cfg(test)]
mod tests {
    use super::super::works::find;
    use super::*;
    use serde_json::json;

    fn sides() -> (Value, Value) {
        let latency = json!({"p50": 10.0, "p99": 20.0, "p99.9": 30.0, "p99.99": 40.0, "max": 50.0});
        let client = json!({
            "requests": 20_000, "failed": 0, "active_s": 2.0, "latency_us": latency, "bytes_in": 500_000_000,
        });
        let server = json!({
            "requests": 150_000, "failed": 0, "active_s": 0.5, "user_s": 0.02, "system_s": 0.06, "bytes_in": 499_999_999,
        });
        (client, server)
    }

    #[test]
    fn requests_have_a_rate_latencies_and_processor_time() {
        let (client, server) = sides();
        let found = of_own(find("round-trip").unwrap(), &client, &server).unwrap();
        let expected = [
            ("rate", 10_000.0),
            ("p50", 10_000.0),
            ("p99", 20_000.0),
            ("p99_9", 30_000.0),
            ("p99_99", 40_000.0),
            ("max", 50_000.0),
            ("cpu", 4_000.0),
            ("user_cpu", 1_000.0),
            ("system_cpu", 3_000.0),
        ];
        assert_eq!(found.len(), expected.len());
        for ((name, value), (as_named, wanted)) in found.iter().zip(expected) {
            assert_eq!(*name, as_named);
            assert!((value.unwrap() - wanted).abs() < 1e-6, "{name}");
        }
    }

    #[test]
    fn a_lost_request_makes_the_figure_an_error() {
        let (mut client, mut server) = sides();
        let error_of = |work, client: &Value, server: &Value| {
            of_own(find(work).unwrap(), client, server).unwrap_err()
        };
        assert_eq!(
            error_of("http-churn", &client, &server),
            "20000 of 10000 requests were done"
        );
        assert_eq!(
            error_of("bulk-in", &client, &server),
            "499999999 of 500000000 bytes were done"
        );
        client["failed"] = json!(3);
        client["first_failure"] = json!("reset");
        assert_eq!(
            error_of("round-trip", &client, &server),
            "3 requests failed at the client: reset"
        );
        client["failed"] = json!(0);
        server["failed"] = json!(1);
        assert_eq!(
            error_of("round-trip", &client, &server),
            "1 requests failed at the server: no reason reported"
        );
    }

    #[test]
    fn goodput_of_a_fixed_time_counts_pauses() {
        let (client, mut server) = sides();
        let rate_of = |work, client: &Value, server: &Value| {
            of_own(find(work).unwrap(), client, server).map(|found| found[0])
        };
        let out = rate_of("link-out", &client, &server).unwrap();
        assert_eq!(out, ("rate", Some(250_000_000.0)));
        server["active_s"] = json!(0.5);
        server["bytes_in"] = json!(1_000_000);
        let into = rate_of("link-in", &client, &server).unwrap();
        assert_eq!(into, ("rate", Some(500_000.0)));
        server["bytes_in"] = json!(0);
        assert_eq!(
            rate_of("link-in", &client, &server).unwrap_err(),
            "no byte arrived within 2 s"
        );
    }

    #[test]
    fn datagrams_that_did_not_arrive_are_counted() {
        let (mut client, server) = sides();
        client["requests"] = json!(200_000);
        let found = of_own(find("udp-in").unwrap(), &client, &server).unwrap();
        assert_eq!(
            found[..2],
            [("rate", Some(300_000.0)), ("lost", Some(50_000.0))]
        );
    }

    #[test]
    fn a_machine_has_instructions_instead_of_processor_time() {
        let (mut client, _) = sides();
        client["requests"] = json!(2000);
        let mut server = json!({"requests": 2000, "failed": 0, "instructions": 80_000_000});
        let work = find("bare-churn").unwrap();
        assert!(work.is_bare() && !find("http-churn").unwrap().is_bare());
        let found = of_own(work, &client, &server).unwrap();
        assert_eq!(found.last(), Some(&("instructions", Some(40_000.0))));
        assert!(found.iter().all(|(name, _)| !name.contains("cpu")));
        server["requests"] = json!(1999);
        assert_eq!(
            of_own(work, &client, &server).unwrap_err(),
            "the guest counted 1999 requests of the client's 2000"
        );
    }

    #[test]
    fn a_build_that_does_not_count_says_so() {
        assert!(
            counted(&Value::Null, 1.0)
                .unwrap_err()
                .contains("feature count")
        );
        let tally = json!({"calls": 30, "bytes": 500});
        let counts = json!({"copies": tally, "heap": tally, "lwip": tally});
        let found = counted(&counts, 10.0).unwrap();
        assert_eq!(found[..2], [("copies", Some(3.0)), ("copied", Some(50.0))]);
    }

    #[test]
    fn counts_are_those_of_the_measured_side() {
        let (mut client, mut server) = sides();
        let counts = |calls: u64| {
            let tally = json!({"calls": calls, "bytes": 10 * calls});
            json!({"copies": tally, "heap": tally, "lwip": tally})
        };
        client["requests"] = json!(2000);
        client["counts"] = counts(8000);
        server["counts"] = counts(6000);
        for (work, calls) in [
            ("counts-plain", 3.0),
            ("counts-tuned", 3.0),
            ("counts-client-plain", 4.0),
            ("counts-client-tuned", 4.0),
        ] {
            let found = of_own(find(work).unwrap(), &client, &server).unwrap();
            assert_eq!(found[0], ("copies", Some(calls)), "{work}");
            assert_eq!(found[5], ("store_bytes", Some(10.0 * calls)), "{work}");
        }
        client["requests"] = json!(1999);
        let work = find("counts-client-plain").unwrap();
        assert_eq!(
            of_own(work, &client, &server).unwrap_err(),
            "1999 of 2000 requests were done"
        );
        client["requests"] = json!(2000);
        server["failed"] = json!(1);
        let error = of_own(work, &client, &server).unwrap_err();
        assert!(error.starts_with("1 requests failed at the server"));
    }

    #[test]
    fn ab_is_read_and_what_it_lost_is_no_figure() {
        let work = find("ab").unwrap();
        let text = "Complete requests:      10000\nFailed requests:        0\nRequests per second:    5000.50 [#/sec] (mean)\n";
        let table = "Percentage served,Time in ms\n0,0.1\n50,1.5\n99,2.5\n100,9.25\n";
        let (_, server) = sides();
        let found = of_ab(work, text, table, &server).unwrap();
        assert_eq!(
            found[..4],
            [
                ("rate", Some(5000.5)),
                ("p50", Some(1.5e6)),
                ("p99", Some(2.5e6)),
                ("max", Some(9.25e6))
            ]
        );
        let lost = text.replace("requests:        0", "requests:        2");
        assert_eq!(
            of_ab(work, &lost, table, &server).unwrap_err(),
            "of ab's 10000 requests 10000 were completed, of which 2 failed"
        );
        assert_eq!(
            of_ab(work, "apr_poll: timeout\n", table, &server).unwrap_err(),
            "ab gave up: apr_poll: timeout"
        );
    }

    #[test]
    fn a_client_that_ends_without_figures_is_an_error() {
        let error = last_line("{\"event\": \"ready\"}\nlost\n").unwrap_err();
        assert_eq!(
            error,
            "the client ended with \"lost\" instead of its figures"
        );
    }
}
