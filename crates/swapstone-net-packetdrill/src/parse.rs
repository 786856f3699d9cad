// SPDX-License-Identifier: MIT OR Apache-2.0
//! The grammar of packetdrill scripts (github.com/google/packetdrill, `syntax.md`), as far as this
//! runner supports it.
//!
//! Scripts are untrusted. Nothing of a script is executed on this machine: shell commands and
//! Python code are refused, or left out.

use std::collections::BTreeMap;

use crate::calls::CALLS;
use crate::parse_packet;
use crate::scan::{Parsed, Scanner};
use crate::script::{Action, Call, Event, Script, Value, Version, When};
use crate::{assertions, constants, errno};

/// The values of `--define`, by their names.
type Defines = BTreeMap<String, Value>;

/// The largest script in bytes.
pub const LARGEST: usize = 1 << 20;
/// The most events of a script.
const MOST_EVENTS: usize = 10_000;
/// How deep values may be nested.
const DEEPEST: usize = 8;
/// The options of a script's file.
const OPTIONS: &[&str] = &[
    "tolerance_usecs",
    "ip_version",
    "mtu",
    "define",
    "local_ip",
    "remote_ip",
    "strict_segments",
    "tcp_ts_tick_usecs",
];
const SHELL: &str =
    "a shell command is not run: scripts are untrusted input; --skip-code runs the rest";
const PYTHON: &str =
    "Python code (%{ }%) is not run: scripts are untrusted input; --skip-code runs the rest";
const SHELL_VALUE: &str = "a shell command is not run, so this value is not known";

/// What happens to shell commands and Python code, which are never executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// The script is refused.
    Refused,
    /// They are left out. One that has a time takes its place among the events and does nothing.
    Skipped,
}

/// Parses a script.
///
/// # Errors
///
/// The line, and what is wrong there.
pub fn script(text: &str, code: Code) -> Parsed<Script> {
    let mut scan = Scanner::new(text);
    let mut script = Script::default();
    if text.len() > LARGEST {
        return scan.error(format!("a script has at most {LARGEST} bytes"));
    }
    let mut defines = Defines::new();
    while scan.take("--")? {
        option(&mut scan, &mut script, &mut defines)?;
    }
    loop {
        // Without a time: what prepares the machine before the script, and cleans up after it.
        if let Some(action) = skip_code(&mut scan, &mut script, code)? {
            match action {
                // The last ones put back what the first ones have set.
                Action::Code(command) if script.events.is_empty() => {
                    script.commands.extend(command);
                }
                Action::Assert(_) => {
                    let (line, column) = scan.place();
                    script.events.push(Event {
                        line,
                        column,
                        when: When::Relative(0),
                        until: None,
                        action,
                    });
                }
                _ => {}
            }
            continue;
        }
        if scan.peek()?.is_none() {
            break;
        }
        if script.events.len() == MOST_EVENTS {
            return scan.error(format!("a script has at most {MOST_EVENTS} events"));
        }
        let event = event(&mut scan, &mut script, code, &defines)?;
        script.events.push(event);
    }
    let code = |event: &Event| matches!(event.action, Action::Code(_) | Action::Assert(_));
    if script.events.iter().all(code) {
        return scan.error("the script has no events");
    }
    Ok(script)
}

fn option(scan: &mut Scanner<'_>, script: &mut Script, defines: &mut Defines) -> Parsed<()> {
    let name = scan.name()?.unwrap_or("");
    if !OPTIONS.contains(&name) {
        return scan.error(format!(
            "the option --{name} is not supported: there are --{}",
            OPTIONS.join(", --")
        ));
    }
    if name == "strict_segments" {
        script.strict = true;
        return Ok(());
    }
    scan.expect("=")?;
    match name {
        "define" => {
            let Some(name) = scan.name()? else {
                return scan.error("--define needs a name: --define=NAME=VALUE");
            };
            scan.expect("=")?;
            if scan.peek()? == Some('`') {
                return scan.error(SHELL_VALUE);
            }
            let value = single(scan, 0, &Defines::new())?;
            defines.insert(name.into(), value);
        }
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
        // The stack's timestamps are not compared.
        "tcp_ts_tick_usecs" => {
            scan.number("the tick of timestamps", 10_000_000)?;
        }
        _ => {
            let word = scan.word(|each| !each.is_whitespace())?;
            let Ok(address) = word.parse() else {
                return scan.error(format!("--{name} is an IPv4 address with this runner"));
            };
            script.addresses[usize::from(name == "remote_ip")] = Some(address);
        }
    }
    Ok(())
}

