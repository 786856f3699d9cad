// SPDX-License-Identifier: MIT OR Apache-2.0
//! Servers and clients over every stack, including the kernel's: `swapstone-net-bench --stack
//! kernel http`.
//!
//! It prints a line of JSON when it is ready, and one when it ends: by itself, or by SIGINT or
//! SIGTERM. `swapstone-net-bench trial` runs both sides in separate network namespaces for
//! Swapstone: see trial/mod.rs.

mod app;
mod count;
mod latency;
mod options;
mod report;
mod roles;
mod stacks;
mod trial;
#[cfg(any(feature = "lwip", feature = "smoltcp"))]
mod tuning;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::options::{Asked, HELP, Options};

fn main() -> ExitCode {
    if std::env::args_os()
        .nth(1)
        .is_some_and(|word| word == "trial")
    {
        return ended(trial::run());
    }
    let options = match options::parse() {
        Ok(Asked::Help) => {
            print!("{HELP}");
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Run(options)) => options,
        Err(error) => {
            eprintln!("swapstone-net-bench: {error}. See --help.");
            return ExitCode::from(2);
        }
    };
    ended(run(*options))
}

fn ended(result: Result<(), Box<dyn std::error::Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("swapstone-net-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: Options) -> Result<(), Box<dyn std::error::Error>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&stop))?;
    }
    stacks::run(&options, &stop)
}
