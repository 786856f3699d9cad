// SPDX-License-Identifier: MIT OR Apache-2.0
//! The command line: runs each script on each stack in a process of its own, and prints a line of
//! JSON for each.
//!
//! A process can have one lwIP, and a stack may panic or hang.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use swapstone_net::fixes::Fixes;
use swapstone_net_testkit::backend::{self, Backend};

use crate::kernel_system::KernelSystem;
use crate::parse::{self, Code, LARGEST};
use crate::run::{self, Failure};
use crate::scan::BadScript;
use crate::script::Script;
use crate::virtual_system::VirtualSystem;

const HELP: &str = "\
Usage: swapstone-net-packetdrill SCRIPT... [--stack NAMES] [--jobs N] [--kernel-tolerance-usecs N] [--skip-code]
Runs packetdrill scripts, each on each stack in a process of its own, and prints a line of JSON for each as it ends.
  --stack NAMES               of lwip, smoltcp and kernel, separated by commas (lwip,smoltcp if not given);
                              lwip:shipped has none of its fixes, lwip:without-FIX all but one
  --jobs N                    as many processes at once (2 if not given)
  --kernel-tolerance-usecs N  the least tolerance of times over the kernel, which runs in real time (100000)
  --skip-code                 leave out shell commands and Python code; else a script with them is refused
Nothing of a script is executed on this machine.
The exit code is 0 if all scripts passed, 1 if one did not, and 2 for a wrong option.";

const KERNEL: &str = "kernel";
/// How long a script may take over the kernel, and in a stack of this process.
const LONGEST: Duration = Duration::from_secs(300);
/// How often a failed script is tried over the kernel, whose clock goes on while the machine is busy.
const KERNEL_TRIES: u32 = 3;

struct Arguments {
    scripts: Vec<PathBuf>,
    stacks: Vec<String>,
    jobs: usize,
    least: u64,
    one: bool,
    code: Code,
}

struct Case {
    script: PathBuf,
    stack: String,
    tries: u32,
}

struct Running {
    case: Case,
    child: Child,
    started: Instant,
}

fn arguments(mut given: impl Iterator<Item = String>) -> Result<Arguments, String> {
    let mut found = Arguments {
        scripts: Vec::new(),
        stacks: vec!["lwip".into(), "smoltcp".into()],
        jobs: 2,
        least: 100_000,
        one: false,
        code: Code::Refused,
    };
    let number = |text: String| {
        text.parse::<u64>()
            .map_err(|_| format!("{text} is no number"))
    };
    while let Some(argument) = given.next() {
        let mut value = || given.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--stack" => found.stacks = value()?.split(',').map(String::from).collect(),
            "--jobs" => found.jobs = usize::try_from(number(value()?)?).unwrap_or(1).max(1),
            "--kernel-tolerance-usecs" => found.least = number(value()?)?,
            "--one" => found.one = true,
            "--skip-code" => found.code = Code::Skipped,
            option if option.starts_with('-') => return Err(HELP.into()),
            _ => found.scripts.push(argument.into()),
        }
    }
    let known = |name: &String| name == KERNEL || stack_of(name).is_some();
    match found.stacks.iter().find(|name| !known(name)) {
        Some(name) => Err(format!(
            "there is no stack {name}; there are lwip, smoltcp and kernel, and STACK:shipped and STACK:without-FIX of the first two"
        )),
        None if found.scripts.is_empty() => Err(HELP.into()),
        None => Ok(found),
    }
}

