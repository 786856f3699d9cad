// SPDX-License-Identifier: MIT OR Apache-2.0
//! The grammar of packetdrill scripts (github.com/google/packetdrill, `syntax.md`), as far as this
//! runner supports it.
//!
//! Scripts are untrusted. Nothing of a script is executed on this machine: shell commands and
//! Python code are refused.

use crate::parse_packet;
use crate::scan::{Parsed, Scanner};
use crate::script::{Action, Call, Event, Script, Value, Version, When};

/// The largest script in bytes.
pub const LARGEST: usize = 1 << 20;
/// The most events of a script.
const MOST_EVENTS: usize = 10_000;
/// How deep values may be nested.
const DEEPEST: usize = 8;
const SHELL: &str = "a shell command is not run: scripts are untrusted input";
const PYTHON: &str = "Python code (%{ }%) is not run: scripts are untrusted input";

/// Parses a script.
///
/// # Errors
///
/// The line, and what is wrong there.
pub fn script(text: &str) -> Parsed<Script> {
    let mut scan = Scanner::new(text);
    let mut script = Script::default();
    if text.len() > LARGEST {
        return scan.error(format!("a script has at most {LARGEST} bytes"));
    }
    while scan.take("--")? {
        option(&mut scan, &mut script)?;
    }
    while scan.peek()?.is_some() {
        if script.events.len() == MOST_EVENTS {
            return scan.error(format!("a script has at most {MOST_EVENTS} events"));
        }
        let event = event(&mut scan, script.version, script.events.last())?;
        script.events.push(event);
    }
    if script.events.is_empty() {
        return scan.error("the script has no events");
    }
    Ok(script)
}

fn option(scan: &mut Scanner<'_>, script: &mut Script) -> Parsed<()> {
    let name = scan.name()?.unwrap_or("");
    scan.expect("=")?;
    match name {
        "tolerance_usecs" => script.tolerance = Some(scan.number("a tolerance", 10_000_000)?),
        "mtu" => {
            let mtu = scan.half("an MTU")?;
            if !(576..=1500).contains(&mtu) {
                return scan.error("the MTU is 576 to 1500 with this runner");
            }
            script.mtu = Some(mtu);
        }
        "ip_version" => {
            let word = scan.word(|each| !each.is_whitespace())?;
            script.version = match word {
                "ipv4" => Version::V4,
                "ipv6" => Version::V6,
                _ => return scan.error("--ip_version is ipv4 or ipv6 with this runner"),
            };
        }
        _ => {
            return scan.error(format!(
                "the option --{name} is not supported: there are --tolerance_usecs, --ip_version and --mtu"
            ));
        }
    }
    Ok(())
}

fn event(scan: &mut Scanner<'_>, version: Version, before: Option<&Event>) -> Parsed<Event> {
    match scan.peek()? {
        Some('`') => return scan.error(SHELL),
        Some('%') => return scan.error(PYTHON),
        _ => {}
    }
    let line = scan.line();
    let (when, until) = time(scan, before)?;
    let action = match scan.peek()? {
        Some('<') => {
            scan.expect("<")?;
            Action::Inject(parse_packet::packet(scan, version, true)?)
        }
        Some('>') => {
            scan.expect(">")?;
            Action::Expect(parse_packet::packet(scan, version, false)?)
        }
        Some('`') => return scan.error(SHELL),
        Some('%') => return scan.error(PYTHON),
        _ => Action::Call(call(scan)?),
    };
    if until.is_some() && !matches!(action, Action::Call(_)) {
        return scan.error("START...END is for system calls; a packet has START~END");
    }
    let ranged = matches!(
        when,
        When::AbsoluteRange(..) | When::RelativeRange(..) | When::Any
    );
    if ranged && !matches!(action, Action::Expect(_)) {
        return scan.error("only a packet that the stack sends can have a range of times, or *");
    }
    Ok(Event {
        line,
        when,
        until,
        action,
    })
}

fn time(scan: &mut Scanner<'_>, before: Option<&Event>) -> Parsed<(When, Option<u64>)> {
    if scan.take("*")? {
        return Ok((When::Any, None));
    }
    let relative = scan.take("+")?;
    let start = scan.time()?;
    if scan.take("~")? {
        scan.take("+")?;
        let end = scan.time()?;
        if end < start {
            return scan.error("the range of times ends before it starts");
        }
        let when = match relative {
            true => When::RelativeRange(start, end),
            false => When::AbsoluteRange(start, end),
        };
        return Ok((when, None));
    }
    let mut until = None;
    if scan.take("...")? {
        scan.take("+")?;
        let end = scan.time()?;
        if end < start {
            return scan.error("the call ends before it starts");
        }
        until = Some(end);
    }
    if relative {
        return Ok((When::Relative(start), until));
    }
    if let Some(When::Absolute(last)) = before.map(|event| event.when)
        && start < last
    {
        return scan.error("time goes backwards");
    }
    Ok((When::Absolute(start), until))
}