/// Takes code that is next, and counts it. Returns `None` if something else is next.
///
/// # Errors
///
/// Code is refused, or has no end.
fn skip_code(scan: &mut Scanner<'_>, script: &mut Script, code: Code) -> Parsed<Option<Action>> {
    let (refused, shell) = match scan.peek()? {
        Some('`') => (SHELL, true),
        Some('%') => (PYTHON, false),
        _ => return Ok(None),
    };
    if code == Code::Refused {
        return scan.error(refused);
    }
    script.skipped += 1;
    if shell {
        scan.expect("`")?;
        let command = scan.take_past("`")?.into();
        return Ok(Some(Action::Code(Some(command))));
    }
    scan.expect("%{")?;
    let text = scan.take_past("}%")?;
    Ok(Some(match assertions::read(text, &mut script.assigned) {
        Some(read) => {
            script.assertions += 1;
            Action::Assert(read)
        }
        None => {
            script.unevaluated += 1;
            Action::Code(None)
        }
    }))
}

fn event(
    scan: &mut Scanner<'_>,
    script: &mut Script,
    code: Code,
    defines: &Defines,
) -> Parsed<Event> {
    let version = script.version;
    let start = scan.place();
    let (when, until) = time(scan, script.events.last())?;
    let next = scan.peek()?;
    let (_, column) = scan.place();
    let action = match next {
        Some('<') => {
            scan.expect("<")?;
            Action::Inject(parse_packet::packet(scan, version, true)?)
        }
        Some('>') => {
            scan.expect(">")?;
            Action::Expect(parse_packet::packet(scan, version, false)?)
        }
        _ => match skip_code(scan, script, code)? {
            Some(action) => action,
            None => Action::Call(call(scan, defines)?),
        },
    };
    if until.is_some() && !matches!(action, Action::Call(_)) {
        let text = "START...END is for system calls; a packet has START~END";
        return scan.error_at(start, text);
    }
    let ranged = matches!(
        when,
        When::AbsoluteRange(..) | When::RelativeRange(..) | When::Any
    );
    if ranged && !matches!(action, Action::Expect(_)) {
        let text = "only a packet that the stack sends can have a range of times, or *";
        return scan.error_at(start, text);
    }
    Ok(Event {
        line: start.0,
        column,
        when,
        until,
        action,
    })
}

fn time(scan: &mut Scanner<'_>, before: Option<&Event>) -> Parsed<(When, Option<u64>)> {
    if scan.take("*")? {
        return Ok((When::Any, None));
    }
    let place = scan.place();
    let relative = scan.take("+")?;
    let start = scan.time()?;
    if scan.take("~")? {
        scan.take("+")?;
        let end = scan.time()?;
        if end < start {
            return scan.error_at(place, "the range of times ends before it starts");
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
            return scan.error_at(place, "the call ends before it starts");
        }
        until = Some(end);
    }
    if relative {
        return Ok((When::Relative(start), until));
    }
    if let Some(When::Absolute(last)) = before.map(|event| event.when)
        && start < last
    {
        return scan.error_at(place, "time goes backwards");
    }
    Ok((When::Absolute(start), until))
}

