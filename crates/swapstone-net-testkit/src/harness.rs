// SPDX-License-Identifier: MIT OR Apache-2.0
//! The harness: runs each test on each backend in a separate process, and prints the table.

use std::io::Read;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use swapstone_net::fixes::Fixes;

use crate::backend::{self, BACKENDS, Backend};
use crate::context::{Context, EXIT_UNAVAILABLE, Family, Test};
use crate::tests;

const HELP: &str = "\
Usage: conformance [FILTER...] [--backend NAME]... [--slow] [--json] [--list] [--jobs N] [--seed N] [--fixes TEXT]
Runs every test whose name contains a FILTER (all without one) on every backend, each in a process of its own.
  --backend NAME  only on this one; may be repeated
  --slow          the slow tests too
  --json          machine-readable results instead of the table
  --list          only names
  --jobs N        as many processes at once (1 if not given)
  --fixes TEXT    of the stack's fixes, none (shipped) or all but one (without-NAME)
  --seed N        another seed for the link and the stack: 0 to 255 (1 if not given)
The exit code is 0 if nothing failed. Unavailable tests don't fail.";

/// The result of a test.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Ok,
    Failed(String),
    Unavailable(String),
}

/// A test, a backend and an IP version.
struct Case {
    test: &'static Test,
    backend: &'static Backend,
    family: Family,
}

struct Finished {
    case: Case,
    outcome: Outcome,
    notes: Vec<String>,
}

struct Running {
    case: Case,
    child: Child,
    started: Instant,
}

#[derive(Default)]
struct Arguments {
    filters: Vec<String>,
    backends: Vec<String>,
    one: Option<(String, String)>,
    family: Option<Family>,
    seed: Option<u8>,
    fixes: String,
    jobs: Option<usize>,
    slow: bool,
    json: bool,
    list: bool,
}

fn parse(given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut arguments = Arguments::default();
    let mut given = given;
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--backend" => arguments.backends.push(value()?),
            "--one" => arguments.one = Some((value()?, value()?)),
            "--family" => {
                arguments.family = match value()?.as_str() {
                    "v4" => Some(Family::V4),
                    "v6" => Some(Family::V6),
                    other => return Err(format!("no version of IP is called {other}")),
                }
            }
            "--seed" => arguments.seed = Some(number(&value()?)?),
            "--fixes" => arguments.fixes = value()?,
            "--jobs" => arguments.jobs = Some(number(&value()?)?),
            "--slow" => arguments.slow = true,
            "--json" => arguments.json = true,
            "--list" => arguments.list = true,
            // Options that `cargo test` passes to every test program.
            "--nocapture" | "--quiet" | "-q" | "--include-ignored" | "--exact" => {}
            option if option.starts_with('-') => return Err(HELP.into()),
            _ => arguments.filters.push(argument),
        }
    }
    match arguments
        .backends
        .iter()
        .find(|name| backend::named(name).is_none())
    {
        Some(name) => Err(format!("there is no backend {name}; there are {}", names())),
        None => Ok(arguments),
    }
}

fn number<N: std::str::FromStr>(text: &str) -> Result<N, String> {
    text.parse()
        .map_err(|_| format!("{text} is no such number"))
}