fn call(scan: &mut Scanner<'_>) -> Parsed<Call> {
    let Some(name) = scan.name()? else {
        let found = scan.found();
        return scan.error(format!("expected <, > or a system call, found {found}"));
    };
    scan.expect("(")?;
    let arguments = list(scan, ")", 0)?;
    scan.expect("=")?;
    let result = value(scan, 0)?;
    let mut errno = None;
    if scan.peek()?.is_some_and(|each| each.is_ascii_uppercase()) {
        errno = scan.name()?.map(String::from);
    }
    // A note such as (Resource temporarily unavailable) or (flags O_RDWR).
    if scan.take("(")? {
        scan.word(|each| each != ')' && each != '\n')?;
        scan.expect(")")?;
    }
    Ok(Call {
        name: name.into(),
        arguments,
        result,
        errno,
    })
}

fn list(scan: &mut Scanner<'_>, end: &str, depth: usize) -> Parsed<Vec<Value>> {
    let mut values = Vec::new();
    if scan.take(end)? {
        return Ok(values);
    }
    loop {
        values.push(value(scan, depth + 1)?);
        if scan.take(end)? {
            return Ok(values);
        }
        scan.expect(",")?;
    }
}

fn value(scan: &mut Scanner<'_>, depth: usize) -> Parsed<Value> {
    if depth > DEEPEST {
        return scan.error(format!("values are nested more than {DEEPEST} deep"));
    }
    let first = single(scan, depth)?;
    if scan.peek()? != Some('|') {
        return Ok(first);
    }
    let mut all = vec![first];
    while scan.take("|")? {
        all.push(single(scan, depth)?);
    }
    Ok(Value::Or(all))
}

fn single(scan: &mut Scanner<'_>, depth: usize) -> Parsed<Value> {
    match scan.peek()? {
        Some('.') => {
            scan.expect("...")?;
            Ok(Value::Ellipsis)
        }
        Some('[') => {
            scan.expect("[")?;
            Ok(Value::List(list(scan, "]", depth)?))
        }
        Some('{') => {
            scan.expect("{")?;
            fields(scan, depth)
        }
        Some('"') => {
            scan.expect("\"")?;
            let rest = scan.rest();
            let text: String = rest
                .chars()
                .take_while(|each| *each != '"' && *each != '\n')
                .collect();
            scan.word(|each| each != '"' && each != '\n')?;
            scan.expect("\"")?;
            Ok(Value::Text(text))
        }
        Some('-') => {
            scan.expect("-")?;
            Ok(Value::Number(-number(scan)?))
        }
        Some(digit) if digit.is_ascii_digit() => Ok(Value::Number(number(scan)?)),
        _ => match scan.name()? {
            Some(name) if scan.take("(")? => {
                Ok(Value::Function(name.into(), list(scan, ")", depth)?))
            }
            Some(name) => Ok(Value::Name(name.into())),
            None => {
                let found = scan.found();
                scan.error(format!("expected a value, found {found}"))
            }
        },
    }
}

fn number(scan: &mut Scanner<'_>) -> Parsed<i64> {
    if scan.take("0x")? {
        let digits = scan.word(|each| each.is_ascii_hexdigit())?;
        return match i64::from_str_radix(digits, 16) {
            Ok(number) => Ok(number),
            Err(_) => scan.error("a hexadecimal number has 1 to 15 digits"),
        };
    }
    let number = scan.number("a number", i64::MAX as u64)?;
    Ok(i64::try_from(number).expect("it was checked"))
}

fn fields(scan: &mut Scanner<'_>, depth: usize) -> Parsed<Value> {
    let mut fields = Vec::new();
    loop {
        if scan.take("}")? {
            return Ok(Value::Fields(fields));
        }
        // `{sa_family = AF_INET, ...}` and `{onoff=1, linger=0}`; `...` for the rest.
        if scan.take("...")? {
            scan.expect("}")?;
            return Ok(Value::Fields(fields));
        }
        let Some(name) = scan.name()? else {
            let found = scan.found();
            return scan.error(format!("expected a field, found {found}"));
        };
        scan.expect("=")?;
        fields.push((name.into(), value(scan, depth + 1)?));
        if scan.peek()? != Some('}') {
            scan.expect(",")?;
        }
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
