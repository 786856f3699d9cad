// SPDX-License-Identifier: MIT OR Apache-2.0
//! Runs a script against a [`System`].

use std::collections::VecDeque;

use swapstone_net_testkit::addresses::SUBJECT_MAC;
use swapstone_net_testkit::wire::{Packet as Frame, Transport, Udp};
use swapstone_net_testkit::world;

use crate::assertions::{Assertions, Variables};
use crate::calls::{Attempt, Calls, Effect, PORT, Running};
use crate::connection::Connection;
use crate::script::{Action, Body, Call, Event, Icmp, Packet, Script, Tcp, Value, Version, When};
use crate::system::{Errno, System};
use crate::{errno, text, wire};

/// The default of `--tolerance_usecs`.
pub const TOLERANCE: u64 = 4_000;
/// How long a packet with the time `*` may take.
const PATIENCE: u64 = 300_000_000;
/// How often a blocking call is tried.
const TRY_EVERY: u64 = 1_000;
/// The first port of the peer in connections to the stack.
const FIRST_PORT: u16 = 40_000;
/// The largest length that a quoted IP header states.
const LARGEST: u16 = 65_000;
/// The URG flag.
const URG: u8 = 32;
const PROTOCOL_TCP: u8 = 6;
const PROTOCOL_UDP: u8 = 17;

/// Why a script did not pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The line of the event.
    pub line: usize,
    /// What went wrong.
    pub reason: String,
    /// What the script expects, in its notation; empty if that is no packet and no call.
    pub expected: String,
    /// What was seen instead.
    pub seen: String,
    /// The runner lacks what the script needs: nothing was found out about the stack. Where: the
    /// character of the line, from 1.
    pub unsupported: Option<usize>,
}

struct Pending {
    running: Running,
    call: Call,
    line: usize,
    column: usize,
    /// The expected end; `None`: it must not block.
    until: Option<u64>,
    /// When it is given up.
    limit: u64,
}

struct Runner<'a> {
    system: &'a mut dyn System,
    version: Version,
    tolerance: u64,
    calls: Calls,
    inbox: VecDeque<(u64, Vec<u8>)>,
    connection: Option<Connection>,
    strict: bool,
    variables: Variables,
    next_port: u16,
    /// The time of the event before.
    base: u64,
    pending: Option<Pending>,
}

/// Runs a script; times may deviate by its tolerance and `least` microseconds.
///
/// # Errors
///
/// The first event that did not go as expected.
pub fn run(script: &Script, system: &mut dyn System, least: u64) -> Result<(), Failure> {
    let tolerance = script.tolerance.unwrap_or(TOLERANCE).max(least);
    let mut runner = Runner {
        system,
        version: script.version,
        tolerance,
        calls: Calls::new(script.version),
        inbox: VecDeque::new(),
        connection: None,
        strict: script.strict,
        variables: Variables::new(),
        next_port: FIRST_PORT,
        base: 0,
        pending: None,
    };
    for event in &script.events {
        runner.event(event)?;
    }
    runner.finish_pending()
}

fn failure(line: usize, reason: impl Into<String>) -> Failure {
    Failure {
        line,
        reason: reason.into(),
        expected: String::new(),
        seen: String::new(),
        unsupported: None,
    }
}

/// Returns a segment with those before it that the script expects as one; alone if it does not follow.
fn joined(before: Option<Packet>, next: Packet) -> Packet {
    if let (Some(before), Body::Tcp(after)) = (before, &next.body)
        && let Body::Tcp(first) = &before.body
        && after.length > 0
        && after.seq == first.seq.wrapping_add(first.length.into())
        && let Some(length) = first.length.checked_add(after.length)
    {
        return Packet {
            ecn: next.ecn,
            body: Body::Tcp(Tcp {
                seq: first.seq,
                length,
                ..after.clone()
            }),
        };
    }
    next
}

fn unsupported(line: usize, column: usize, reason: impl Into<String>) -> Failure {
    Failure {
        unsupported: Some(column),
        ..failure(line, reason)
    }
}

fn seconds(micros: u64) -> String {
    format!("{}.{:06} s", micros / 1_000_000, micros % 1_000_000)
}