/// Returns a stack and its fixes by `STACK`, `STACK:shipped` or `STACK:without-FIX`.
fn stack_of(name: &str) -> Option<(&'static Backend, Fixes)> {
    let (stack, text) = name.split_once(':').unwrap_or((name, ""));
    let backend = backend::named(stack)?;
    Some((backend, Fixes::parse(backend.fixes, text)?))
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let arguments = match arguments(std::env::args().skip(1)) {
        Ok(arguments) => arguments,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    if arguments.one {
        println!("{}", one(&arguments));
        return ExitCode::SUCCESS;
    }
    ExitCode::from(u8::from(!all(&arguments)))
}

/// Reads and parses a script.
fn read(path: &PathBuf, code: Code) -> Result<Script, Value> {
    let bad = |line: usize, reason: String| json!({"outcome": "bad-script", "line": line, "reason": reason});
    let wrong = |error: BadScript| json!({"outcome": "bad-script", "line": error.line, "column": error.column, "reason": error.text});
    // Opening a pipe would wait for its writer.
    if std::fs::metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(bad(0, "it is no regular file".into()));
    }
    let file = std::fs::File::open(path).map_err(|error| bad(0, error.to_string()))?;
    let mut bytes = Vec::new();
    let most = LARGEST as u64 + 1;
    file.take(most)
        .read_to_end(&mut bytes)
        .map_err(|error| bad(0, error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| bad(0, "the script is not UTF-8".into()))?;
    parse::script(&text, code).map_err(wrong)
}

/// Runs one script on one stack in this process; returns its outcome.
fn one(arguments: &Arguments) -> Value {
    let script = match read(&arguments.scripts[0], arguments.code) {
        Ok(script) => script,
        Err(outcome) => return outcome,
    };
    let unavailable = |reason: String| json!({"outcome": "unavailable", "reason": reason});
    let stack = arguments.stacks[0].as_str();
    let mut skipped = script.skipped;
    let mut unevaluated = script.unevaluated + script.assertions;
    let done = if stack == KERNEL {
        let folder = arguments.scripts[0].parent().unwrap_or(Path::new("."));
        match KernelSystem::new(&script, folder) {
            Ok(mut system) => {
                let done = run::run(&script, &mut system, arguments.least);
                unevaluated = script.unevaluated;
                skipped = unevaluated + system.left_out;
                done
            }
            Err(error) => return unavailable(error.to_string()),
        }
    } else {
        let (backend, fixes) = stack_of(stack).expect("it was checked");
        match VirtualSystem::new(backend, fixes, script.mtu) {
            Ok(mut system) => run::run(&script, &mut system, 0),
            Err(reason) => return unavailable(reason),
        }
    };
    let mut found = match done {
        Ok(()) => json!({"outcome": "passed"}),
        Err(failure) => outcome(&failure),
    };
    found["skipped"] = skipped.into();
    found["unevaluated"] = unevaluated.into();
    found
}

fn outcome(failure: &Failure) -> Value {
    json!({
        "outcome": if failure.unsupported.is_some() { "unsupported" } else { "failed" },
        "line": failure.line,
        "column": failure.unsupported.unwrap_or(0),
        "reason": failure.reason,
        "expected": failure.expected,
        "seen": failure.seen,
    })
}

/// Runs all scripts on all stacks; returns whether all passed.
fn all(arguments: &Arguments) -> bool {
    let mut waiting: Vec<Case> = Vec::new();
    for script in arguments.scripts.iter().rev() {
        for stack in arguments.stacks.iter().rev() {
            waiting.push(Case {
                script: script.clone(),
                stack: stack.clone(),
                tries: 1,
            });
        }
    }
    let mut running: Vec<Running> = Vec::new();
    let mut good = true;
    while !waiting.is_empty() || !running.is_empty() {
        while running.len() < arguments.jobs
            && let Some(case) = waiting.pop()
        {
            running.push(start(case, arguments));
        }
        std::thread::sleep(Duration::from_millis(2));
        let mut at = 0;
        while at < running.len() {
            let Some(outcome) = ended(&mut running[at]) else {
                at += 1;
                continue;
            };
            let case = running.swap_remove(at).case;
            if case.stack == KERNEL && outcome["outcome"] == "failed" && case.tries < KERNEL_TRIES {
                let tries = case.tries + 1;
                waiting.insert(0, Case { tries, ..case });
                continue;
            }
            good &= outcome["outcome"] == "passed";
            print(&case, outcome);
        }
    }
    good
}

fn print(case: &Case, mut outcome: Value) {
    outcome["script"] = case.script.display().to_string().into();
    outcome["stack"] = case.stack.clone().into();
    println!("{outcome}");
}

fn start(case: Case, arguments: &Arguments) -> Running {
    let program = std::env::current_exe().expect("a process has a program");
    let child = Command::new(program)
        .args(["--one", "--stack", &case.stack])
        .args(["--kernel-tolerance-usecs", &arguments.least.to_string()])
        .args((arguments.code == Code::Skipped).then_some("--skip-code"))
        .arg(&case.script)
        .env("RUST_BACKTRACE", "0")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs already");
    Running {
        case,
        child,
        started: Instant::now(),
    }
}

/// Returns the outcome of a process that has ended, or that took too long.
fn ended(running: &mut Running) -> Option<Value> {
    let failed = |reason: String| json!({"outcome": "failed", "line": 0, "reason": reason, "expected": "", "seen": ""});
    match running.child.try_wait() {
        Ok(None) if running.started.elapsed() < LONGEST => None,
        Ok(None) => {
            let _ = running.child.kill();
            let _ = running.child.wait();
            Some(failed(format!(
                "it did not end within {} s",
                LONGEST.as_secs()
            )))
        }
        Ok(Some(_)) => {
            let mut text = String::new();
            if let Some(out) = running.child.stdout.take() {
                let _ = out.take(1 << 20).read_to_string(&mut text);
            }
            let parsed = text
                .lines()
                .next_back()
                .and_then(|line| serde_json::from_str(line).ok());
            Some(parsed.unwrap_or_else(|| {
                let mut error = String::new();
                if let Some(out) = running.child.stderr.take() {
                    let _ = out.take(1 << 12).read_to_string(&mut error);
                }
                let first: Vec<_> = error
                    .lines()
                    .filter(|line| !line.is_empty())
                    .take(2)
                    .collect();
                failed(format!("the stack panicked: {}", first.join(" ")))
            }))
        }
        Err(error) => Some(failed(error.to_string())),
    }
}
