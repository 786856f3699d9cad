// SPDX-License-Identifier: MIT OR Apache-2.0
//! Assertions about a socket's `tcp_info`, in the Python code of scripts.
//!
//! No Python is executed. A piece of code is read as data if all of it is comparisons and assignments
//! of whole numbers, such as `assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd`.

use std::collections::BTreeMap;

use crate::scan::{Parsed, Scanner};

/// Fields of `struct tcp_info` of Linux (`linux/tcp.h`): name, place in bytes, and size in bytes.
const FIELDS: &[(&str, usize, usize)] = &[
    ("tcpi_state", 0, 1),
    ("tcpi_ca_state", 1, 1),
    ("tcpi_retransmits", 2, 1),
    ("tcpi_probes", 3, 1),
    ("tcpi_backoff", 4, 1),
    ("tcpi_options", 5, 1),
    ("tcpi_rto", 8, 4),
    ("tcpi_ato", 12, 4),
    ("tcpi_snd_mss", 16, 4),
    ("tcpi_rcv_mss", 20, 4),
    ("tcpi_unacked", 24, 4),
    ("tcpi_sacked", 28, 4),
    ("tcpi_lost", 32, 4),
    ("tcpi_retrans", 36, 4),
    ("tcpi_last_data_sent", 44, 4),
    ("tcpi_last_data_recv", 52, 4),
    ("tcpi_last_ack_recv", 56, 4),
    ("tcpi_pmtu", 60, 4),
    ("tcpi_rcv_ssthresh", 64, 4),
    ("tcpi_rtt", 68, 4),
    ("tcpi_rttvar", 72, 4),
    ("tcpi_snd_ssthresh", 76, 4),
    ("tcpi_snd_cwnd", 80, 4),
    ("tcpi_advmss", 84, 4),
    ("tcpi_reordering", 88, 4),
    ("tcpi_total_retrans", 100, 4),
    ("tcpi_bytes_acked", 120, 8),
    ("tcpi_bytes_received", 128, 8),
    ("tcpi_segs_out", 136, 4),
    ("tcpi_segs_in", 140, 4),
    ("tcpi_notsent_bytes", 144, 4),
    ("tcpi_min_rtt", 148, 4),
    ("tcpi_busy_time", 168, 8),
    ("tcpi_rwnd_limited", 176, 8),
    ("tcpi_sndbuf_limited", 184, 8),
    ("tcpi_delivered", 192, 4),
    ("tcpi_delivered_ce", 196, 4),
    ("tcpi_reord_seen", 220, 4),
];

/// Numbers of Linux that scripts compare with.
const CONSTANTS: &[(&str, i64)] = &[
    ("TCPI_OPT_TIMESTAMPS", 1),
    ("TCPI_OPT_SACK", 2),
    ("TCPI_OPT_WSCALE", 4),
    ("TCPI_OPT_ECN", 8),
    ("TCPI_OPT_ECN_SEEN", 16),
    ("TCPI_OPT_SYN_DATA", 32),
    ("TCP_CA_Open", 0),
    ("TCP_CA_Disorder", 1),
    ("TCP_CA_CWR", 2),
    ("TCP_CA_Recovery", 3),
    ("TCP_CA_Loss", 4),
    ("TCP_ESTABLISHED", 1),
    ("TCP_SYN_SENT", 2),
    ("TCP_SYN_RECV", 3),
    ("TCP_FIN_WAIT1", 4),
    ("TCP_FIN_WAIT2", 5),
    ("TCP_TIME_WAIT", 6),
    ("TCP_CLOSE", 7),
    ("TCP_CLOSE_WAIT", 8),
    ("TCP_LAST_ACK", 9),
    ("TCP_LISTEN", 10),
    ("TCP_CLOSING", 11),
];

