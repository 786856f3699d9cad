// SPDX-License-Identifier: MIT OR Apache-2.0
//! Two stacks on an in-memory link: goodput against loss, delay and reordering, exact and equal on
//! every machine.
//!
//! One stack is measured, the other is its peer. The clock is virtual: it advances only when both
//! wait, so figures don't depend on the machine or its load. All random outcomes follow from
//! `--seed`. The digest of all frames shows whether two runs were equal.

mod options;
mod program;
mod run;

use std::process::ExitCode;

use options::Asked;

fn main() -> ExitCode {
    let result = match options::parse() {
        Ok(Asked::Help) => {
            print!("{}", options::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Run(options)) => run::run(&options),
        Err(error) => Err(error),
    };
    match result {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("swapstone-net-virtual: {error}");
            ExitCode::from(2)
        }
    }
}