fn names() -> String {
    let names: Vec<_> = BACKENDS.iter().map(|backend| backend.name).collect();
    names.join(", ")
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let arguments = match parse(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if let Some((test, backend)) = &arguments.one {
        return one(test, backend, &arguments);
    }
    let cases = cases(&arguments);
    if arguments.list {
        for case in &cases {
            println!(
                "{} {} {}",
                case.test.name,
                case.family.name(),
                case.backend.name
            );
        }
        return ExitCode::SUCCESS;
    }
    let finished = run(cases, &arguments);
    if arguments.json {
        print!("{}", json(&finished));
    } else {
        print!("{}", table(&finished));
    }
    let failed = |one: &Finished| matches!(one.outcome, Outcome::Failed(_));
    ExitCode::from(u8::from(finished.iter().any(failed)))
}

/// Runs one test in this process.
fn one(test: &str, backend: &str, arguments: &Arguments) -> ExitCode {
    let (Some(test), Some(backend)) = (tests::named(test), backend::named(backend)) else {
        eprintln!("there is no test {test} or no backend {backend}");
        return ExitCode::from(2);
    };
    let Some(fixes) = Fixes::parse(backend.fixes, &arguments.fixes) else {
        eprintln!("{} has no fixes {}", backend.name, arguments.fixes);
        return ExitCode::from(2);
    };
    let context = Context {
        backend,
        fixes,
        family: arguments.family.unwrap_or(Family::V4),
        slow: arguments.slow,
        seed: arguments.seed.unwrap_or(1),
    };
    (test.run)(&context);
    ExitCode::SUCCESS
}

fn cases(arguments: &Arguments) -> Vec<Case> {
    let wanted = |test: &Test| {
        let filters = &arguments.filters;
        let named = filters.is_empty() || filters.iter().any(|part| test.name.contains(part));
        named && !test.hidden && (arguments.slow || !test.slow)
    };
    let mut cases = Vec::new();
    for test in tests::all().filter(|test| wanted(test)) {
        for &family in test.families {
            for backend in BACKENDS {
                let names = &arguments.backends;
                if names.is_empty() || names.iter().any(|name| name == backend.name) {
                    cases.push(Case {
                        test,
                        backend,
                        family,
                    });
                }
            }
        }
    }
    cases
}

fn start(case: &Case, arguments: &Arguments) -> Child {
    let program = std::env::current_exe().expect("a process has a program");
    let mut command = Command::new(program);
    command
        .args(["--one", case.test.name, case.backend.name])
        .args(["--family", case.family.name()])
        .args(["--seed", &arguments.seed.unwrap_or(1).to_string()])
        .args(["--fixes", &arguments.fixes])
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if arguments.slow {
        command.arg("--slow");
    }
    command.spawn().expect("it runs already")
}

fn run(cases: Vec<Case>, arguments: &Arguments) -> Vec<Finished> {
    let jobs = arguments.jobs.unwrap_or(1).max(1);
    let mut waiting = cases.into_iter();
    let mut running: Vec<Running> = Vec::new();
    let mut finished = Vec::new();
    loop {
        while running.len() < jobs {
            let Some(case) = waiting.next() else { break };
            running.push(Running {
                child: start(&case, arguments),
                case,
                started: Instant::now(),
            });
        }
        if running.is_empty() {
            break;
        }
        let mut at = 0;
        while at < running.len() {
            match ended(&mut running[at]) {
                Some(outcome) => {
                    let one = running.remove(at);
                    finished.push(judge(one, outcome));
                }
                None => at += 1,
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    // Processes end in any order; the table has the order of the list.
    let place = |one: &Finished| tests::all().position(|test| test.name == one.case.test.name);
    finished.sort_by_key(place);
    finished
}

/// Returns whether a process has ended; after its time limit it is killed: `Some(None)`.
#[expect(clippy::option_option, reason = "running, stopped and ended are three")]
fn ended(running: &mut Running) -> Option<Option<i32>> {
    if let Some(status) = running.child.try_wait().expect("it is our child") {
        return Some(Some(status.code().unwrap_or(-1)));
    }
    if running.started.elapsed() < Duration::from_secs(running.case.test.patience) {
        return None;
    }
    running.child.kill().expect("it is our child");
    running.child.wait().expect("it is our child");
    Some(None)
}

fn judge(mut running: Running, code: Option<i32>) -> Finished {
    // Tests print a few lines, which a pipe can hold.
    let mut text = String::new();
    let mut errors = String::new();
    if let Some(out) = &mut running.child.stdout {
        let _ = out.read_to_string(&mut text);
    }
    if let Some(out) = &mut running.child.stderr {
        let _ = out.read_to_string(&mut errors);
    }
    let lines = |prefix: &str| -> Vec<String> {
        let with = text.lines().filter_map(|line| line.strip_prefix(prefix));
        with.map(String::from).collect()
    };
    let outcome = match code {
        Some(0) => Outcome::Ok,
        Some(EXIT_UNAVAILABLE) => Outcome::Unavailable(lines("unavailable: ").join("; ")),
        Some(code) => Outcome::Failed(reason(&errors, code)),
        None => Outcome::Failed(format!("not within {} s", running.case.test.patience)),
    };
    Finished {
        notes: lines("note: "),
        case: running.case,
        outcome,
    }
}

/// Returns the message of a panic.
fn reason(errors: &str, code: i32) -> String {
    let mut lines = errors
        .lines()
        .skip_while(|line| !line.contains("panicked at"));
    let place = lines.next().unwrap_or_default();
    let place = place
        .split("panicked at ")
        .nth(1)
        .unwrap_or("")
        .trim_end_matches(':');
    let message: Vec<_> = lines
        .take_while(|line| !line.starts_with("note: run with"))
        .map(str::trim)
        .collect();
    match message.is_empty() {
        true => format!("exit code {code}: {}", errors.lines().last().unwrap_or("")),
        false => format!("{} ({place})", message.join(" ")),
    }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Ok => "ok",
        Outcome::Failed(_) => "FAILED",
        Outcome::Unavailable(_) => "unavailable",
    }
}

/// The table: one row per test, with both IP versions in a cell.
fn table(finished: &[Finished]) -> String {
    let mut text = String::new();
    let backends: Vec<_> = BACKENDS
        .iter()
        .filter(|backend| {
            finished
                .iter()
                .any(|one| one.case.backend.name == backend.name)
        })
        .collect();
    let width = finished
        .iter()
        .map(|one| one.case.test.name.len())
        .max()
        .unwrap_or(4);
    text += &format!("{:width$}", "test");
    for backend in &backends {
        text += &format!("  {:24}", backend.name);
    }
    text = text.trim_end().into();
    text.push('\n');
    let mut rows: Vec<&Test> = finished.iter().map(|one| one.case.test).collect();
    rows.dedup_by_key(|test| test.name);
    for test in rows {
        let mut row = format!("{:width$}", test.name);
        for backend in &backends {
            row += &format!("  {:24}", cell(finished, test, backend));
        }
        text += row.trim_end();
        text.push('\n');
    }
    for backend in &backends {
        text += &details(finished, backend);
    }
    text
}

fn cell(finished: &[Finished], test: &Test, backend: &Backend) -> String {
    let here: Vec<_> = finished
        .iter()
        .filter(|one| one.case.test.name == test.name && one.case.backend.name == backend.name)
        .collect();
    match here.as_slice() {
        [only] => word(&only.outcome).into(),
        [first, rest @ ..]
            if rest
                .iter()
                .all(|one| word(&one.outcome) == word(&first.outcome)) =>
        {
            word(&first.outcome).into()
        }
        several => {
            let words = several
                .iter()
                .map(|one| format!("{} {}", one.case.family.name(), word(&one.outcome)));
            words.collect::<Vec<_>>().join(", ")
        }
    }
}

/// Numbers of results, reasons and notes.
fn details(finished: &[Finished], backend: &Backend) -> String {
    let here: Vec<_> = finished
        .iter()
        .filter(|one| one.case.backend.name == backend.name)
        .collect();
    let count = |what: &str| here.iter().filter(|one| word(&one.outcome) == what).count();
    let mut text = format!(
        "\n{}: {} ok, {} failed, {} unavailable\n",
        backend.name,
        count("ok"),
        count("FAILED"),
        count("unavailable")
    );
    for one in here {
        let name = format!("{} {}", one.case.test.name, one.case.family.name());
        match &one.outcome {
            Outcome::Ok => {}
            Outcome::Failed(why) => text += &format!("  FAILED {name}: {why}\n"),
            Outcome::Unavailable(why) => text += &format!("  unavailable {name}: {why}\n"),
        }
        for note in &one.notes {
            text += &format!("  note {name}: {note}\n");
        }
    }
    text
}

/// All results, one object per line.
fn json(finished: &[Finished]) -> String {
    let mut text = String::from("[\n");
    for (at, one) in finished.iter().enumerate() {
        let why = match &one.outcome {
            Outcome::Ok => String::new(),
            Outcome::Failed(why) | Outcome::Unavailable(why) => why.clone(),
        };
        let notes: Vec<_> = one.notes.iter().map(|note| quoted(note)).collect();
        text += &format!(
            "{{\"test\": {}, \"ip\": {}, \"backend\": {}, \"outcome\": {}, \"reason\": {}, \"notes\": [{}]}}{}\n",
            quoted(one.case.test.name),
            quoted(one.case.family.name()),
            quoted(one.case.backend.name),
            quoted(&word(&one.outcome).to_lowercase()),
            quoted(&why),
            notes.join(", "),
            if at + 1 < finished.len() { "," } else { "" }
        );
    }
    text + "]\n"
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control < ' ' => out += &format!("\\u{:04x}", u32::from(control)),
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod unit {
    use super::*;

    #[test]
    fn names_are_unique() {
        let mut names: Vec<_> = tests::all().map(|test| test.name).collect();
        names.sort_unstable();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn the_documents_table_names_tests_that_exist() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/netstack-tests.md");
        let Ok(text) = std::fs::read_to_string(path) else {
            eprintln!("skipped: the document is not here");
            return;
        };
        let mut named = 0;
        for row in text.lines().filter(|line| line.starts_with('|')) {
            let last = row.trim_end_matches(" |").rsplit("| ").next();
            let name = last.unwrap_or_default().trim_matches('`');
            if let Some(area) = name.strip_suffix('*') {
                let of = tests::all().filter(|test| test.name.starts_with(area));
                assert!(area.ends_with(':') && of.count() > 0, "no area {area}");
            } else if name.contains(": ") && !name.starts_with("limits.rs") {
                assert!(tests::named(name).is_some(), "no test {name}");
            } else {
                continue;
            }
            named += 1;
        }
        assert!(named > 50, "{named} names were found");
    }

    #[test]
    fn text_is_quoted() {
        assert_eq!(quoted("a\"b\\c\n"), "\"a\\\"b\\\\c\\u000a\"");
    }

    #[test]
    fn a_panic_gives_its_message() {
        let errors = "\nthread 'main' panicked at src/x.rs:3:4:\nleft\n  right\nnote: run with `RUST_BACKTRACE`";
        assert_eq!(reason(errors, 101), "left right (src/x.rs:3:4)");
        assert_eq!(reason("killed", -1), "exit code -1: killed");
    }

    #[test]
    fn unknown_words_are_refused() {
        let of = |text: &str| parse(text.split(' ').map(String::from));
        assert!(of("--what").is_err());
        assert!(of("--seed 300").is_err());
        assert!(of("--backend absent").is_err());
        let good = of("tcp --slow --jobs 2").ok().unwrap();
        assert_eq!(
            (good.filters, good.jobs, good.slow),
            (vec!["tcp".into()], Some(2), true)
        );
    }
}
