// SPDX-License-Identifier: MIT OR Apache-2.0
//! The output: lines of JSON.

use std::io::Write;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde_json::{Value, json};
use swapstone_net::{Capabilities, Statistics};
use swapstone_net_apps::{Receive, Send};

use crate::count::{self, Counts};
use crate::latency::Percentiles;
use crate::options::Options;

/// The result of a role.
#[derive(Debug, Default, Serialize)]
pub struct Outcome {
    /// Requests with a response, echoed messages, or datagrams sent or received.
    pub requests: u64,
    /// Failed requests.
    pub failed: u64,
    pub connections: u64,
    /// Of the HTTP client: the most connections that were open at once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub most_open: Option<usize>,
    /// Bytes of payload.
    pub bytes_in: u64,
    pub bytes_out: u64,
    /// The time from the first byte or request to the last, if the role measures it.
    pub active_s: Option<f64>,
    pub latency_us: Option<Percentiles>,
    /// For numbered datagrams: how many were lost before the last received one.
    pub lost: Option<u64>,
    /// The first error.
    pub first_failure: Option<String>,
}

/// One end of the measured interval.
pub struct Moment {
    time: Instant,
    usage: libc::rusage,
    counts: Option<Counts>,
}

/// The names of the events that a trial waits for.
pub const READY: &str = "ready";
pub const HELD: &str = "held";

/// Prints that the connection of [`crate::app::hold`] is open.
pub fn held() -> std::io::Result<()> {
    print(&json!({"event": HELD}))
}

/// Prints that it is ready; returns the start of the measured interval.
pub fn begin(options: &Options) -> std::io::Result<Moment> {
    print(&json!({"event": READY, "stack": options.stack, "role": options.role}))?;
    Ok(Moment {
        time: Instant::now(),
        usage: own_usage()?,
        counts: count::now(),
    })
}

/// Returns the end of the measured interval.
pub fn stop() -> std::io::Result<Moment> {
    let counts = count::now();
    Ok(Moment {
        time: Instant::now(),
        usage: own_usage()?,
        counts,
    })
}

/// Prints the result.
pub fn end(
    options: &Options,
    (start, stop): (&Moment, &Moment),
    outcome: &Outcome,
    stack: (Capabilities, Statistics),
    device: Value,
) -> std::io::Result<()> {
    let elapsed = stop.time - start.time;
    let usage = stop.usage;
    let user = seconds(usage.ru_utime) - seconds(start.usage.ru_utime);
    let system = seconds(usage.ru_stime) - seconds(start.usage.ru_stime);
    let counts = stop.counts.zip(start.counts);
    let counts = counts.map(|(now, then)| now.since(then));
    let mut line = json!({
        "event": "end",
        "stack": options.stack,
        "role": options.role,
        "elapsed_s": elapsed.as_secs_f64(),
        "user_s": round(user),
        "system_s": round(system),
        "peak_memory_bytes": usage.ru_maxrss * 1024,
        "settings": settings(options),
        "capabilities": capabilities(&stack.0),
        "statistics": statistics(&stack.1),
        "device": device,
        "counts": counts,
    });
    if let (Value::Object(line), Value::Object(more)) = (&mut line, json!(outcome)) {
        line.extend(more);
    }
    print(&line)
}

fn print(line: &Value) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    writeln!(out, "{line}")?;
    out.flush()
}

/// Returns what this process used, see getrusage(2).
fn own_usage() -> std::io::Result<libc::rusage> {
    let mut usage = std::mem::MaybeUninit::uninit();
    // SAFETY: the pointer is valid for writes of a rusage, which the call fills if it succeeds.
    unsafe {
        match libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr()) {
            0 => Ok(usage.assume_init()),
            _ => Err(std::io::Error::last_os_error()),
        }
    }
}

fn seconds(time: libc::timeval) -> f64 {
    time.tv_sec as f64 + time.tv_usec as f64 / 1e6
}

/// In microseconds, the resolution of the kernel.
fn round(seconds: f64) -> f64 {
    (seconds * 1e6).round() / 1e6
}

fn settings(options: &Options) -> Value {
    let limits = &options.limits;
    json!({
        "receive": match options.receive { Receive::Copy => "copy", Receive::Borrow => "borrow" },
        "send": match options.send { Send::Copy => "copy", Send::Shared => "shared" },
        "nodelay": options.nodelay,
        "offload": options.offload,
        "mtu": options.mtu,
        "backlog": options.backlog,
        "fixed_buffers": options.fixed_buffers,
        "tcp_sockets": limits.tcp_sockets,
        "udp_sockets": limits.udp_sockets,
        "receive_buffer": limits.receive_buffer,
        "send_buffer": limits.send_buffer,
        "datagrams": limits.datagrams,
        "packet_memory": limits.packet_memory,
    })
}

fn capabilities(can: &Capabilities) -> Value {
    json!({
        "name": can.name,
        "version": can.version,
        "zero_copy_receive": can.zero_copy_receive,
        "zero_copy_send": can.zero_copy_send,
        "send_in_place": can.send_in_place,
        "congestion_control": can.congestion_control,
        "selective_acknowledgements": can.selective_acknowledgements,
        "keep_alive": can.keep_alive,
        "ipv6": can.ipv6,
    })
}

fn statistics(all: &Statistics) -> Value {
    json!({
        "frames_in": all.frames_in,
        "frames_out": all.frames_out,
        "bytes_in": all.bytes_in,
        "bytes_out": all.bytes_out,
        "malformed": all.malformed,
        "no_room": all.no_room,
        "retransmitted": all.retransmitted,
        "tcp_sockets": all.tcp_sockets,
        "orphans": all.orphans,
        "udp_sockets": all.udp_sockets,
    })
}

/// The interval from the first to the last event.
#[derive(Debug, Default)]
pub struct Span {
    first: Option<Instant>,
    last: Option<Instant>,
}

impl Span {
    /// Records an event now.
    pub fn note(&mut self) {
        let now = Instant::now();
        self.first.get_or_insert(now);
        self.last = Some(now);
    }

    /// Returns its length in seconds; `None` without an event.
    pub fn seconds(&self) -> Option<f64> {
        let length = |last: Instant| -> Option<Duration> { Some(last - self.first?) };
        self.last.and_then(length).map(|span| span.as_secs_f64())
    }
}