fn call(scan: &mut Scanner<'_>, defines: &Defines) -> Parsed<Call> {
    let Some(name) = scan.name()? else {
        let found = scan.found();
        return scan.error(format!("expected <, > or a system call, found {found}"));
    };
    if !CALLS.contains(&name) {
        return scan.error(format!(
            "the call {name} is not supported: there are {}",
            CALLS.join(", ")
        ));
    }
    scan.expect("(")?;
    let arguments = list(scan, ")", 0, defines)?;
    scan.expect("=")?;
    let result = value(scan, 0, defines)?;
    let mut errno = None;
    if scan.peek()?.is_some_and(|each| each.is_ascii_uppercase()) {
        errno = scan.name()?.map(String::from);
        if let Some(unknown) = errno.as_deref().filter(|name| !errno::is_known(name)) {
            return scan.error(format!("the error {unknown} is not known to this runner"));
        }
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

fn list(scan: &mut Scanner<'_>, end: &str, depth: usize, defines: &Defines) -> Parsed<Vec<Value>> {
    let mut values = Vec::new();
    if scan.take(end)? {
        return Ok(values);
    }
    loop {
        values.push(value(scan, depth + 1, defines)?);
        if scan.take(end)? {
            return Ok(values);
        }
        scan.expect(",")?;
    }
}

fn value(scan: &mut Scanner<'_>, depth: usize, defines: &Defines) -> Parsed<Value> {
    if depth > DEEPEST {
        return scan.error(format!("values are nested more than {DEEPEST} deep"));
    }
    let first = single(scan, depth, defines)?;
    if scan.peek()? != Some('|') {
        return Ok(first);
    }
    let mut all = vec![first];
    while scan.take("|")? {
        all.push(single(scan, depth, defines)?);
    }
    Ok(Value::Or(all))
}

fn single(scan: &mut Scanner<'_>, depth: usize, defines: &Defines) -> Parsed<Value> {
    match scan.peek()? {
        Some('.') => {
            scan.expect("...")?;
            Ok(Value::Ellipsis)
        }
        Some('[') => {
            scan.expect("[")?;
            Ok(Value::List(list(scan, "]", depth, defines)?))
        }
        Some('{') => {
            scan.expect("{")?;
            // `{..., 1000}` of an iovec; else fields.
            match scan.peek()? {
                Some(first) if first == '.' || first == '"' || first.is_ascii_digit() => {
                    Ok(Value::List(list(scan, "}", depth, defines)?))
                }
                _ => fields(scan, depth, defines),
            }
        }
        Some('"') => {
            // Several strings are one; "abc"... is the start of one.
            let mut text = String::new();
            while scan.take("\"")? {
                text.push_str(scan.string()?);
            }
            scan.take("...")?;
            Ok(Value::Text(text))
        }
        Some('-') => {
            scan.expect("-")?;
            Ok(Value::Number(-number(scan)?))
        }
        Some(digit) if digit.is_ascii_digit() => Ok(Value::Number(number(scan)?)),
        _ => named(scan, depth, defines),
    }
}

/// A constant, or a function of values.
fn named(scan: &mut Scanner<'_>, depth: usize, defines: &Defines) -> Parsed<Value> {
    let Some(name) = scan.name()? else {
        let found = scan.found();
        return scan.error(format!("expected a value, found {found}"));
    };
    let place = scan.place();
    if scan.take("(")? {
        let arguments = list(scan, ")", depth, defines)?;
        return Ok(Value::Function(name.into(), arguments));
    }
    match defines.get(name) {
        Some(defined) => Ok(defined.clone()),
        None if constants::is_known(name) || errno::is_known(name) => Ok(Value::Name(name.into())),
        None => {
            let text = format!("the constant {name} is not known to this runner");
            scan.error_at(place, text)
        }
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

fn fields(scan: &mut Scanner<'_>, depth: usize, defines: &Defines) -> Parsed<Value> {
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
        // The length of `msg_name(...)=...` and `msg_iov(2)=[...]`.
        if scan.take("(")? {
            value(scan, depth + 1, defines)?;
            scan.expect(")")?;
        }
        scan.expect("=")?;
        fields.push((name.into(), value(scan, depth + 1, defines)?));
        if scan.peek()? != Some('}') {
            scan.expect(",")?;
        }
    }
}

#[cfg(test)]
#[path = "parse_tests.rs"]
mod tests;
