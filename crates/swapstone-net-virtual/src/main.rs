//! Two stacks on a link in memory: goodput against loss, delay and reordering, exact and the same on every machine.
//!
//! One stack is measured, the other is its peer. The clock is virtual: it moves only when both wait, so that figures don't depend on the
//! machine or its load. All chance comes from `--seed`. The hash over all frames tells whether two runs were the same one.

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