const COMPARISONS: [&str; 6] = ["==", "!=", "<=", ">=", "<", ">"];
/// How deep parentheses may be nested.
const DEEPEST: usize = 8;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Term {
    Number(i64),
    Name(String),
    Operation(char, Box<(Self, Self)>),
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Statement {
    /// Each pair is compared, as in `1 <= a <= 2`.
    Assert(Term, Vec<(&'static str, Term)>, String),
    /// `name = term`, or `+=`.
    Set(String, bool, Term),
}

/// A piece of code that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assertions(Vec<Statement>);

/// The variables of a script.
pub type Variables = BTreeMap<String, i64>;

/// Reads a piece of code; `None` if it has anything but comparisons, assignments and `print`.
///
/// # Arguments
///
/// * `known`: the names that the code before has assigned; those of this piece are added.
pub fn read(code: &str, known: &mut Vec<String>) -> Option<Assertions> {
    let mut statements = Vec::new();
    for line in code.replace("\\\n", " ").split(['\n', ';']) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() || line.starts_with("print(") && line.ends_with(')') {
            continue;
        }
        statements.push(statement(line, known).ok()?);
    }
    Some(Assertions(statements))
}

fn statement(line: &str, known: &mut Vec<String>) -> Parsed<Statement> {
    let mut scan = Scanner::new(line);
    if !scan.keyword("assert")? {
        let name = scan.name()?.unwrap_or("").to_owned();
        let adds = scan.take("+=")?;
        if name.is_empty() || !adds && !scan.take("=")? {
            return scan.error("no assignment");
        }
        let term = masked(&mut scan, known, 0)?;
        if scan.peek()?.is_some() || adds && !known.contains(&name) {
            return scan.error("no assignment");
        }
        known.push(name.clone());
        return Ok(Statement::Set(name, adds, term));
    }
    let first = masked(&mut scan, known, 0)?;
    let mut others = Vec::new();
    'chain: loop {
        for comparison in COMPARISONS {
            if scan.take(comparison)? {
                others.push((comparison, masked(&mut scan, known, 0)?));
                continue 'chain;
            }
        }
        break;
    }
    let rest = scan.rest().trim();
    if others.is_empty() || !(rest.is_empty() || rest.starts_with(',')) {
        return scan.error("no comparison");
    }
    let text = line[..line.len() - rest.len()].trim_start_matches("assert");
    Ok(Statement::Assert(first, others, text.trim().into()))
}

/// Terms combined by `&`, which binds less than `+` does.
fn masked(scan: &mut Scanner<'_>, known: &[String], depth: usize) -> Parsed<Term> {
    combined(scan, &['&'], &|scan| {
        combined(scan, &['+', '-'], &|scan| {
            combined(scan, &['*'], &|scan| single(scan, known, depth))
        })
    })
}

fn combined(
    scan: &mut Scanner<'_>,
    operators: &[char],
    inner: &dyn Fn(&mut Scanner<'_>) -> Parsed<Term>,
) -> Parsed<Term> {
    let mut term = inner(scan)?;
    while let Some(operator) = scan.peek()?.filter(|each| operators.contains(each)) {
        scan.expect(operator.encode_utf8(&mut [0; 4]))?;
        term = Term::Operation(operator, Box::new((term, inner(scan)?)));
    }
    Ok(term)
}

fn single(scan: &mut Scanner<'_>, known: &[String], depth: usize) -> Parsed<Term> {
    if depth > DEEPEST {
        return scan.error("too deep");
    }
    if scan.take("(")? {
        let term = masked(scan, known, depth + 1)?;
        scan.expect(")")?;
        return Ok(term);
    }
    if scan.take("0x")? {
        let digits = scan.word(|each| each.is_ascii_hexdigit())?;
        return match i64::from_str_radix(digits, 16) {
            Ok(number) => Ok(Term::Number(number)),
            Err(_) => scan.error("no number"),
        };
    }
    let Some(name) = scan.name()? else {
        let number = scan.number("a number", 1 << 62)?;
        return Ok(Term::Number(i64::try_from(number).expect("it was checked")));
    };
    if let Some((_, number)) = CONSTANTS.iter().find(|(each, _)| *each == name) {
        return Ok(Term::Number(*number));
    }
    if FIELDS.iter().any(|(each, ..)| *each == name) || known.iter().any(|each| each == name) {
        return Ok(Term::Name(name.into()));
    }
    scan.error("an unknown name")
}

impl Assertions {
    /// Evaluates the code.
    ///
    /// # Arguments
    ///
    /// * `info`: what `TCP_INFO` returned.
    ///
    /// # Errors
    ///
    /// The assertion that is false, and the values of its names.
    pub fn evaluate(&self, info: &[u8], variables: &mut Variables) -> Result<(), (String, String)> {
        for statement in &self.0 {
            match statement {
                Statement::Set(name, adds, term) => {
                    let before = if *adds {
                        variables.get(name).copied()
                    } else {
                        Some(0)
                    };
                    let value = value(term, info, variables);
                    let sum = before.and_then(|before| before.checked_add(value?));
                    let unknown = || (format!("{name} has a value"), "none".into());
                    variables.insert(name.clone(), sum.ok_or_else(unknown)?);
                }
                Statement::Assert(first, others, text) => {
                    let mut left = first;
                    for (comparison, right) in others {
                        let pair = (value(left, info, variables), value(right, info, variables));
                        let holds = matches!(pair, (Some(left), Some(right)) if match *comparison {
                            "==" => left == right,
                            "!=" => left != right,
                            "<=" => left <= right,
                            ">=" => left >= right,
                            "<" => left < right,
                            _ => left > right,
                        });
                        if !holds {
                            let shown = names(first, others).map(|name| {
                                let number = named(name, info, variables);
                                let number = number.map_or("not known".into(), |it| it.to_string());
                                format!("{name} is {number}")
                            });
                            return Err((text.clone(), shown.collect::<Vec<_>>().join(", ")));
                        }
                        left = right;
                    }
                }
            }
        }
        Ok(())
    }
}

fn names<'a>(first: &'a Term, others: &'a [(&'static str, Term)]) -> impl Iterator<Item = &'a str> {
    let mut waiting: Vec<&Term> = others.iter().map(|(_, term)| term).rev().collect();
    waiting.push(first);
    std::iter::from_fn(move || {
        while let Some(term) = waiting.pop() {
            match term {
                Term::Number(_) => {}
                Term::Name(name) => return Some(name.as_str()),
                Term::Operation(_, pair) => waiting.extend([&pair.1, &pair.0]),
            }
        }
        None
    })
}

