// SPDX-License-Identifier: MIT OR Apache-2.0
//! Scripts of the public dialect pass, fail, or are refused with the place and what is not supported.
//!
//! The first lines of each script in `tests/dialect` state the outcome on each stack.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;

use serde_json::Value;

/// The expected outcomes of a script, by stack.
fn expected(path: &PathBuf) -> BTreeMap<String, String> {
    let text = std::fs::read_to_string(path).unwrap();
    let mut found = BTreeMap::new();
    for line in text.lines().map_while(|line| line.strip_prefix("// ")) {
        let Some((stacks, outcome)) = line.split_once(": ") else {
            break;
        };
        for stack in stacks.split(',') {
            found.insert(stack.to_owned(), outcome.to_owned());
        }
    }
    found
}

#[test]
fn each_script_is_run_or_refused_as_it_states() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/dialect");
    let mut scripts: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    scripts.sort();
    assert!(scripts.len() >= 40, "{} scripts", scripts.len());
    // The kernel runs in real time, so its outcomes are not tested here.
    let output = Command::new(env!("CARGO_BIN_EXE_swapstone-net-packetdrill"))
        .args(["--stack", "lwip,smoltcp"])
        .args(&scripts)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), 2 * scripts.len(), "{text}");
    for line in text.lines() {
        let seen: Value = serde_json::from_str(line).unwrap();
        let word = |name: &str| seen[name].as_str().unwrap_or("").to_owned();
        let outcome = match word("outcome").as_str() {
            "unsupported" | "bad-script" => {
                format!("{}:{}: {}", seen["line"], seen["column"], word("reason"))
            }
            other => other.to_owned(),
        };
        let wanted = &expected(&word("script").into())[&word("stack")];
        assert!(outcome.starts_with(wanted), "{wanted} is expected: {line}");
    }
}