impl Runner<'_> {
    fn event(&mut self, event: &Event) -> Result<(), Failure> {
        let (start, end) = match event.when {
            When::Any => (self.base, self.base + PATIENCE),
            When::Absolute(at) => (at, at),
            When::AbsoluteRange(from, to) => (from, to),
            When::Relative(after) => (self.base + after, self.base + after),
            When::RelativeRange(from, to) => (self.base + from, self.base + to),
        };
        if let Action::Expect(packet) = &event.action {
            let from = match event.when {
                When::Any => 0,
                _ => start.saturating_sub(self.tolerance),
            };
            return self.expect(event.line, packet, from, end + self.tolerance);
        }
        self.run_to(start)?;
        let late = self.system.now().saturating_sub(start);
        if late > self.tolerance {
            return Err(failure(
                event.line,
                format!(
                    "this event was due at {}, and came {late} us late",
                    seconds(start)
                ),
            ));
        }
        self.base = self.base.max(start);
        match &event.action {
            Action::Inject(packet) => self.inject(event.line, event.column, packet),
            Action::Call(call) => {
                let offset = match event.when {
                    When::Relative(after) => start - after,
                    _ => 0,
                };
                let until = event.until.map(|until| until + offset);
                self.call((event.line, event.column), call, until)
            }
            Action::Assert(assertions) => self.assert(event.line, assertions),
            Action::Code(command) => {
                if let Some(text) = command {
                    self.system.configure(text);
                }
                Ok(())
            }
            Action::Expect(_) => unreachable!("it was handled above"),
        }
    }

    /// Runs the stack until `until`; packets are kept.
    fn run_to(&mut self, until: u64) -> Result<(), Failure> {
        loop {
            let end = self.slice(until);
            self.system.wait(end);
            self.collect()?;
            if self.system.now() >= until {
                return Ok(());
            }
        }
    }

    /// Returns the end of the next wait: a blocking call is tried again and again.
    fn slice(&mut self, until: u64) -> u64 {
        match &self.pending {
            Some(_) => until.min(self.system.now() + TRY_EVERY),
            None => until,
        }
    }

    /// Takes what has arrived, answers address resolution, and continues a blocking call.
    fn collect(&mut self) -> Result<(), Failure> {
        while let Some((at, frame)) = self.system.take() {
            // A frame that can't be decoded is shown when a packet is expected.
            if let Ok(parsed) = Frame::parse(&frame, false) {
                if let Some(answer) = world::resolve(&parsed) {
                    let answered = self.system.inject(&answer.bytes());
                    answered.expect("an answer is short");
                    let now = self.system.now();
                    self.system.wait(now);
                    continue;
                }
                if world::is_discovery(&parsed) {
                    continue;
                }
            }
            self.inbox.push_back((at, frame));
        }
        self.continue_pending()
    }

    fn assert(&mut self, line: usize, assertions: &Assertions) -> Result<(), Failure> {
        if !self.system.has_info() {
            return Ok(());
        }
        let info = self.calls.info(self.system);
        let done = assertions.evaluate(&info, &mut self.variables);
        done.map_err(|(expected, seen)| Failure {
            expected,
            seen,
            ..failure(line, "an assertion is false")
        })
    }

    fn inject(&mut self, line: usize, column: usize, packet: &Packet) -> Result<(), Failure> {
        let frame = match &packet.body {
            Body::Tcp(tcp) => {
                if self.connection.as_ref().is_none_or(|open| open.listening) {
                    let local = self.connection.as_ref().map_or(PORT, |open| open.local);
                    self.connection = Some(Connection::passive(local, self.next_port));
                    self.next_port += 1;
                }
                let connection = self.connection.as_mut().expect("it was set");
                let segment = connection
                    .live(tcp)
                    .map_err(|reason| failure(line, reason))?;
                let ecn = packet.ecn.unwrap_or(0);
                let mut frame = wire::frame(self.version, ecn, Transport::Tcp(segment));
                wire::set_urgent(self.version, &mut frame, tcp.urgent.unwrap_or(0));
                frame
            }
            Body::Udp(length) => {
                let connection = self
                    .connection
                    .get_or_insert_with(|| Connection::datagrams(PORT, FIRST_PORT));
                let udp = Udp {
                    source: connection.remote,
                    destination: connection.local,
                    payload: wire::stream(0, usize::from(*length)),
                };
                wire::frame(self.version, packet.ecn.unwrap_or(0), Transport::Udp(udp))
            }
            Body::Icmp(icmp) => self.icmp(line, icmp)?,
        };
        let injected = self.system.inject(&frame);
        injected.map_err(|reason| unsupported(line, column, reason))?;
        let now = self.system.now();
        self.system.wait(now);
        self.collect()
    }

    fn icmp(&mut self, line: usize, icmp: &Icmp) -> Result<Vec<u8>, Failure> {
        let echo = matches!(
            (self.version, icmp.kind),
            (Version::V4, 8 | 0) | (Version::V6, 128 | 129)
        );
        if echo {
            return Ok(wire::icmp_quoting(self.version, icmp, 0, &[], 0));
        }
        let Some(connection) = &mut self.connection else {
            return Err(failure(
                line,
                "an ICMP error needs a socket that sent something",
            ));
        };
        if let Some(mtu) = icmp.mtu {
            connection.limit(mtu, self.version);
        }
        let (seq, length) = icmp.quoted.unwrap_or((0, 0));
        let quoted = connection.quote(seq);
        let header = if connection.udp { 8 } else { 20 };
        let protocol = if connection.udp {
            PROTOCOL_UDP
        } else {
            PROTOCOL_TCP
        };
        let length =
            u16::try_from(length.saturating_add(header)).map_or(LARGEST, |it| it.min(LARGEST));
        Ok(wire::icmp_quoting(
            self.version,
            icmp,
            protocol,
            &quoted,
            length,
        ))
    }

    fn expect(&mut self, line: usize, packet: &Packet, from: u64, to: u64) -> Result<(), Failure> {
        let wrong = |reason: String, seen: String| Failure {
            expected: text::packet(packet),
            seen,
            ..failure(line, reason)
        };
        // The events before are processed now.
        let now = self.system.now();
        self.system.wait(now);
        self.collect()?;
        let mut before = None;
        loop {
            while let Some((at, frame)) = self.inbox.pop_front() {
                let Some(seen) = self.seen(&frame, packet) else {
                    continue;
                };
                let seen = seen.map_err(|reason| wrong(reason, String::new()))?;
                let other = self.has_other_bytes(&seen, &frame);
                let seen = joined(before.take(), seen);
                let shown = format!("{} at {}", text::packet(&seen), seconds(at));
                if other {
                    let reason = "the segment has other bytes than the program wrote";
                    return Err(wrong(reason.into(), shown));
                }
                if self.is_part(packet, &seen) {
                    before = Some(seen);
                    continue;
                }
                if let Some(reason) = self.differs(packet, &seen) {
                    return Err(wrong(reason, shown));
                }
                if at < from {
                    return Err(wrong(format!("it came before {}", seconds(from)), shown));
                }
                if at > to {
                    return Err(wrong(format!("it came after {}", seconds(to)), shown));
                }
                self.base = self.base.max(at);
                return Ok(());
            }
            if self.system.now() >= to {
                let reason = format!("no packet came until {}", seconds(to));
                let shown = before.as_ref().map_or("nothing".into(), text::packet);
                return Err(wrong(reason, shown));
            }
            let until = self.slice(to);
            self.system.wait(until);
            self.collect()?;
        }
    }

    /// Decodes a frame of the socket under test into the script's numbers; `None`: another socket's.
    fn seen(&mut self, frame: &[u8], expected: &Packet) -> Option<Result<Packet, String>> {
        let parsed = match Frame::parse(frame, false) {
            Ok(parsed) => parsed,
            Err(reason) => return Some(Err(format!("the stack sent a malformed frame: {reason}"))),
        };
        let ip = parsed.ip()?;
        let ecn = expected.ecn.map(|_| wire::ecn_of(self.version, frame));
        if ip.source != wire::subject(self.version) || parsed.from != SUBJECT_MAC {
            return None;
        }
        let body = match (&ip.transport, &expected.body) {
            (Transport::Icmp(icmp), Body::Icmp(_)) => Body::Icmp(Icmp {
                kind: icmp.kind,
                code: icmp.code,
                mtu: None,
                id: None,
                quoted: None,
            }),
            (Transport::Tcp(tcp), _) => {
                let connection = self.connection.as_mut().filter(|open| !open.udp)?;
                let like = match &expected.body {
                    Body::Tcp(like) => Some(like),
                    _ => None,
                };
                match connection.script(tcp, like)? {
                    Ok(tcp) => {
                        let urgent = wire::urgent_of(self.version, frame);
                        let shown = tcp.flags & URG != 0 || urgent != 0;
                        let urgent = shown.then_some(urgent);
                        Body::Tcp(Tcp { urgent, ..tcp })
                    }
                    Err(reason) => return Some(Err(reason)),
                }
            }
            (Transport::Udp(udp), _) => {
                let open = self.connection.as_ref().filter(|open| open.udp)?;
                if (udp.source, udp.destination) != (open.local, open.remote) {
                    return None;
                }
                Body::Udp(u16::try_from(udp.payload.len()).ok()?)
            }
            _ => return None,
        };
        Some(Ok(Packet { ecn, body }))
    }

    fn has_other_bytes(&self, seen: &Packet, frame: &[u8]) -> bool {
        match (&seen.body, &self.connection) {
            (Body::Tcp(tcp), Some(connection)) => connection.has_other_bytes(tcp, frame),
            _ => false,
        }
    }

    /// Whether this is the beginning of a segment that the script expects and the stack has split.
    fn is_part(&self, expected: &Packet, seen: &Packet) -> bool {
        let (Body::Tcp(expected), Body::Tcp(seen)) = (&expected.body, &seen.body) else {
            return false;
        };
        let open = self.connection.as_ref();
        !self.strict
            && open.is_some_and(|open| open.is_split(expected))
            && seen.length > 0
            && seen.seq == expected.seq
            && seen.length < expected.length
    }

    /// Returns what differs; fields that the script leaves out are not compared.
    fn differs(&mut self, expected: &Packet, seen: &Packet) -> Option<String> {
        if expected.ecn != seen.ecn {
            return Some("the ECN bits differ".into());
        }
        match (&expected.body, &seen.body) {
            (Body::Tcp(expected), Body::Tcp(seen)) => {
                let connection = self.connection.as_mut()?;
                connection.differs(expected, seen)
            }
            (Body::Udp(expected), Body::Udp(seen)) if expected == seen => None,
            (Body::Icmp(expected), Body::Icmp(seen))
                if (expected.kind, expected.code) == (seen.kind, seen.code) =>
            {
                None
            }
            _ => Some("another packet came".into()),
        }
    }

    fn call(
        &mut self,
        (line, column): (usize, usize),
        call: &Call,
        until: Option<u64>,
    ) -> Result<(), Failure> {
        if self.pending.is_some() {
            self.finish_pending()?;
        }
        let now = self.system.now();
        let limit = until.map_or(now, |until| until.max(now)) + self.tolerance;
        self.pending = Some(Pending {
            running: self.calls.start(call, now),
            call: call.clone(),
            line,
            column,
            until,
            limit,
        });
        self.continue_pending()?;
        if until.is_none() {
            self.finish_pending()?;
        }
        let now = self.system.now();
        self.system.wait(now);
        self.collect()
    }

    fn finish_pending(&mut self) -> Result<(), Failure> {
        while self.pending.is_some() {
            let now = self.system.now();
            self.system.wait(now + TRY_EVERY);
            self.collect()?;
        }
        Ok(())
    }

    fn continue_pending(&mut self) -> Result<(), Failure> {
        let Some(mut pending) = self.pending.take() else {
            return Ok(());
        };
        let attempt = self.calls.attempt(&mut pending.running, self.system);
        let attempt =
            attempt.map_err(|reason| unsupported(pending.line, pending.column, reason))?;
        if let Some(effect) = self.calls.effect.take() {
            self.apply(effect);
        }
        let now = self.system.now();
        let wrong = |reason: String, seen: String| Failure {
            expected: call_text(&pending.call),
            seen,
            ..failure(pending.line, reason)
        };
        match attempt {
            Attempt::Blocked if now > pending.limit => Err(wrong(
                format!("{} still blocks at {}", pending.call.name, seconds(now)),
                "the call blocks".into(),
            )),
            Attempt::Blocked => {
                self.pending = Some(pending);
                Ok(())
            }
            Attempt::Wrong(reason) => Err(wrong(reason, String::new())),
            Attempt::Done(result) => {
                let seen = result_text(result);
                if !matches_result(&pending.call, result) {
                    return Err(wrong("the result differs".into(), seen));
                }
                if let Some(until) = pending.until
                    && now.abs_diff(until) > self.tolerance
                {
                    let reason = format!(
                        "the call ended at {} instead of {}",
                        seconds(now),
                        seconds(until)
                    );
                    return Err(wrong(reason, seen));
                }
                Ok(())
            }
        }
    }

    fn apply(&mut self, effect: Effect) {
        let udp = self.connection.as_ref().filter(|open| open.udp);
        self.connection = Some(match effect {
            Effect::Listens(port) => Connection::listener(port),
            Effect::Connects(port) => Connection::active(port),
            Effect::Datagrams(local, remote) if udp.is_none_or(|open| open.remote == PORT) => {
                Connection::datagrams(local, remote)
            }
            Effect::Datagrams(..) => return,
        });
    }
}

fn matches_result(call: &Call, result: Result<i64, Errno>) -> bool {
    match (result, &call.result) {
        (_, Value::Ellipsis) => true,
        (Ok(seen), expected) => crate::constants::number(expected) == Some(seen),
        (Err(error), Value::Number(-1)) => {
            let expected = call.errno.as_deref();
            expected.is_none_or(|name| errno::number(name) == errno::number(error))
        }
        (Err(_), _) => false,
    }
}

fn result_text(result: Result<i64, Errno>) -> String {
    match result {
        Ok(number) => number.to_string(),
        Err(error) => format!("-1 {error}"),
    }
}

fn call_text(call: &Call) -> String {
    let result = match &call.result {
        Value::Number(number) => number.to_string(),
        _ => "...".into(),
    };
    let errno = call
        .errno
        .as_ref()
        .map_or(String::new(), |name| format!(" {name}"));
    format!("{}() = {result}{errno}", call.name)
}