fn named(name: &str, info: &[u8], variables: &Variables) -> Option<i64> {
    let Some((_, at, size)) = FIELDS.iter().find(|(each, ..)| *each == name) else {
        return variables.get(name).copied();
    };
    let mut bytes = [0; 8];
    bytes[..*size].copy_from_slice(info.get(*at..at + size)?);
    i64::try_from(u64::from_le_bytes(bytes)).ok()
}

fn value(term: &Term, info: &[u8], variables: &Variables) -> Option<i64> {
    match term {
        Term::Number(number) => Some(*number),
        Term::Name(name) => named(name, info, variables),
        Term::Operation(operator, pair) => {
            let left = value(&pair.0, info, variables)?;
            let right = value(&pair.1, info, variables)?;
            match operator {
                '&' => Some(left & right),
                '+' => left.checked_add(right),
                '-' => left.checked_sub(right),
                _ => left.checked_mul(right),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `tcp_info` with a window of 10 segments, state 1, data in the SYN, and 200 us.
    fn info() -> Vec<u8> {
        let mut info = vec![0; 232];
        (info[0], info[5], info[80], info[68]) = (1, 32 | 2, 10, 200);
        info
    }

    fn outcome(code: &str) -> Result<(), (String, String)> {
        let read = read(code, &mut Vec::new()).expect("it is understood");
        read.evaluate(&info(), &mut Variables::new())
    }

    #[test]
    fn comparisons_of_fields_constants_and_variables_are_evaluated() {
        for good in [
            "assert tcpi_snd_cwnd == 10, tcpi_snd_cwnd",
            "assert (tcpi_options & TCPI_OPT_SYN_DATA) != 0, tcpi_options",
            "assert 100 <= tcpi_rtt <= 2 * (3 + 100), 'srtt=%d us' % tcpi_rtt",
            "cwnd = 9\ncwnd += 1 # one more\nassert tcpi_snd_cwnd == cwnd; print(tcpi_snd_cwnd)",
            "assert tcpi_state == TCP_ESTABLISHED, \\\n 'state'",
            "X = 0x7fffffff\nassert X > tcpi_rtt - 201",
        ] {
            assert_eq!(outcome(good), Ok(()), "{good}");
        }
        let wrong = outcome("assert 1 <= tcpi_snd_cwnd < 10, tcpi_snd_cwnd");
        let (text, seen) = wrong.unwrap_err();
        assert_eq!(
            (&*text, &*seen),
            ("1 <= tcpi_snd_cwnd < 10", "tcpi_snd_cwnd is 10")
        );
        assert!(outcome("a = 4611686018427387904\na += a\nassert a != 1").is_err());
        assert!(outcome("assert tcpi_ca_state == TCP_CA_Recovery").is_err());
    }

    #[test]
    fn all_other_code_is_not_understood() {
        for other in [
            "assert True",
            "assert x == 1",
            "assert tcpi_rtt",
            "import os",
            "assert __import__('os').system('x') == 0",
            "assert tcpi_rtt == 1 or 1",
            "if tcpi_rtt: pass",
            "y += 1",
            "tcpi_rtt",
            "assert 1 == 99999999999999999999",
        ] {
            assert_eq!(read(other, &mut Vec::new()), None, "{other}");
        }
        let deep = format!("assert {}1{} == 1", "(".repeat(99), ")".repeat(99));
        assert_eq!(read(&deep, &mut Vec::new()), None);
    }

    #[test]
    fn a_kernel_without_a_field_makes_its_assertion_false() {
        let read = read("assert tcpi_delivered == 0", &mut Vec::new()).unwrap();
        let (_, seen) = read
            .evaluate(&info()[..192], &mut Variables::new())
            .unwrap_err();
        assert_eq!(seen, "tcpi_delivered is not known");
    }
}
